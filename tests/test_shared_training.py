"""One network that several workers train: the same numbers as on one machine, whoever has which part of the data."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from small_networks import make_data

from data_tools.rows_on_disk import MappedFile, RowsOnDisk
from nesi.errors import NesiError
from nesi.networks import NETWORKS
from nesi.training.member import Member, PointsOfPart
from nesi.training.settings import TrainingSettings
from nesi.training.shared import SharedTrainer
from nesi.training.team import LocalTeam, Parts
from nesi.training.trainer import Trainer

N, D, K, C, BATCH, PARTS = 70, 10, 3, 8, 6, 3


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    return make_data(N, D, K)


def settings_of(**changes: Any) -> TrainingSettings:
    defaults = {"C": C, "A": 40.0, "epsilon_W": 0.5, "epsilon_R": 0.5, "threshold": 0.2, "iterations": 3}
    return TrainingSettings(**(defaults | {"dtype": "float64", "batch_size": BATCH} | changes))


def trained(trainer: Trainer) -> Trainer:
    for _ in trainer:
        pass
    return trainer


def by_team(X: Any, labels: np.ndarray, workers: int, **changes: Any) -> SharedTrainer:
    rng = np.random.default_rng(5)
    return SharedTrainer(settings_of(**changes), X, labels, K, rng, team=LocalTeam(workers), parts=PARTS)


@pytest.mark.parametrize("inference", ["exact", "truncated"])
@pytest.mark.parametrize(
    ("network", "more"),
    [
        *((network, {"greedy": greedy}) for network in NETWORKS for greedy in (False, True)),
        ("r+", {"scattered": True}),
        ("r+", {"committee": 2}),
    ],
    ids=str,
)
def test_parts_with_batches_of_n_are_one_machine_with_batches_of_all_of_them(
    data: tuple[np.ndarray, np.ndarray], network: str, inference: str, more: dict[str, Any]
) -> None:
    X, labels = data
    more = dict(more)
    if more.pop("scattered", False):
        X = sp.csr_array(X * (X > 2) + (np.arange(D) == 0))
    options = {"network": network, "inference": inference, "shuffle": False, **more}
    options["truncated"] = {"active": 3, "neighbours": 2, "leaders": 1, "strangers": 1}
    one = settings_of(
        **options,
    )
    alone = trained(Trainer(one.changed(batch_size=BATCH * PARTS), X, labels, K, np.random.default_rng(5)))
    together = trained(by_team(X, labels, 2, **options))
    np.testing.assert_allclose(together.W, alone.W, rtol=1e-9)
    np.testing.assert_allclose(together.R, alone.R, rtol=1e-9, atol=1e-28)
    np.testing.assert_allclose(together.history["log_likelihood"], alone.history["log_likelihood"], rtol=1e-11)
    assert together.history["self_labeled"] == alone.history["self_labeled"]
    if inference == "truncated":
        found = together.state()
        np.testing.assert_array_equal(found["search.units"], alone.state()["search.units"])
        np.testing.assert_array_equal(found["search.neighbours"], alone.state()["search.neighbours"])


@pytest.mark.parametrize("inference", ["exact", "truncated"])
def test_the_number_of_workers_changes_no_bit(data: tuple[np.ndarray, np.ndarray], inference: str) -> None:
    X, labels = data
    options = {"network": "r+", "inference": inference, "greedy": True}
    first, *others = (trained(by_team(X, labels, workers, **options)) for workers in (1, 2, 3, 5))
    for other in others:
        np.testing.assert_array_equal(other.W, first.W)
        np.testing.assert_array_equal(other.R, first.R)
        assert other.history["log_likelihood"] == first.history["log_likelihood"]
    sent = [trainer.account()["distribute"]["bytes_per_round"] for trainer in (first, *others)]
    assert sent[0] == 0
    assert 0 < sent[1] < sent[2] == sent[3]  # of five workers three have a part


@pytest.mark.parametrize("inference", ["exact", "truncated"])
@pytest.mark.parametrize("network", ["ff+", "r+"])
def test_a_checkpoint_goes_on_with_any_number_of_workers(
    data: tuple[np.ndarray, np.ndarray], inference: str, network: str
) -> None:
    X, labels = data
    options = {"network": network, "inference": inference, "greedy": True, "iterations": 2}
    whole = trained(by_team(X, labels, 3, **options))
    trainer = by_team(X, labels, 3, **options)
    workers = 1
    while not trainer.finished:  # after every iteration on other workers
        trainer.run_iteration()
        state = {name: np.array(values) for name, values in trainer.state().items()}
        trainer = by_team(X, labels, workers, **options)
        trainer.restore(state)
        workers = workers % 3 + 1
    np.testing.assert_array_equal(trainer.W, whole.W)
    np.testing.assert_array_equal(trainer.R, whole.R)


def test_data_is_dealt_out_in_blocks() -> None:
    parts = Parts(23, 3, 4)
    assert [parts.rows(part).tolist() for part in range(3)] == [
        [0, 1, 2, 3, 12, 13, 14, 15], [4, 5, 6, 7, 16, 17, 18, 19], [8, 9, 10, 11, 20, 21, 22],
    ]  # fmt: skip
    places = parts.places(np.array([22, 0, 13, 4]))
    assert {part: found.tolist() for part, found in places.items()} == {0: [0, 5], 1: [0], 2: [6]}
    whole = parts.whole({part: parts.rows(part)[:, None] for part in range(3)})
    np.testing.assert_array_equal(whole.ravel(), np.arange(23))
    assert Parts(5, 3, 4).count == 2


def test_a_worker_says_that_it_does_not_see_the_data(data: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> None:
    X, labels = data
    np.save(tmp_path / "points.npy", X)
    sent = pickle.dumps(RowsOnDisk([MappedFile(tmp_path / "points.npy")]))
    (tmp_path / "points.npy").unlink()
    points = PointsOfPart(0, np.arange(N), pickle.loads(sent), labels)
    with pytest.raises(NesiError, match=r"a worker cannot read the data .*put the files where all workers see them"):
        Member(settings_of(network="ff"), None, [points])
