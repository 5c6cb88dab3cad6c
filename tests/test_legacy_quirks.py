"""The quirks of the authors' program, one by one: each has its effect with its switch, and none without."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import yaml
from command_line import SMALL, records, run_here, write_params

from nesi.config.legacy_options import QUIRKS, LegacyOptions
from nesi.config.parameters import validated
from nesi.config.reading import load_parameters
from nesi.experiment.cells import all_tasks, load_dataset, run_data
from nesi.experiment.one_run import _training_set
from nesi.experiment.point_choice import choose_points
from nesi.legacy.training import LegacyTrainer
from nesi.training.settings import TrainingSettings
from nesi.training.trainer import Trainer

GOLDEN = Path(__file__).parent / "golden"
FILES = {"ff": "ff_even", "r": "r_even", "ff+": "ffplus_even", "r+": "rplus_even"}
pytestmark = pytest.mark.usefixtures("one_thread")


def legacy_trainer(
    settings: TrainingSettings, X, labels, K: int, W=None, R=None, seed: int = 0, **quirks
) -> LegacyTrainer:
    return LegacyTrainer(settings, X, labels, K, np.random.default_rng(seed), W, R, LegacyOptions(**quirks))


# ---- the switches ---------------------------------------------------------------------------------------------------


def test_true_is_all_and_false_is_none() -> None:
    assert validated({**SMALL, "legacy": False}, "here").legacy is None
    everything = validated({**SMALL, "legacy": True}, "here").legacy
    assert everything is not None
    assert [getattr(everything, quirk) for quirk in QUIRKS] == [True] * len(QUIRKS)
    assert everything.chunk_size(texts=True, network="r") == 6000
    assert everything.chunk_size(texts=False, network="ff+") == 20000
    assert everything.chunk_size(texts=False, network="r+") is None


@pytest.mark.parametrize("quirk", QUIRKS)
def test_a_mapping_switches_single_quirks(quirk: str, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(yaml.safe_dump({**SMALL, "legacy": {quirk: True}}))
    parameters = load_parameters(path)
    assert parameters.legacy is not None
    assert [name for name in QUIRKS if getattr(parameters.legacy, name)] == [quirk]
    assert load_parameters(path, {f"legacy.{quirk}": 50 if quirk == "chunks" else True, "legacy.padding": True}).legacy


def test_without_the_switches_a_legacy_trainer_is_a_trainer() -> None:
    settings = TrainingSettings(network="r+", C=6, A=60, iterations=4, batch_size=7)
    X = np.random.default_rng(1).random((50, 20))
    labels = np.where(np.arange(50) < 9, np.arange(50) % 3, -1)
    plain = Trainer(settings, X, labels, 3, np.random.default_rng(0))
    ours = legacy_trainer(settings, X, labels, 3)
    for trainer in (plain, ours):
        for _ in trainer:
            pass
    np.testing.assert_array_equal(plain.W, ours.W)
    np.testing.assert_array_equal(plain.R, ours.R)
    assert plain.history["log_likelihood"] == pytest.approx(ours.history["log_likelihood"])


# ---- likelihood without R -------------------------------------------------------------------------------------------


@cache
def golden(network: str) -> dict[str, np.ndarray]:
    with np.load(GOLDEN / f"{FILES[network]}.npz") as file:
        return dict(file)


def golden_trainer(network: str, **quirks) -> LegacyTrainer:
    case = golden(network)
    N, L, (K, C) = len(case["raw"]), int((case["labels"] >= 0).sum()), case["R0"].shape
    settings = TrainingSettings(
        network=network,
        C=C,
        A=float(case["A"]),
        epsilon_W=float(case["epsilon_W"]) * N / C,
        epsilon_R=float(case["epsilon_R"]) * (N if "+" in network else L) / K,
        threshold=max(float(case["threshold"]), 0),
        iterations=5,
        batch_size=10,
        minibatch_rule="summed",
        shuffle=False,
    )
    return legacy_trainer(settings, case["raw"], case["labels"], K, case["W0"], case["R0"], **quirks)


@pytest.mark.parametrize("network", FILES)
def test_the_likelihood_is_that_of_the_authors_program(network: str) -> None:
    case = golden(network)
    trainer = golden_trainer(network, likelihood=True)
    assert trainer.log_likelihood_at_start == pytest.approx(float(case["loglik_0"]), rel=2e-6)
    for _ in trainer:
        pass
    history = trainer.history["log_likelihood"]
    assert history[0] == pytest.approx(float(case["loglik_1"]), rel=2e-6)
    assert history[4] == pytest.approx(float(case["loglik_5"]), rel=2e-6)
    assert trainer.trained().log_likelihood(case["raw"]).mean() == pytest.approx(history[4])
    np.testing.assert_allclose(trainer.W, case["W_5"], rtol=5e-5)


def test_with_all_quirks_the_weights_are_still_those_of_the_authors_program() -> None:
    """200 points in batches of 10: there is nothing to fill, and a chunk of 1000 is the whole data."""
    for network in FILES:
        trainer = golden_trainer(network, likelihood=True, padding=True, chunks=1000)
        for _ in trainer:
            pass
        np.testing.assert_allclose(trainer.W, golden(network)["W_5"], rtol=5e-5)
        np.testing.assert_allclose(trainer.R, golden(network)["R_5"], atol=1e-4)


def test_the_papers_likelihood_is_lower_by_the_weights_of_the_units() -> None:
    """With R = 1/C the factor sum_k R_kc / K is 1/C for every unit: ln C less."""
    case = golden("ff")
    paper = golden_trainer("ff", padding=True).trained().log_likelihood(case["raw"]).mean()
    authors = golden_trainer("ff", likelihood=True).log_likelihood_at_start
    assert authors is not None
    assert authors - paper == pytest.approx(np.log(20), rel=1e-4)


def test_units_that_no_class_uses_do_not_count() -> None:
    case = golden("r")
    trainer = golden_trainer("r", likelihood=True)
    R = np.array(case["R0"])
    R[:, 5:] = 0
    trainer._engine.set_weights(case["W0"], R)
    few = trainer.trained().log_likelihood(case["raw"])
    trainer._engine.set_weights(case["W0"][:5], R[:, :5])
    np.testing.assert_allclose(few, trainer.trained().log_likelihood(case["raw"]), rtol=1e-6)


def test_stopping_looks_at_the_likelihood_without_R() -> None:
    settings = TrainingSettings(network="r", C=5, A=60, iterations=60, batch_size=7, stopping=True, stopping_width=4)
    X = np.random.default_rng(1).random((40, 20))
    labels = np.arange(40) % 2
    trainer = legacy_trainer(settings, X, labels, 2, likelihood=True)
    assert trainer._stopping is not None
    assert trainer._stopping.width == 4
    for _ in trainer:
        pass
    recent = trainer.history["log_likelihood"][-4:]
    assert trainer._stopping.state()["recent"].tolist() == pytest.approx(recent)
    assert trainer.stopped_at is None or trainer.stopped_at == trainer.iteration - 2


# ---- chunks ---------------------------------------------------------------------------------------------------------


def test_points_are_shuffled_again_for_every_chunk() -> None:
    """A tenth of 20 Newsgroups: chunks of 600 and 527 points, of which a quarter is not seen in a pass."""
    settings = TrainingSettings(network="ff", C=2, A=10, batch_size=10)
    X = np.random.default_rng(0).random((1127, 3)) + 0.1
    trainer = legacy_trainer(settings, X, np.full(1127, -1), 2, chunks=600)
    unseen, twice = [], []
    for _ in range(50):
        batches = trainer._new_batches()
        assert [len(batch) for batch in batches] == [10] * 60 + [10] * 52 + [7]
        for chunk in (batches[:60], batches[60:]):
            assert len(np.unique(np.concatenate(chunk))) == sum(map(len, chunk))
        counts = np.bincount(np.concatenate(batches), minlength=1127)
        unseen.append(np.mean(counts == 0))
        twice.append(np.mean(counts == 2))
    assert np.mean(unseen) == pytest.approx((1 - 600 / 1127) * (1 - 527 / 1127), abs=0.01)
    assert np.mean(twice) == pytest.approx(600 / 1127 * 527 / 1127, abs=0.01)
    ours = Trainer(settings, X, np.full(1127, -1), 2, np.random.default_rng(0))._new_batches()
    assert len(np.unique(np.concatenate(ours))) == 1127


# ---- rows of zeros --------------------------------------------------------------------------------------------------


def one_padded_pass(network: str, y, labels, W, R, rates, threshold: float, batch: int):
    """T1.4 to T1.8 in plain NumPy over mini-batches that are filled with y = 0 (summed rule, float64)."""
    W, R = W.copy(), R.copy()
    K = len(R)
    for first in range(0, len(y), batch):
        part, known = y[first : first + batch], labels[first : first + batch]
        missing = batch - len(part)
        part = np.vstack([part, np.zeros((missing, part.shape[1]))])
        known = np.append(known, np.full(missing, -1))
        prior = np.where(known[:, None] >= 0, R[known], R.sum(axis=0)) if "r" in network else np.ones((batch, len(W)))
        drive = part @ np.log(W).T
        s = prior * np.exp(drive - drive.max(axis=1, keepdims=True))
        s /= s.sum(axis=1, keepdims=True)
        inferred = s @ (R / R.sum(axis=0)).T
        t = np.where(known[:, None] >= 0, np.eye(K)[known], 0)
        if "+" in network:
            ordered = np.sort(inferred, axis=1)
            certain = (ordered[:, -1] - ordered[:, -2] > threshold) & (known < 0)
            t[certain] = np.eye(K)[inferred[certain].argmax(axis=1)]
        W, R = (
            W + rates[0] * (s.T @ part - s.sum(axis=0)[:, None] * W),
            R + rates[1] * (t.T @ s - t.sum(axis=0)[:, None] * R),
        )
    return W, R


@pytest.mark.parametrize("skewed", [False, True], ids=["even R", "skewed R"])
@pytest.mark.parametrize("network", FILES)
def test_rows_of_zeros_take_part_in_learning(network: str, skewed: bool) -> None:
    """23 points in batches of 10: seven rows of zeros. With a skewed R the + networks even label them."""
    rng = np.random.default_rng(2)
    C, K, D, A = 4, 3, 8, 30.0
    X = rng.random((23, D)) + 0.05
    labels = np.where(np.arange(23) < 6, np.arange(23) % K, -1)
    W0 = 1 + rng.random((C, D)) * 4
    R0 = rng.random((K, C)) + (np.array([[8.0], [0], [0]]) if skewed else 1)
    R0 /= R0.sum()
    settings = TrainingSettings(
        network=network,
        C=C,
        A=A,
        epsilon_W=0.3,
        epsilon_R=0.4,
        threshold=0.5,
        iterations=1,
        batch_size=10,
        minibatch_rule="summed",
        shuffle=False,
        dtype="float64",
    )
    rates = 0.3 * C / 23, 0.4 * K / (23 if "+" in network else 6)
    y = (A - D) * X / X.sum(axis=1, keepdims=True) + 1
    W, R = one_padded_pass(network, y, labels, W0, R0, rates, 0.5, 10)
    padded = legacy_trainer(settings, X, labels, K, W0, R0, padding=True)
    padded.run_iteration()
    np.testing.assert_allclose(padded.W, W, rtol=1e-9)
    np.testing.assert_allclose(padded.R, R, rtol=1e-9)
    masked = Trainer(settings, X, labels, K, np.random.default_rng(0), W0, R0)
    masked.run_iteration()
    assert (padded.W < masked.W).all()
    if skewed and "+" in network:
        assert not np.allclose(padded.R, masked.R)
    else:
        np.testing.assert_allclose(padded.R, masked.R)


def test_with_the_sequential_rule_rows_of_zeros_come_last() -> None:
    X = np.random.default_rng(2).random((23, 8)) + 0.05
    settings = TrainingSettings(network="ff", C=4, A=30, epsilon_W=0.3, iterations=1, batch_size=10, dtype="float64")
    padded, masked = (
        legacy_trainer(settings, X, np.full(23, -1), 2, padding=True),
        Trainer(settings, X, np.full(23, -1), 2, np.random.default_rng(0)),
    )
    padded.run_iteration()
    masked.run_iteration()
    np.testing.assert_allclose(padded.W, masked.W * (1 - 0.3 * 4 / 23 / 4) ** 7, rtol=1e-9)


# ---- all of it, from a file -----------------------------------------------------------------------------------------


def test_legacy_in_a_parameter_file(tmp_path: Path) -> None:
    changes = {"networks": ["r+"], "runs": 1, "iterations": 8, "batch_size": 15, "labels": [40], "train_size": 400}
    for name, legacy in (("paper", None), ("authors", True)):
        params = write_params(tmp_path / f"{name}.yaml", legacy=legacy, **changes)
        assert run_here(params, "--out", tmp_path / name, "--quiet")[0] == 0
    paper, authors = (records(tmp_path / name)["r+", 40, 1] for name in ("paper", "authors"))
    assert "legacy" not in paper["settings"]
    assert set(authors["settings"]["legacy"]) == set(QUIRKS)
    assert authors["log_likelihood"] > paper["log_likelihood"] + 2  # ln C, about
    code, _, errors = run_here(tmp_path / "paper.yaml", "--out", tmp_path / "authors", "--resume", "--quiet")
    assert code == 2
    assert "'legacy'" in errors


def test_a_training_with_quirks_continues_bit_for_bit() -> None:
    settings = TrainingSettings(network="r+", C=6, A=60, iterations=6, batch_size=7, minibatch_rule="summed")
    X = np.random.default_rng(1).random((50, 20))
    labels = np.where(np.arange(50) < 9, np.arange(50) % 3, -1)
    quirks = {"likelihood": True, "padding": True, "chunks": 20}
    whole, half, rest = (legacy_trainer(settings, X, labels, 3, **quirks) for _ in range(3))
    for _ in whole:
        pass
    for _ in range(3):
        half.run_iteration()
    rest.restore(half.state())
    for _ in rest:
        pass
    np.testing.assert_array_equal(whole.W, rest.W)
    np.testing.assert_array_equal(whole.R, rest.R)
    assert whole.history["log_likelihood"] == rest.history["log_likelihood"]


def test_data_and_labels_reach_no_further_than_before() -> None:
    """The quirks change how points are drawn, not how many labels are seen."""
    parameters = validated({**SMALL, "legacy": True, "networks": ["r"], "runs": 1}, "here")
    data = run_data(parameters, load_dataset(parameters, None))
    (task,) = all_tasks(parameters, data, None)
    points = choose_points(task, data)
    _, labels = _training_set(data, points)
    assert (labels >= 0).sum() == len(points.labeled) == 20
