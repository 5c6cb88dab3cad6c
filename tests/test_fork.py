"""A process that was forked from one that has trained says at once what is wrong, instead of waiting forever."""

from __future__ import annotations

import subprocess
import sys

PROCESS = """
import multiprocessing
import numpy as np
from nesi import NeSiClassifier, NesiError

X, labels = np.random.default_rng(0).random((40, 6)), np.arange(40) % 2
model = NeSiClassifier(4, 30.0, network="ff", max_iter=2, random_state=0)

def train():
    return model.fit(X, labels)

def predict():
    return model.predict(X)

def sentence(function):
    try:
        function()
    except NesiError as error:
        return str(error)

def answer(function):
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply_async(sentence, [function]).get(timeout=60)

for function in (train, predict):
    said = answer(function)
    assert "forked from one that had loaded NeSi" in str(said), said
    assert "get_context('spawn')" in said, said
    function()  # the parent goes on
print("as it should be")
"""


def test_a_fork_after_training_is_refused_at_once():
    done = subprocess.run([sys.executable, "-c", PROCESS], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.strip() == "as it should be", done.stderr
