"""Images that are bytes stay bytes: however many there are, only a part of them is floats at any time."""

from __future__ import annotations

import pickle
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from nesi.engines import first_candidates, truncated
from nesi.engines.specification import NetworkSpec
from nesi.engines.truncated import TruncatedEngine
from nesi.experiment.shared_data import large_parts_in_files, opened
from nesi.experiment.tasks import RunData
from nesi.networks import NETWORKS
from nesi.observations import Observations
from nesi.training.settings import TrainingSettings
from nesi.training.trainer import Trainer

N, D, C, K, AT_ONCE = 6000, 400, 20, 3, 100


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    """Blots around twenty places, as bytes; 2.4 MB, which as float32 would be 9.6 MB."""
    rng = np.random.default_rng(5)
    middles = rng.integers(0, 256, (C, D)) * (rng.random((C, D)) < 0.3)
    noisy = middles[np.arange(N) % C] + rng.integers(0, 60, (N, D))
    return np.clip(noisy, 0, 255).astype(np.uint8)


@pytest.fixture
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is 16 million inputs otherwise, made as small as the data of this test is."""
    monkeypatch.setattr(truncated, "_INPUTS_AT_ONCE", AT_ONCE * D)
    monkeypatch.setattr(first_candidates, "_START_VALUES", AT_ONCE * D)
    monkeypatch.setattr("nesi.observations._CHUNK_VALUES", AT_ONCE * D)
    monkeypatch.setattr("nesi.engines.inference._VALUES_AT_ONCE", AT_ONCE * D)


def trainer_of(images: np.ndarray, inference: str) -> Trainer:
    settings = TrainingSettings(
        network="ff+", C=C, A=500, epsilon_W=0.2, epsilon_R=0.2, iterations=2, batch_size=AT_ONCE, inference=inference,
        greedy=True,
    )  # fmt: skip
    labels = np.where(np.arange(len(images)) < 60, np.arange(len(images)) % K, -1)
    return Trainer(settings, images, labels, K, np.random.default_rng(1))


@contextmanager
def peak() -> Iterator[list[int]]:
    """Bytes that were in use at most inside the block, beyond those before it."""
    found: list[int] = []
    tracemalloc.start()
    try:
        yield found
        found.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("inference", ["truncated", "exact"])
def test_training_needs_far_less_memory_than_the_data_as_floats(
    images: np.ndarray, inference: str, few_at_once: None
) -> None:
    for _ in trainer_of(images[:500], inference):  # compiles
        pass
    with peak() as beyond:
        trainer = trainer_of(images, inference)
        for _ in trainer:  # first one layer, then the other: with the activities of all points in between
            pass
    kept = trainer.activities()
    needed = 2 * (kept.data.nbytes + kept.indices.nbytes) + 30 * N * 8  # activities, and some numbers per point
    assert beyond[0] < needed + 0.2 * 4 * images.size


@pytest.mark.parametrize("search", [True, False])
def test_all_points_in_parts_are_found_as_at_once(
    images: np.ndarray, search: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same random numbers too: a chosen few strangers per point."""
    some = images[:1000]
    data, labels = Observations(some, 500.0), np.full(len(some), -1)
    W = data.dense_rows(np.arange(C), "float32")
    spec = NetworkSpec(NETWORKS["ff"], "sequential", "float32", "numba", sparse=False)
    found = []
    for at_once in (len(some), 7, 130):
        monkeypatch.setattr(truncated, "_INPUTS_AT_ONCE", at_once * D)
        rng = np.random.default_rng(4)
        engine = TruncatedEngine(spec, W, np.full((K, C), 1 / C), 500.0, 0.6, data, labels, rng)
        found.append((engine.candidates(np.arange(len(some)), search), engine.state()["units"], rng.integers(1 << 30)))
    whole, *parts = found
    for part in parts:
        np.testing.assert_array_equal(part[0].units, whole[0].units)
        np.testing.assert_array_equal(part[0].s, whole[0].s)
        np.testing.assert_allclose(part[0].bound, whole[0].bound, rtol=1e-6)
        np.testing.assert_array_equal(part[1], whole[1])
        assert part[2] == whole[2]


def test_rows_of_y_are_the_same_in_parts(images: np.ndarray, few_at_once: None) -> None:
    chosen = np.random.default_rng(0).permutation(N)[:350]
    y = Observations(images, 500.0).dense_rows(chosen, "float32")
    x = images[chosen] * (100.0 / images[chosen].sum(axis=1, dtype=float))[:, None]
    np.testing.assert_array_equal(y, x.astype("float32") + np.float32(1))


def test_a_mini_batch_of_large_images_is_no_larger_than_it_has_to_be() -> None:
    """5000 of the raw images of Section 4.4 would be 330 MB of floats, and as much again when normalised."""
    settings = TrainingSettings(network="ff", C=10000, A=25000, epsilon_W=0.2, epsilon_R=0.2, inference="truncated")
    small = settings.__class__(network="ff", C=10000, A=900, epsilon_W=0.2, epsilon_R=0.2, inference="truncated")
    sizes = []
    for given, inputs in ((settings, 16384), (small, 784)):
        X = np.broadcast_to(np.uint8(1), (30000, inputs))
        sizes.append(batch_size_of(given, X))
    assert sizes == [1953, 5000]


def batch_size_of(settings: TrainingSettings, X: np.ndarray) -> int:
    from nesi.label_model import label_model
    from nesi.training.learning_rates import Lesson

    labels = np.full(len(X), -1)
    return Lesson(settings, 10, Observations(X, settings.A), labels, label_model(10, None, None), None, None).batch_size


def test_workers_look_into_one_file_of_large_data(
    images: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nesi.experiment.shared_data.LARGE", 1_000_000)
    y = np.arange(N) % K
    data = RunData("made", images, y, images[:50], y[:50], K)
    (tmp_path / "points-left-behind").mkdir()
    with large_parts_in_files(data, tmp_path) as sent:
        assert len(pickle.dumps(sent)) < len(pickle.dumps(data)) - images.nbytes / 2
        assert sent.X_test is data.X_test  # small
        assert len(list(tmp_path.iterdir())) == 1
        received = opened(pickle.loads(pickle.dumps(sent)))
        assert isinstance(received.X_train, np.memmap)
        first, second = (trainer_of(X[:500], "truncated") for X in (images, received.X_train))
        assert first.run_iteration().log_likelihood == second.run_iteration().log_likelihood
        np.testing.assert_array_equal(first.W, second.W)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_costs_memory_and_nothing_else(
    images: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("nesi.experiment.shared_data.LARGE", 1_000_000)
    monkeypatch.setattr(np, "save", full)
    data = RunData("made", images, np.arange(N) % K, images[:50], np.arange(50) % K, K)
    with large_parts_in_files(data, tmp_path) as sent:
        assert sent.X_train is images
        assert opened(sent).X_train is images
    assert list(tmp_path.iterdir()) == []
    with large_parts_in_files(data, None) as sent:
        assert sent is data
