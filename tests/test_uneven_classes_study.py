"""The study of uneven classes: its draws, its priors, what it sums up, and that it goes on where it was interrupted."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from data_tools.dataset import Dataset

K = 4
NAMES = ("A", "B", "a", "b")
Y = np.repeat(np.arange(K), [400, 100, 40, 20])


@pytest.fixture(scope="module")
def study() -> ModuleType:
    path = Path(__file__).parent.parent / "studies" / "uneven_classes.py"
    spec = importlib.util.spec_from_file_location("uneven_classes", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_labels_are_drawn_per_class_or_as_they_come(study: ModuleType) -> None:
    rng = np.random.default_rng(0)
    assert np.bincount(Y[study.drawn_labels(Y, 40, "per class", rng)]).tolist() == [10, 10, 10, 10]
    natural = np.mean(
        [np.bincount(Y[study.drawn_labels(Y, 56, "as they come", rng)], minlength=K) for _ in range(300)], 0
    )
    np.testing.assert_allclose(natural, [40, 10, 4, 2], atol=0.6)


def test_priors(study: ModuleType) -> None:
    drawn = np.array([0, 1, 400])
    assert study.class_prior("uniform", Y, drawn, K) is None
    np.testing.assert_allclose(study.class_prior("training set", Y, drawn, K), np.array([400, 100, 40, 20]) / 560)
    np.testing.assert_allclose(study.class_prior("drawn labels", Y, drawn, K), np.array([3, 2, 1, 1]) / 7)


def test_results_are_summed_up_drawn_and_found_again(study: ModuleType, tmp_path: Path) -> None:
    wanted = list(study.variants(2, ["ff", "r"], [8, 40]))
    assert len(wanted) == 2 * 2 * 2 * 5  # the drawn labels have a prior of their own only if they come as they are
    results = study.Results(tmp_path / "results.jsonl", units=7)
    confusion = np.array([[30, 10, 0, 0], [0, 10, 0, 0], [4, 0, 0, 0], [0, 0, 1, 1]])
    for variant in wanted:
        results.add(variant, confusion)
    again = study.Results(tmp_path / "results.jsonl", units=7)
    assert set(again.done) == set(wanted)
    assert study.Results(tmp_path / "results.jsonl", units=8).done == {}
    assert study.error(confusion) == pytest.approx(100 * 15 / 56)
    np.testing.assert_allclose(study.class_errors(confusion), [25, 0, 100, 50])
    table = study.table(again.done, ["ff", "r"], [8, 40]).splitlines()
    assert len(table) == 2 + 2 * 2 * 5
    assert table[2] == "| ff | 8 | per class | uniform | 26.79 ± 0.00 (2) | 43.75 ± 0.00 (2) |"
    X = np.ones((len(Y), 4), np.uint8)
    data = Dataset("made", X, Y, X[:4], np.arange(K), NAMES)
    figure = study.picture(again.done, data, ["ff", "r"], [8, 40])
    assert len(figure.axes) == 4
