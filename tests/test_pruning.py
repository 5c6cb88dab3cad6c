"""Fields that hardly ever are active, what happens without them, and how well the likelihood tells the error."""

from pathlib import Path

import numpy as np
import pytest
from command_line import SMALL, nesi, run_here, write_params

from nesi.config.parameters import validated
from nesi.errors import NesiError
from nesi.experiment.pruned_runs import prune_runs
from nesi.experiment.running import run_experiment
from nesi.fields.pruning import prune
from nesi.networks import NETWORKS
from nesi.report.correlation import likelihood_and_error
from nesi.storage.arrays import load_arrays, save_arrays
from nesi.trained import TrainedNetwork


def test_units_that_stand_for_less_than_the_limit_go_and_the_rest_sums_to_one() -> None:
    R = np.array([[0.5, 0.3, 0.2, 0.0], [0.0, 0.1, 0.0, 0.9]])  # p(c|R) N = 2.5, 2, 1, 4.5 for N = 10
    W = np.arange(8.0).reshape(4, 2)
    pruned = prune(TrainedNetwork(NETWORKS["ff"], W, R, 10.0), 10, below=1.5)
    pruned_W, pruned_R = pruned.W, pruned.R
    np.testing.assert_array_equal(pruned_W, W[[0, 1, 3]])
    np.testing.assert_allclose(pruned_R, [[0.625, 0.375, 0], [0, 0.1, 0.9]])
    with pytest.raises(NesiError, match="would leave class 0 without a unit"):
        prune(TrainedNetwork(NETWORKS["ff"], W, R, 10.0), 10, below=3)


def test_an_experiment_is_pruned_and_tested_again(tmp_path: Path) -> None:
    parameters = validated({**SMALL, "networks": ["r+"], "labels": [200], "keep_weights": "all"}, "SMALL")
    records = run_experiment(parameters, tmp_path, quiet=True).records
    path = tmp_path / "weights" / "r+-L200-run1.npz"
    weights = load_arrays(path)
    about = {key: records[0][key] for key in ("dataset", "network", "labels", "run", "seed")}
    weights["R"][:, 7] = 0  # a field that the network has forgotten
    save_arrays(path, weights, about)
    first, second = prune_runs(tmp_path, below=0.5)
    assert first.forgotten >= 1
    assert first.kept == first.units - first.forgotten
    assert second.error_before == pytest.approx(records[1]["test_error"])  # the same inference as in the experiment
    assert abs(first.error_after - first.error_before) < 1
    kept = load_arrays(tmp_path / "pruned" / "r+-L200-run1.npz")
    assert kept["W"].shape == (first.kept, 64)
    np.testing.assert_allclose(kept["R"].sum(axis=1), 1, rtol=1e-5)
    code, output = nesi("prune", tmp_path, "--below", 0.5)
    assert code == 0
    assert f"{first.kept:>6} {first.error_before:>10.2f} {first.error_after:>11.2f}" in output


def test_runs_are_pruned_with_the_parameters_and_the_test_points_of_their_own(tmp_path: Path) -> None:
    changes = {"networks": ["r"], "labels": [200], "runs": 2, "test_size": 100, "per_run": {"C": [20, 30]}}
    parameters = validated({**SMALL, **changes, "keep_weights": "all"}, "SMALL")
    records = run_experiment(parameters, tmp_path, quiet=True).records
    pruned = list(prune_runs(tmp_path, below=0))
    assert [one.units for one in pruned] == [20, 30]
    assert [one.error_before for one in pruned] == pytest.approx([record["test_error"] for record in records])
    assert [one.error_after for one in pruned] == pytest.approx([record["test_error"] for record in records])


def test_likelihood_and_test_error_go_together(tmp_path: Path) -> None:
    options = {"networks": ["r"], "labels": [200], "runs": 2, "epsilon_W": 0.3}
    params = write_params(tmp_path / "params.yaml", **options)
    assert run_here(params, "--set", "test_error_every=2", "--out", tmp_path / "run", "--quiet")[0] == 0
    found = likelihood_and_error(tmp_path / "run")
    details = load_arrays(tmp_path / "run" / "details" / "r-L200-run1.npz")
    errors = details["test_error_curve"][:, 1]
    x, y = details["log_likelihood"][1::2] - details["log_likelihood"][1::2].mean(), errors - errors.mean()
    assert found[0].ppmcc == pytest.approx((x @ y) / np.sqrt((x @ x) * (y @ y)))
    assert found[0].ppmcc < -0.3  # learning raises the one and lowers the other
    code, output = nesi("correlate", tmp_path / "run")
    assert code == 0
    assert "mean of 2 runs" in output


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    params = write_params(tmp_path / "params.yaml", networks=["ff"], runs=1, keep_weights="none", iterations=1)
    run_here(params, "--out", tmp_path / "run", "--quiet")
    for command, remedy in (("prune", "keep_weights: first or all"), ("correlate", "test_error_every=10")):
        code, output = nesi(command, tmp_path / "run")
        assert code == 2
        assert remedy in output
