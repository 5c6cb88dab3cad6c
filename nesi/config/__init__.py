"""The parameter file: every parameter is declared here, once.

declaration          what a parameter means for records, overrides, tables, ...
values               what a value may be
network_parameters   the parameters of one network, for parameter files and for the estimator
parameters           all of a parameter file; sections and legacy_options are groups of keys inside it
paper_mode           the paper's own algorithm as one switch
reading, yaml_files  from a file to parameters
backends             what a backend can't do, and what is done instead
explanation          why a value was refused, in one sentence
"""

from nesi.config.parameters import ExperimentParameters, validated
from nesi.config.reading import load_parameters

__all__ = ["ExperimentParameters", "load_parameters", "validated"]
