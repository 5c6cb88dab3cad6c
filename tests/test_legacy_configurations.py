"""Configurations of the authors' program: all 42 that came with it, sweeps, greedy models, and the way back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml
from legacy_table import GREEDY, MNIST, NEWS, SMALL, TABLE, Row, row_named, with_model, write_all, write_row

from nesi.cli import main
from nesi.config.parameters import validated
from nesi.config.reading import load_parameters
from nesi.errors import NesiError
from nesi.experiment.tasks import training_settings
from nesi.legacy.configuration import find_configuration, read_configuration
from nesi.legacy.resolve import resolve
from nesi.legacy.to_yaml import convert
from nesi.training.trainer import Trainer

STARTS = {"input": "data", "input_bylabel": "class_means", "even": "uniform", "class": "delta"}


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_all(tmp_path_factory.mktemp("authors"))


def resolved(path: Path):
    return resolve(read_configuration(path))


# ---- the 42 ----------------------------------------------------------------------------------------------------------


def test_there_are_42_different_ones() -> None:
    assert len(TABLE) == len({row.main for row in TABLE}) == 42
    assert [sum(row.folder == folder for row in TABLE) for folder in (NEWS, MNIST)] == [14, 28]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.main)
def test_a_shipped_configuration_resolves_to_its_row(row: Row, shipped: dict[str, Path]) -> None:
    found = resolved(shipped[row.main])
    layers = found.layers
    assert found.name == row.main
    assert (layers.network, layers.greedy, layers.threshold) == (row.network, False, row.threshold)
    assert (layers.W_init, layers.R_init) == (STARTS[row.starts[0]], STARTS[row.starts[1]])
    assert (layers.stopping, layers.stopping_width, found.chunk_size) == (row.stopping, 20, row.chunk)
    assert (found.even_labels, found.classes, found.n_classes) == (True, None, row.K)
    assert len(found.runs) == row.runs
    for run in found.runs:
        assert (run.train_size, run.labels, run.test_size) == (row.N, row.L, row.test)
        assert (run.C, run.A, run.batch_size, run.iterations) == (row.C, row.A, row.batch, row.iterations)
        assert (run.factor_W, run.factor_R) == (row.factor_W, row.factor_R)
        assert run.epsilon_W == pytest.approx(row.epsilon_W, rel=2e-4)
        assert run.epsilon_R == pytest.approx(row.epsilon_R, rel=2e-4)
    only_named = [warning for warning in found.warnings if "PICTURE_OUTPUT" not in warning]
    assert only_named == []


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.main)
def test_a_shipped_configuration_becomes_a_parameter_file(row: Row, shipped: dict[str, Path]) -> None:
    converted = convert(str(shipped[row.main]))
    parameters = converted.parameters
    assert validated(yaml.safe_load(converted.to_yaml()), "printed") == parameters
    assert (parameters.dataset, parameters.networks) == ("mnist" if row.K == 10 else "newsgroups20", [row.network])
    assert (parameters.labels, parameters.runs, parameters.iterations) == ([row.L], row.runs, row.iterations)
    assert (parameters.minibatch_rule, parameters.batch_size, parameters.inference) == ("summed", row.batch, "exact")
    legacy = parameters.legacy
    assert legacy is not None
    assert (legacy.idf, legacy.class_start, legacy.likelihood, legacy.padding, legacy.draw) == (True,) * 5
    assert legacy.chunk_size(row.folder == NEWS, row.network) == row.chunk
    # The stability of the summed rule is checked when a trainer is made; here for all, with the rates that it uses.
    most = {"W": row.batch, "R": min(row.batch, -(-row.L // row.K) if "+" not in row.network else row.batch)}
    assert row.epsilon_W * most["W"] <= 1 + 1e-9
    assert row.epsilon_R * most["R"] <= 1 + 1e-9


def test_the_trainer_learns_with_the_rates_of_the_configuration(shipped: dict[str, Path]) -> None:
    row = row_named("MNIST/r-NeSi-test")
    parameters = convert(str(shipped[row.main])).parameters
    X = np.random.default_rng(0).integers(1, 255, (row.N, 784))
    labels = np.where(np.arange(row.N) < row.L, np.arange(row.N) % 10, -1)
    trainer = Trainer(training_settings(parameters, "r"), X, labels, 10, np.random.default_rng(0))
    assert (trainer._lesson.epsilon_W, trainer._lesson.epsilon_R) == pytest.approx((row.epsilon_W, row.epsilon_R))


def test_a_configuration_is_found_by_its_name(shipped: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path = shipped["MNIST/r+-NeSi-L100"]
    monkeypatch.chdir(path.parents[2])
    for given in ("MNIST/r+-NeSi-L100", "MNIST/r+-NeSi-L100.ini", str(path), str(path.with_suffix(""))):
        assert find_configuration(given) == path
    with pytest.raises(NesiError, match="no such configuration"):
        find_configuration("MNIST/r+-NeSi-L7")


def test_convert_legacy_prints_a_parameter_file(
    shipped: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert-legacy", str(shipped["20 Newsgroups/r-NeSi-L11269"])]) == 0
    printed = capsys.readouterr()
    (tmp_path / "p.yaml").write_text(printed.out)
    parameters = load_parameters(tmp_path / "p.yaml")
    assert (parameters.A, parameters.epsilon_W, parameters.epsilon_R) == (90000, 0.02, 0)
    assert (parameters.R_init, parameters.experiment) == ("delta", "newsgroups20-full")
    assert {line.split(":")[0] for line in printed.err.splitlines()} == {"warning"}
    assert "PICTURE_OUTPUT" in printed.err
    assert "20Newsgroups: lacks the data files; newsgroups20 is looked for" in printed.err


# ---- sweeps and learning rates ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "attribute", "values"),
    [
        ({"training_label_size": "'inc', 10, 20"}, "labels", [10, 30, 50, 70]),
        ({"mini_batch_size": "'inc', 5, 5, 2"}, "batch_size", [5, 5, 10, 10]),
        ({"Iterations": "'runs', 10, 3, 20, 1"}, "iterations", [10, 10, 10, 20]),
        ({"A": "'list', 900, 950, 1000, 900"}, "A", [900, 950, 1000, 900]),
        ({"test_size": "['list', 10, 20, 30, 40]"}, "test_size", [10, 20, 30, 40]),
        ({"training_data_size": "'inc', 600, 100"}, "train_size", [600, 700, 800, 900]),
        ({"epsilon": "'factor', 'list', 0.1, 0.2, 0.3, 'Default'"}, "factor_W", [0.1, 0.2, 0.3, 0.5]),
        ({"epsilon": "'inc', 0.01, 0.01, 2"}, "epsilon_W", [0.01, 0.01, 0.02, 0.02]),
        ({"epsilon": "'Default'"}, "epsilon_W", [0.05] * 4),
        ({"epsilon": "'Default'"}, "epsilon_R", [0.01] * 4),
        ({"epsilon": "0.003"}, "epsilon_W", [0.003] * 4),
        ({"epsilon": "0.003"}, "factor_W", [0.03] * 4),
        ({"epsilon": "0.003"}, "factor_R", [0.15] * 4),
        ({"epsilon": "'factor', 1000"}, "epsilon_W", [1.0] * 4),
    ],
)
def test_values_of_every_run(changes: dict, attribute: str, values: list, tmp_path: Path) -> None:
    path = write_row(tmp_path, SMALL, Runs=4, **changes)
    runs = resolved(path).runs
    assert [getattr(run, attribute) for run in runs] == pytest.approx(values)


def test_a_sweep_becomes_one_value_per_run(tmp_path: Path) -> None:
    path = write_row(tmp_path, SMALL, Runs=3, training_label_size="'inc', 10, 20", epsilon="'factor','inc', 0.1, 0.1")
    parameters = convert(str(path)).parameters
    assert parameters.labels == [10, 30, 50]
    assert parameters.per_run is not None
    assert parameters.per_run.lists() == {
        "labels": [10, 30, 50],
        "epsilon_W": pytest.approx([0.1, 0.2, 0.3]),
        "epsilon_R": pytest.approx([0.1, 0.2, 0.3]),
    }
    second = parameters.for_run(2)
    assert (second.labels, second.epsilon_W) == ([30], pytest.approx(0.2))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"Runs": 3, "A": "'list', 900, 950"}, "A: 'list' has 2 values, but Runs is 3"),
        ({"Runs": 3, "A": "'runs', 900, 1, 950, 1"}, "'runs' counts 2 runs, but Runs is 3"),
        ({"A": "'runs', 900"}, "pairs of a value and a number of runs"),
        ({"A": "'inc', 900"}, "start, step"),
        ({"A": "'inc', 900, 10, 0"}, "0 runs per step"),
        ({"A": "None"}, "no normalisation"),
        ({"A": "'Default'"}, "no normalisation"),
        ({"A": "-3"}, "A is -3, but a positive number"),
        ({"C": "'some'"}, "C is 'some', but an integer"),
        ({"C": "0"}, "C is 0"),
        ({"C": "11"}, "the data set has 10 classes"),
        ({"epsilon": "'factor', 1, 2"}, "'factor' must be followed by"),
        ({"epsilon": "'much'"}, "epsilon is 'much'"),
        ({"epsilon": "7.5"}, "above 1"),
        ({"Iterations": "1.5"}, "Iterations is 1.5"),
        ({"Iterations": "True"}, "Iterations is True"),
        ({"Model": "'PoissonX'"}, "PoissonX.ini: no such configuration file"),
        ({"Initialization": "'input_by'"}, "must be one of input, input_bylabel"),
        ({"Initialization": "'h5'"}, "'h5'"),
        ({"name": "'CIFAR'"}, "must be one of MNIST, 20Newsgroups-tf-idf"),
        ({"training_label_size": "2000"}, "training_data_size is only 1000"),
        ({"classes": "'0', '0'"}, "names a class twice"),
        ({"classes": "3"}, "list of names"),
        ({"classes": "'0', '1'"}, "the data set has 2 classes"),
        ({"InputSource": "'InputLayer'"}, "InputSource"),
        ({"Theano": "1"}, "Theano is 1, but True or False"),
        ({"DataSet": "None"}, "DataSet is None"),
        ({"DataSet": "'../../x'"}, "no such configuration file"),
        ({"foldername": "'a\\nb'"}, "cannot be the name of a file"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(
    changes: dict, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_row(tmp_path, SMALL, **changes)
    assert main(["convert-legacy", str(path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert words in printed.err


def test_a_missing_key_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for key in ("Runs", "mini_batch_size"):
        path = write_row(tmp_path, SMALL)
        path.write_text("\n".join(line for line in path.read_text().splitlines() if not line.startswith(key)))
        assert main(["convert-legacy", str(path)]) == 2
        assert f"the key {key} is missing" in capsys.readouterr().err


def test_nothing_is_dropped_in_silence(tmp_path: Path) -> None:
    path = write_row(tmp_path, SMALL, Scan=False, USE_TEST_SET=False, PIXEL_WIDTH=14, OUTPUT_MODE=2)
    path.write_text(path.read_text() + "mini_batchsize = 3\n[Extra]\na = 1\n")
    output = path.parent / "output" / "default.ini"
    output.write_text(output.read_text() + "CONV_OUTPUT = True\n")
    found = "\n".join(resolved(path).warnings)
    assert "mini_batchsize is unknown and has no effect; did you mean mini_batch_size?" in found
    for word in ("Scan is False", "USE_TEST_SET", "PIXEL_WIDTH", "OUTPUT_MODE", "CONV_OUTPUT", "section Extra"):
        assert word in found


# ---- models --------------------------------------------------------------------------------------------------------


def test_two_multilayers_are_greedy_training(tmp_path: Path) -> None:
    parameters = convert(str(with_model(tmp_path, GREEDY))).parameters
    assert parameters.greedy
    assert (parameters.iterations, parameters.iterations_R) == (30, 7)
    assert training_settings(parameters, "ff").iterations_of("second") == 7
    assert (parameters.W_init, parameters.R_init) == ("single_points", "random")
    assert (parameters.epsilon_W, parameters.epsilon_R) == (pytest.approx(0.01 * 1000 / 50), 0.5)


def test_a_second_normalisation_is_named(tmp_path: Path) -> None:
    found = resolved(with_model(tmp_path, GREEDY.replace("A = None", "A = 'Default'")))
    assert any("learns from s itself" in warning for warning in found.warnings)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("'Poisson'", "'PoissonRecurrent'", "both must be in one MultiLayer"),
        ("[MultiLayer2]", "[MultiLayer3]", "unknown; expected MultiLayer1"),
        ("[[InputLayer]]\n    InputSource = 'DataSet'\n    A = 900", "", "InputLayer is missing"),
        ("Iterations = 30", "Iterations = 30\nStoppingCriterion = True", "one MultiLayer only"),
        ("'MM-LabeledOnly'", "'MM-SSL'", "the key threshold is missing"),
        ("'MM-LabeledOnly'", "'Poisson'", "must be one of MM-LabeledOnly, MM-SSL, MM-USL"),
        ("'MultiLayer1', 'ProcessingLayer1'", "'DataSet'", "must be 'MultiLayer1','ProcessingLayer1'"),
    ],
)
def test_models_that_neural_simpletrons_do_not_have(old: str, new: str, words: str, tmp_path: Path) -> None:
    assert old in GREEDY
    with pytest.raises(NesiError, match=words):
        resolved(with_model(tmp_path, GREEDY.replace(old, new)))


def test_weights_of_an_h5_file(tmp_path: Path) -> None:
    text = GREEDY.replace("'singleinput'", "'h5', './output/old/h5'").replace(
        "Model = 'MM-LabeledOnly'", "Model = 'MM-USL'\n    Initialization = 'h5', './output/old/h5', 'R.h5'"
    )
    parameters = convert(str(with_model(tmp_path, text))).parameters
    assert parameters.model_dump(include={"W_init", "R_init"}) == {
        "W_init": {"h5": str(tmp_path / "output/old/h5")},
        "R_init": {"h5": str(tmp_path / "output/old/h5/R.h5")},
    }
    assert parameters.legacy is not None
    assert parameters.legacy.unlabeled_top_layer


def test_indices_do_not_go_with_a_choice_of_classes(tmp_path: Path) -> None:
    path = write_row(tmp_path, SMALL, classes="['1', '0', '2', '3', '4', '5', '6', '7', '8', '9']")
    assert convert(str(path)).parameters.data["classes"] == list("1023456789")
    dataset = path.parent / "dataset" / f"{SMALL.dataset_file}.ini"
    dataset.write_text(dataset.read_text() + "labellist = 'h5/'\n")
    with pytest.raises(NesiError, match="leave one of the two out"):
        resolved(path)


def test_stopping_without_a_width_is_named(tmp_path: Path) -> None:
    path = write_row(tmp_path, row_named("MNIST/r-NeSi-L10"))
    model = path.parent / "model" / "r-NeSi-SC.ini"
    model.write_text(model.read_text().replace("MovingWidth = 20", ""))
    found = resolved(path)
    assert (found.layers.stopping, found.layers.stopping_width) == (True, 20)
    assert any("MovingWidth is missing" in warning for warning in found.warnings)
