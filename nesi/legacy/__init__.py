"""For whoever has configurations, weights or results of the authors' 2016 Theano program.

    ini.py             the syntax of its configuration files
    configuration.py   the four files that make one configuration
    sweeps.py          values that change from run to run
    resolve.py         what a configuration means, key by key; `layers.py` does so for the model file
    to_yaml.py         ... as a parameter file
    to_ini.py          a parameter file as a configuration
    draws.py, starts.py, training.py   these quirks at work
    h5_files.py        its weights and index lists
    output.py          its output tree
    commands.py        what the commands do

Nothing here is imported by an experiment without the key `legacy`. The key itself is declared in
`nesi.config.legacy_options`.
"""
