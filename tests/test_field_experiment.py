"""Experiments with labels for fields, as a user runs them: parameter files, records, comparison with the paper."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import ROOT, finish, records, run_here, sentences, start_held, wait_for, write_params

from nesi.config.reading import load_parameters
from nesi.fields.labels import ORACLE
from nesi.report.comparison import summarize
from nesi.report.tables import footnotes, rows
from nesi.storage.arrays import load_arrays

FIELDS: dict[str, Any] = {"labels": [0], "networks": ["ff", "r+"], "runs": 1, "C": 40, "iterations": 15}


def test_fields_are_labeled_by_the_oracle_and_the_record_says_so(tmp_path: Path) -> None:
    params = write_params(tmp_path / "p.yaml", **FIELDS, field_labels={"fields": 20, "choose": "informative"})
    code, output, errors = run_here(params, "--out", tmp_path / "out", "--quiet")
    assert (code, sentences(errors)) == (0, [])
    assert "20 fields" in output
    found = records(tmp_path / "out")
    for network, iterations in (("ff", 15), ("r+", 30)):
        record = found[network, 0, 1]
        about = record["field_labels"]
        assert (about["by"], about["asked"], about["oracle"]) == ("oracle", 20, ORACLE)
        assert about["answered"] <= 20
        assert record["iterations"] == iterations
        resolved = record["resolved"]
        assert (resolved["W_init"], resolved["R_init"]) == ("data", "uniform")  # of the stage without classes
        assert sum(phase["iterations"] for phase in resolved["phases"]) == iterations
        assert record["settings"]["field_labels"]["choose"] == "informative"
        details = load_arrays(tmp_path / "out" / "details" / f"{network}-L0-run1.npz")
        assert len(set(details["asked_fields"].tolist())) == 20
        assert details["field_answers"].shape == (20, 10)
        assert len(details["labeled"]) == 0
    assert found["r+", 0, 1]["test_error"] < 30  # of ten classes, with 20 labels


def test_in_the_same_run_a_smaller_number_of_random_fields_is_a_part_of_a_larger(tmp_path: Path) -> None:
    asked = []
    for fields in (5, 12):
        params = write_params(tmp_path / "p.yaml", **{**FIELDS, "networks": ["ff"]}, field_labels={"fields": fields})
        assert run_here(params, "--out", tmp_path / str(fields), "--quiet")[0] == 0
        asked.append(load_arrays(tmp_path / str(fields) / "details" / "ff-L0-run1.npz")["asked_fields"])
    np.testing.assert_array_equal(asked[0], asked[1][:5])


def test_a_run_that_waits_for_a_person_is_not_tested(tmp_path: Path) -> None:
    params = write_params(tmp_path / "p.yaml", **FIELDS, field_labels={"fields": 20, "by": "person"})
    code, _, errors = run_here(params, "--out", tmp_path / "out", "--quiet")
    assert code == 0
    assert "self-labeling" not in errors  # it has not begun, and is not missed
    record = records(tmp_path / "out")["r+", 0, 1]
    assert record["test_error"] is None
    assert record["iterations"] == 15
    R = load_arrays(tmp_path / "out" / "weights" / "r+-L0-run1.npz")["R"]
    np.testing.assert_array_equal(R, R[:1] * np.ones((10, 1), R.dtype))


def test_an_interrupted_run_ends_with_the_same_record(tmp_path: Path) -> None:
    changes = {**FIELDS, "networks": ["r+"], "iterations": 150, "checkpoint_seconds": 0.0}
    params = write_params(tmp_path / "p.yaml", **changes, field_labels={"fields": 20})
    process = start_held(tmp_path / "never", 20, params, "--out", tmp_path / "out")
    assert wait_for(lambda: list((tmp_path / "out" / "checkpoints").glob("*.npz")), process)
    process.kill()
    finish(process)
    assert records(tmp_path / "out") == {}
    assert run_here(params, "--out", tmp_path / "out", "--resume", "--quiet")[0] == 0
    assert run_here(params, "--out", tmp_path / "whole", "--quiet")[0] == 0
    assert records(tmp_path / "out") == records(tmp_path / "whole")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"labels": [0]}, ["labels holds 0", "field_labels"]),
        ({"field_labels": {"fields": 5}, "labels": [10]}, ["labels: [0]"]),
        ({"field_labels": {"fields": 0}, "labels": [0]}, ["field_labels.fields is 0"]),
        ({"field_labels": {"feilds": 5}, "labels": [0]}, ["field_labels.feilds", "did you mean 'fields'?"]),
        ({"field_labels": {"fields": 5, "choose": "best"}, "labels": [0]}, ["'best'", "informative"]),
        ({"field_labels": {"fields": 5}, "labels": [0], "R_init": "delta"}, ["R_init"]),
        (
            {"field_labels": {"fields": 5}, "labels": [0], "networks": ["ff"], "class_assignment": "hard max"},
            ["field_labels cannot be combined with"],
        ),
        ({"field_labels": {"fields": 41}, "labels": [0]}, ["field_labels.fields is 41", "C = 40"]),
        ({"field_labels": {"fields": 5}, "labels": [0], "train_size": 100}, ["train_size"]),
    ],
)
def test_wrong_parameters_get_one_sentence(changes: dict[str, Any], words: list[str], tmp_path: Path) -> None:
    params = write_params(tmp_path / "p.yaml", **{**FIELDS, "labels": [20], **changes})
    code, _, errors = run_here(params, "--out", tmp_path / "out", "--quiet")
    assert code == 2
    (sentence,) = sentences(errors)
    assert all(word in sentence for word in words), sentence


@pytest.mark.parametrize(
    ("file", "network", "published"), [("user_labels_100", "ff", 10.53), ("user_labels_10000", "r+", 5.15)]
)
def test_the_papers_experiments_are_found_and_the_oracle_is_named(file: str, network: str, published: float) -> None:
    parameters = load_parameters(ROOT / "params" / f"{file}.yaml")
    assert parameters.networks == [network]
    assert parameters.field_labels is not None
    settings = {
        key: getattr(parameters, key) for key in ("C", "A", "epsilon_W", "epsilon_R", "threshold", "iterations")
    }
    settings["field_labels"] = parameters.field_labels.model_dump()
    record = {"dataset": "mnist", "experiment": parameters.experiment, "network": network, "labels": 0, "seed": 1}
    record |= {"log_likelihood": -1.0, "seconds": 1.0, "inference": parameters.inference, "settings": settings}
    cells = summarize([{**record, "run": run, "test_error": published + 0.1 * run} for run in (1, 2, 3)])
    assert [cell.published_mean for cell in cells] == [published]
    differs = dict(cells[0].differs_from_paper)
    assert differs.pop("fields labeled by") == ["oracle", "person"]
    assert differs == ({} if network == "ff" else {"iterations": [300, 500]})
    assert rows(cells)[1][1] == "100 fields"
    assert any("The oracle answers with the majority class" in note for note in footnotes(cells))
    chosen = {**settings, "field_labels": {**settings["field_labels"], "fields": 50, "choose": "informative"}}
    (cell,) = summarize([{**record, "run": 1, "test_error": 5.0, "settings": chosen}])
    assert cell.differs_from_paper["fields labeled"] == [50, 100]
    assert cell.differs_from_paper["choice of fields"] == ["informative", "random"]
    chosen["field_labels"]["spread"] = True
    (cell,) = summarize([{**record, "run": 1, "test_error": 5.0, "settings": chosen}])
    assert cell.differs_from_paper["answers spread to similar fields"] == [True, False]
