"""For whoever has configurations, weights or results of the authors' 2016 Theano program.

    ini.py             the syntax of its configuration files
    configuration.py   the four files that make one configuration
    sweeps.py          values that change from run to run
    resolve.py         what a configuration means, key by key; `layers.py` does so for the model file
    to_yaml.py         ... as a parameter file
    to_ini.py          a parameter file as a configuration
    options.py         the key `legacy` of a parameter file: the quirks of that program, one by one
    draws.py, starts.py, training.py   these quirks at work
    h5_files.py        its weights and index lists
    output.py          its output tree
    commands.py        the command lines

Nothing here is needed, or imported, for an experiment without the key `legacy`, except `options.py`.
"""
