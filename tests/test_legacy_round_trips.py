"""Parameter files as configurations of the authors' program, and back again."""

from __future__ import annotations

from pathlib import Path

import pytest
from legacy_table import GREEDY, SMALL, TABLE, Row, with_model, write_all, write_row

from nesi.cli import main
from nesi.config.parameters import validated
from nesi.legacy.configuration import read_configuration
from nesi.legacy.ini import format_ini, parse_ini
from nesi.legacy.resolve import resolve
from nesi.legacy.to_ini import configurations_of
from nesi.legacy.to_yaml import convert


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_all(tmp_path_factory.mktemp("authors"))


def back_and_forth(parameters, root: Path):
    """YAML -> ini files -> YAML."""
    (files,), warnings = configurations_of(parameters)
    for name, text in files.files().items():
        path = root / "config" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return convert(str(root / "config" / files.folder / f"{files.name}.ini")).parameters, warnings


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.main)
def test_round_trip_of_the_shipped_configurations(row: Row, shipped: dict[str, Path], tmp_path: Path) -> None:
    parameters = convert(str(shipped[row.main])).parameters
    again, warnings = back_and_forth(parameters, tmp_path)
    assert again == parameters
    assert warnings == []


@pytest.mark.parametrize(
    "changes",
    [
        {"Runs": 3, "training_label_size": "'inc', 10, 20", "epsilon": "'factor','inc', 0.1, 0.1"},
        {"Runs": 2, "C": "'Default'", "A": "'list', 900.0, 1000.0", "EVENLABELS": False},
        {"scan_batch_size": 100, "indexlist": "'old/h5/'", "RESULTS_OUTPUT": False, "LIKELIHOOD_OUTPUT": False},
    ],
)
def test_round_trip_of_sweeps_and_lists(changes: dict, tmp_path: Path) -> None:
    path = write_row(tmp_path / "one", SMALL, **changes)
    path.write_text(path.read_text() + "".join(f"{k} = {v}\n" for k, v in changes.items() if k == "scan_batch_size"))
    dataset = path.parent / "dataset" / f"{SMALL.dataset_file}.ini"
    extra = "".join(f"{k} = {v}\n" for k, v in changes.items() if k == "indexlist")
    dataset.write_text(dataset.read_text() + extra)
    parameters = convert(str(path)).parameters
    assert back_and_forth(parameters, tmp_path / "two") == (parameters, [])


@pytest.mark.parametrize("top", ["MM-LabeledOnly", "MM-USL"])
def test_round_trip_of_greedy_models_and_weights(top: str, tmp_path: Path) -> None:
    text = GREEDY.replace("MM-LabeledOnly", top).replace("'singleinput'", "'h5', './output/old/h5'")
    parameters = convert(str(with_model(tmp_path / "one", text))).parameters
    assert back_and_forth(parameters, tmp_path / "two") == (parameters, [])


def test_a_parameter_file_of_our_own_survives_the_way_there_and_back(tmp_path: Path) -> None:
    content = {
        "dataset": "mnist",
        "C": 300,
        "A": 900.0,
        "epsilon_W": 0.2,
        "epsilon_R": 0.7,
        "threshold": 0.4,
        "iterations": 12,
        "networks": ["r+"],
        "labels": [100],
        "runs": 4,
        "batch_size": 20,
        "train_size": 500,
        "test_size": 200,
        "minibatch_rule": "summed",
        "W_init": "data",
        "R_init": "uniform",
        "legacy": True,
    }
    parameters = validated(content, "ours")
    again, warnings = back_and_forth(parameters, tmp_path)
    assert warnings == []
    same = again.model_dump(exclude={"legacy", "keep_weights"})
    assert same == parameters.model_dump(exclude={"legacy", "keep_weights"})
    assert again.legacy is not None
    assert again.legacy.chunks is False  # r+ has none with `chunks: true`


def test_what_a_configuration_cannot_say_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    params = Path(__file__).parent.parent / "params"
    assert main(["convert-legacy", str(params / "newsgroups20.yaml"), "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    written = sorted(path.name for path in (tmp_path / "config" / "20 Newsgroups").glob("*.ini"))
    assert len(written) == len(printed.out.splitlines()) == 12
    for word in ("minibatch_rule: sequential", "tuning has no counterpart", "always has its quirks"):
        assert word in printed.err
    found = resolve(read_configuration(tmp_path / "config" / "20 Newsgroups" / "r-NeSi-L800.ini"))
    assert found.runs[0].epsilon_R == pytest.approx(0.0125)
    assert main(["convert-legacy", str(params / "newsgroups20.yaml"), "--out", str(tmp_path)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert main(["convert-legacy", str(params / "quickstart.yaml"), "--out", str(tmp_path)]) == 2
    assert "reads MNIST and 20 Newsgroups" in capsys.readouterr().err


def test_what_is_written_can_be_read() -> None:
    section = {"a": ("factor", 0.2), "b": "it's", "c": None, "d": True, "e": ("one",), "f": {"g": 1e-9, "h": {"i": 3}}}
    assert parse_ini(format_ini(section), "here") == section
