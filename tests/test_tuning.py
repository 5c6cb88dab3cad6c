"""The tuning protocol: half of the labels validate, no other label is looked at, the test set stays closed."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import SMALL, sentences, write_params

import nesi.experiment.tuning
from nesi.cli import main
from nesi.config.parameters import validated
from nesi.config.reading import load_parameters
from nesi.experiment.cells import load_dataset
from nesi.experiment.tuning import tuning_data
from nesi.legacy.h5_files import write_weights
from nesi.training.trainer import Trainer

TUNING = {"labels": 60, "grid": {"C": [20, 40], "A": [100, 200], "threshold": [0.3, 0.9]}}


@dataclasses.dataclass
class TrainingPartOnly:
    """A data set that cannot be asked for its test set."""

    X_train: Any
    y_train: np.ndarray
    class_names: tuple[str, ...]

    @property
    def X_test(self) -> None:
        raise AssertionError("the test set was opened")

    y_test = X_test


@pytest.fixture
def closed_test_set(monkeypatch: pytest.MonkeyPatch) -> TrainingPartOnly:
    dataset = load_dataset(validated(dict(SMALL), "SMALL"), None)
    guarded = TrainingPartOnly(dataset.X_train, np.array(dataset.y_train), dataset.class_names)
    monkeypatch.setattr(nesi.experiment.tuning, "load_dataset", lambda parameters, data_dir: guarded)
    return guarded


def tune(tmp_path: Path, capsys: pytest.CaptureFixture[str], *options: object, **changes: Any) -> tuple[int, str, str]:
    params = write_params(
        tmp_path / "p.yaml", **{"networks": ["r", "r+"], "iterations": 8, "tuning": TUNING, **changes}
    )
    code = main(["tune", str(params), "--out", str(tmp_path / "out"), *map(str, options)])
    output, errors = capsys.readouterr()
    return code, output, errors


def test_the_search_writes_a_parameter_file_and_a_picture(
    closed_test_set: TrainingPartOnly, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, errors = tune(tmp_path, capsys)
    assert (code, sentences(errors)) == (0, [])
    trials = [json.loads(line) for line in (tmp_path / "out" / "trials.jsonl").read_text().splitlines()]
    assert [trial["network"] for trial in trials] == ["r"] * 4 + ["r+"] * 2
    best = min(trials[:4], key=lambda trial: (trial["error"], trial["values"]["C"]))["values"]
    tuned = load_parameters(tmp_path / "out" / "tuned.yaml")
    assert (best["C"], best["A"]) == (tuned.C, tuned.A)
    assert all(trial["values"]["C"] == tuned.C for trial in trials[4:]), "the threshold is tuned with the rest kept"
    assert tuned.threshold in (0.3, 0.9)
    assert (tmp_path / "out" / "search.png").read_bytes().startswith(b"\x89PNG")


def test_a_search_is_continued_not_repeated(
    closed_test_set: TrainingPartOnly, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tune(tmp_path, capsys, "--quiet")[0] == 0
    path = tmp_path / "out" / "trials.jsonl"
    whole = path.read_text()
    path.write_text("".join(whole.splitlines(keepends=True)[:3]) + '{"run": 4, "netw')
    code, _, errors = tune(tmp_path, capsys)
    assert code == 2
    assert "already holds a search" in errors
    assert tune(tmp_path, capsys, "--resume")[0] == 0
    assert path.read_text() == whole
    assert tune(tmp_path, capsys, "--resume", "--seed", 5)[0] == 2


def test_only_the_given_labels_are_used() -> None:
    """30 labels train, 30 validate, every other point of the training part has none."""
    parameters = validated({**SMALL, "tuning": TUNING}, "SMALL")
    assert parameters.tuning is not None
    dataset = load_dataset(parameters, None)
    data = tuning_data(parameters, parameters.tuning, dataset)
    assert (data.labels >= 0).sum() == 30
    assert np.bincount(data.labels[data.labels >= 0]).tolist() == [3] * 10
    assert np.bincount(data.y_validation).tolist() == [3] * 10
    assert len(data.labels) == len(dataset.y_train) - 30, "validation points do not train, not even without a label"
    rows = {row.tobytes() for row in np.asarray(data.X)}
    duplicates = sum(row.tobytes() in rows for row in np.asarray(data.X_validation))
    assert duplicates == 0


def test_optuna_stays_inside_the_grid(
    closed_test_set: TrainingPartOnly, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("optuna", reason="Optuna is an extra: pip install 'nesi[tune]'")
    code, _, errors = tune(tmp_path, capsys, "--optuna", 3, "--quiet", networks=["r"])
    assert (code, sentences(errors)) == (0, [])
    trials = [json.loads(line) for line in (tmp_path / "out" / "trials.jsonl").read_text().splitlines()]
    assert len(trials) == 3
    assert all(20 <= trial["values"]["C"] <= 40 and 100 <= trial["values"]["A"] <= 200 for trial in trials)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"tuning": {**TUNING, "labels": 10}}, "two per class"),
        ({"tuning": {**TUNING, "labels": 100000}}, "100000 labels were asked for"),
        ({"tuning": {**TUNING, "grid": {"A": [10, 200]}}}, "A is 10, but must be larger"),
        ({"tuning": {**TUNING, "grid": {"C": [1.5]}}}, "C is 1.5, but must be an integer"),
        ({"tuning": {**TUNING, "grid": {"threshold": [2]}}}, "threshold is 2, but must lie between"),
    ],
)
def test_what_cannot_be_tuned_is_said(
    changes: dict, word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, errors = tune(tmp_path, capsys, **changes)
    assert code == 2
    assert word in errors
    assert len(sentences(errors)) == 1


def test_trials_start_where_runs_would_start(
    closed_test_set: TrainingPartOnly,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From random weights, or from weights of the authors' program."""
    stored = np.random.default_rng(0).random((20, 64)).astype("float32") + 1
    write_weights(tmp_path / "Run1M1L1.h5", stored)
    starts = []
    new_trainer = nesi.experiment.tuning.new_trainer

    def noticed(*arguments: Any, **options: Any) -> Trainer:
        trainer = new_trainer(*arguments, **options)
        starts.append(trainer.W.copy())
        return trainer

    monkeypatch.setattr(nesi.experiment.tuning, "new_trainer", noticed)
    one_trial = {"labels": 60, "grid": {"A": [200]}}
    for number, W_init in enumerate(("random", {"h5": str(tmp_path)})):
        folder = tmp_path / str(number)
        folder.mkdir()
        code, _, errors = tune(folder, capsys, C=20, networks=["r"], iterations=1, W_init=W_init, tuning=one_trial)
        assert (code, sentences(errors)) == (0, [])
    random, given = starts
    assert 0 < random.min() < 0.05
    assert 0.95 < random.max() <= 1
    np.testing.assert_array_equal(given, stored)


