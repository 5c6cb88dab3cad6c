"""Run an experiment of the paper, or your own, and compare the result with the published numbers.

    python run_experiment.py params/quickstart.yaml                                   # under a minute, everything in it
    python run_experiment.py params/mnist.yaml                                        # the whole table
    python run_experiment.py params/mnist.yaml --network ff+ --labels 100 --runs 3    # one cell of it
    python run_experiment.py --legacy "MNIST/r+-NeSi-L100"                            # a configuration of 2016

What happens:
    nesi.config        reads and checks the parameter file
    data_tools         loads the data
    nesi.experiment    executes the runs that are still to do and writes one record per run
    nesi.report        puts the results beside the paper's, draws the figures and writes one page with all of it

An interrupted experiment (Ctrl-C, a full disk, a power cut) is continued with --resume.
"""

import sys

from nesi.cli import run_main

if __name__ == "__main__":
    sys.exit(run_main())
