"""The table of Appendix B.1 on real MNIST: the size of the mini-batches has no influence on the converged solution."""

from __future__ import annotations

import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
from minibatch_table import load_problem, train

from nesi.storage.experiment_directory import ExperimentDirectory

RESULTS = Path(__file__).parent.parent / "results"
RUNS = {1: 2, 10: 4, 100: 8}  # by mini-batch size: small ones take long
ITERATIONS = 30
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.real_data
def test_batches_of_1_10_and_100_give_the_same_error_and_likelihood(real_data):
    """Other seeds for every size, so that the results are independent and their standard errors mean something.

    The paper: 23.1, 23.2, 23.0 % (standard deviation 1.3 from run to run) and -836.47 (0.03). It does not say which
    3000 points, which network and how long; on other points the NumPy twin got 23.9 % and -837.3, so that the
    likelihood is asked to be within one unit of the paper's and the error within three standard deviations of a run.
    """
    problem = load_problem(real_data)
    results = {
        size: np.array([train(problem, size, 100 * size + run, ITERATIONS) for run in range(runs)])
        for size, runs in RUNS.items()
    }
    within = sum(((values - values.mean(axis=0)) ** 2).sum(axis=0) for values in results.values())
    deviation = np.sqrt(within / (sum(RUNS.values()) - len(RUNS)))  # of one run: error, both likelihoods
    for one, other in combinations(results, 2):
        difference = results[one].mean(axis=0) - results[other].mean(axis=0)
        standard_error = deviation * np.sqrt(1 / RUNS[one] + 1 / RUNS[other])
        assert (np.abs(difference) < 3 * standard_error).all(), f"batches of {one} and {other}: {results}"
    error, with_labels, of_inputs = np.mean([values.mean(axis=0) for values in results.values()], axis=0)
    assert error == pytest.approx(23.1, abs=3 * 1.3)
    assert of_inputs == pytest.approx(-836.47, abs=1.0)  # as the authors' program has it: without the labels
    kept = [record for size in RUNS for record in ExperimentDirectory(RESULTS / f"minibatch-{size}").records()]
    assert with_labels == pytest.approx(np.mean([record["log_likelihood"] for record in kept]), abs=0.5)
    assert with_labels < of_inputs  # a label is one more thing to explain