def test_a_file_without_a_grid_is_tuned_around_its_values(
    closed_test_set: TrainingPartOnly, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, output, _ = tune(tmp_path, capsys, tuning=None, labels=[60], iterations=1, epsilon_W=0.2)
    assert code == 0
    stored = load_parameters(tmp_path / "out" / "params.yaml").tuning
    assert stored is not None
    assert stored.labels == 60
    assert stored.grid == {
        "C": [13, 40, 120],
        "A": [109.3, 200.0, 472.0],
        "epsilon_W": [0.2, pytest.approx(0.6)],
        "threshold": [0.3, 0.6, 0.9],
    }
    assert output.count("validation error") == 21
    assert "chosen: C = " in output
    code, output, _ = tune(tmp_path, capsys, "--resume", tuning=None, labels=[60], iterations=1, epsilon_W=0.2)
    assert code == 0  # the automatic grid is the same again


def test_the_number_of_labels_alone_may_be_given(
    closed_test_set: TrainingPartOnly, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = {"grid": {"epsilon_W": [0.5]}}
    code, _, errors = tune(tmp_path, capsys, "--labels", 40, networks=["ff"], iterations=1, tuning=grid)
    assert code == 0, errors
    assert load_parameters(tmp_path / "out" / "params.yaml").tuning.labels == 40  # type: ignore[union-attr]


def test_workers_make_the_same_trials_in_the_same_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = {"iterations": 2, "threads": 1, "networks": ["ff+"]}
    trials = {}
    for name, options in (("alone", ()), ("together", ("--workers", "2"))):
        (tmp_path / name).mkdir()
        code, _, errors = tune(tmp_path / name, capsys, *options, **settings)
        assert code == 0, errors
        trials[name] = [
            json.loads(line) for line in (tmp_path / name / "out" / "trials.jsonl").read_text().splitlines()
        ]
    assert len(trials["alone"]) == 6
    assert [(trial["run"], trial["values"]) for trial in trials["alone"]] == [
        (trial["run"], trial["values"]) for trial in trials["together"]
    ]
    assert all(0 <= trial["error"] <= 100 for trial in trials["together"])
    assert (tmp_path / "together" / "out" / "tuned.yaml").is_file()


def test_workers_and_optuna_exclude_each_other(
    closed_test_set: TrainingPartOnly, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, errors = tune(tmp_path, capsys, "--workers", 2, "--optuna", 3)
    assert code == 2
    assert "--workers is for the grid" in errors
