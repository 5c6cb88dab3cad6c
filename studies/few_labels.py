"""Many draws of very few labels on the same first layers: how often does spreading fail?

    NESI_DATA=... python studies/few_labels.py params/mnist_few_labels.yaml --draws 50 --out few_labels.jsonl

Runs of `run_experiment.py` train one network per draw. Here the first layers, their graph and its parts are made once per
seed, as they depend on no label, and only what does is done for every draw: the same numbers in a fraction of the time.
Lines that the output file has already are not computed again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from data_tools.loading import load
from nesi.config.reading import load_parameters
from nesi.engines.inference import infer_in_chunks
from nesi.experiment.tasks import training_settings
from nesi.labels import draw_labels, mask_labels
from nesi.posteriors import percent_error
from nesi.seeds import random_stream
from nesi.spreading.graph import graph_of_units
from nesi.spreading.spread import Spreading
from nesi.trained import TrainedNetwork
from nesi.training.spreading import STEPS, taught_R
from nesi.training.trainer import Trainer
