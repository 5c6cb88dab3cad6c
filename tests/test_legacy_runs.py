"""Real small trainings through `run_experiment.py --legacy`, on made-up files in the authors' folders."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import numpy as np
import pytest
from command_line import records, run_here, sentences
from legacy_pictures import N_TEST, N_TRAIN, write_pictures
from legacy_table import Row, row_named, write_row

from nesi.cli import main
from nesi.config.reading import load_parameters
from nesi.legacy.h5_files import read_point_list, read_weights
from nesi.legacy.output import write_output_tree
from nesi.storage.arrays import load_arrays

TODAY = datetime.date.today().isoformat()


def small(main_name: str) -> Row:
    row = row_named(main_name)
    return row._replace(N=N_TRAIN, L=40, test=N_TEST, C=15, A=100, iterations=12, factor_W=1.0, factor_R=1.0, batch=10)


@pytest.fixture(scope="module")
def authors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of somebody who has the authors' program, its configurations and its data."""
    root = tmp_path_factory.mktemp("authors")
    write_pictures(root)
    return root


@pytest.fixture(scope="module")
def finished(authors: Path) -> Path:
    """r+ with a sweep of the labels, run by name from the authors' folder; the tree is below `output`."""
    write_row(authors, small("MNIST/r+-NeSi-test"), training_label_size="'inc', 20, 20", test_size=50)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(authors)
        code, output, errors = run_here("--legacy", "MNIST/r+-NeSi-test", "--legacy-output", "output")
    assert (code, len(sentences(errors))) == (0, 1), errors
    assert "PICTURE_OUTPUT" in errors
    assert "legacy output: output" in output
    return authors / "runs" / "MNIST-r+-NeSi-test"


def tree(authors: Path, name: str) -> Path:
    return authors / "output" / "MNIST" / f"{TODAY} - {name}"


def test_the_run_is_a_run_like_any_other(finished: Path) -> None:
    found = records(finished)
    assert set(found) == {("r+", 20, 1), ("r+", 40, 2)}
    settings = found["r+", 20, 1]["settings"]
    assert settings["legacy"] == dict.fromkeys(("idf", "class_start", "likelihood", "padding", "draw"), True)
    assert (settings["test_size"], settings["train_size"]) == (50, N_TRAIN)
    assert found["r+", 20, 1]["n_test"] == 50
    assert found["r+", 40, 2]["test_error"] < 50
    assert load_parameters(finished / "params.yaml").per_run is not None
    assert (finished / "report.html").exists()


def test_results_have_a_column_for_the_sweep(finished: Path, authors: Path) -> None:
    lines = (tree(authors, "r+-NeSi - test") / "test - Results.txt").read_text().splitlines()
    assert lines[:2] == [TODAY, "training_label_size\tTest-Error [%]\tLog-Likelihood"]
    found = sorted(records(finished).values(), key=lambda record: record["run"])
    for line, record in zip(lines[2:], found, strict=True):
        expected = (record["labels"], record["test_error"], record["log_likelihood"])
        assert line == "\t".join(f"{value:f}" for value in expected)


def test_the_trace_has_the_start_and_every_tenth_iteration_of_all_runs(finished: Path, authors: Path) -> None:
    lines = (tree(authors, "r+-NeSi - test") / "test - LogLikelihood.txt").read_text().splitlines()
    assert lines[0] == "%Iteration\tLogLikelihood"
    assert [line.split("\t")[0] for line in lines[1:]] == ["0", "10", "0", "10"]
    values = [float(line.split("\t")[1]) for line in lines[1:]]
    assert values[0] < values[1]
    details = load_arrays(finished / "details" / "r+-L20-run1.npz")
    assert values[1] == pytest.approx(details["log_likelihood"][9], abs=1e-5)


def test_settings_have_the_resolved_learning_rates(finished: Path, authors: Path) -> None:
    text = (tree(authors, "r+-NeSi - test") / "test - Setting.txt").read_text()
    titles = [line for line in text.splitlines() if line.startswith("=")]
    assert titles == [f"========== {title} ==========" for title in ("Config", "DataSet", "Output", "Model")]
    assert f"epsilon = 'factor', 1.0, '|', {15 / N_TRAIN!r}" in text
    assert f"epsilon = 'factor', 1.0, '|', {10 / N_TRAIN!r}" in text
    assert "total_mini_batch_size = 10" in text
    assert "training_label_size = 'list', 20, 40" in text


def test_weights_and_points_are_in_the_authors_h5_files(finished: Path, authors: Path) -> None:
    folder = tree(authors, "r+-NeSi - test") / "h5"
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        f"Run{run}{what}.h5" for run in (1, 2) for what in ("M1L1", "M1L2", "Data")
    )
    weights = load_arrays(finished / "weights" / "r+-L40-run2.npz")
    np.testing.assert_array_equal(read_weights(folder / "Run2M1L1.h5", (15, 36)), weights["W"])
    np.testing.assert_array_equal(read_weights(folder / "Run2M1L2.h5", (10, 15)), weights["R"])
    points = read_point_list(folder / "Run2Data.h5", N_TRAIN, N_TEST)
    assert (len(points.labeled), len(points.unlabeled), len(points.test)) == (40, N_TRAIN - 40, 50)
    np.testing.assert_array_equal(points.labeled, load_arrays(finished / "details" / "r+-L40-run2.npz")["labeled"])
    assert np.bincount(points.test % 10).tolist() == [5] * 10  # balanced: class of point i is i mod 10


def test_a_second_tree_gets_a_number(finished: Path, authors: Path, tmp_path: Path) -> None:
    first = tree(authors, "r+-NeSi - test")
    for number in (0, 1):
        assert main(["export-legacy", str(finished), "--out", str(authors / "output")]) == 0
        other = first.with_name(f"{first.name} ({number})")
        assert (other / "test - Results.txt").read_bytes() == (first / "test - Results.txt").read_bytes()
    assert not list((authors / "output").rglob("*.part"))


def test_a_tree_cannot_leave_its_root(finished: Path, tmp_path: Path) -> None:
    text = (finished / "params.yaml").read_text()
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("records.jsonl", "dataset.json"):
        (copy / name).write_bytes((finished / name).read_bytes())
    (copy / "params.yaml").write_text(text.replace("MNIST/r+-NeSi - test", "../outside"))
    assert main(["export-legacy", str(copy), "--out", str(tmp_path / "root")]) == 2
    assert not (tmp_path / "outside").exists()
    assert main(["export-legacy", str(tmp_path / "nowhere")]) == 2


def test_an_index_list_gives_the_same_points_and_weights_go_on(finished: Path, authors: Path) -> None:
    """The restart of the authors' program: their points, their weights, and no iteration lost."""
    before = tree(authors, "r+-NeSi - test") / "h5"
    row = small("MNIST/r+-NeSi-test")
    start = f"'h5', './{before.relative_to(authors).as_posix()}'"
    path = write_row(authors / "again", row, training_label_size="'inc', 20, 20", Initialization=start, test_size=50)
    for name in ("data-sets", "output"):
        (authors / "again" / name).symlink_to(authors / name)
    dataset = path.parent / "dataset" / f"{row.dataset_file}.ini"
    dataset.write_text(dataset.read_text() + f"indexlist = './{before.relative_to(authors).as_posix()}/'\n")
    out = authors / "again" / "out"
    code, _, errors = run_here("--legacy", path, "--out", out, "--quiet", "--seed", 77)
    assert code == 0, errors
    for labels, run in ((20, 1), (40, 2)):
        name = f"r+-L{labels}-run{run}"
        old, new = (load_arrays(directory / "details" / f"{name}.npz") for directory in (finished, out))
        np.testing.assert_array_equal(old["labeled"], new["labeled"])
        np.testing.assert_array_equal(old["test_points"], new["test_points"])
        final = records(finished)["r+", labels, run]
        assert float(new["log_likelihood_at_start"]) == pytest.approx(final["log_likelihood"], rel=1e-6)


def test_two_multilayers_with_their_own_numbers_of_iterations(authors: Path) -> None:
    row = small("MNIST/ff-NeSi-test")._replace(runs=1)
    path = write_row(authors, row)
    (path.parent / "model" / f"{row.model_file}.ini").write_text(f"""
[MultiLayer1]
    Iterations = 10
    [[InputLayer]]
    InputSource = 'DataSet'
    A = {row.A}
    [[ProcessingLayer1]]
    Model = 'Poisson'
    InputSource = 'InputLayer'
    C = {row.C}
    epsilon = 'factor', 1
[MultiLayer2]
    Iterations = 20
    [[InputLayer]]
    InputSource = 'MultiLayer1', 'ProcessingLayer1'
    [[ProcessingLayer1]]
    Model = 'MM-LabeledOnly'
    Initialization = 'even'
    InputSource = 'InputLayer'
    C = 'Default'
    epsilon = 'factor', 1
""")
    out = authors / "greedy"
    code, _, errors = run_here("--legacy", path, "--out", out, "--legacy-output", authors / "output", "--quiet")
    assert code == 0, errors
    record = records(out)["ff", 40, 1]
    assert record["iterations"] == 30
    assert record["test_error"] < 60
    folder = tree(authors, "ff-NeSi - test")
    lines = (folder / "test - LogLikelihood.txt").read_text().splitlines()
    assert [line.split("\t")[0] for line in lines[1:]] == ["0", "10", "10.10", "10.20"]
    assert {path.name for path in (folder / "h5").iterdir()} == {"Run1M1L1.h5", "Run1M2L1.h5", "Run1Data.h5"}


def test_a_class_layer_without_labels(authors: Path) -> None:
    """MM-USL: all classes learn the mean activity of the units, so that none is preferred."""
    row = small("MNIST/r-NeSi-test")._replace(runs=1, batch=5)
    path = write_row(authors, row)
    model = path.parent / "model" / f"{row.model_file}.ini"
    model.write_text(model.read_text().replace("MM-LabeledOnly", "MM-USL"))
    out = authors / "usl"
    code, _, errors = run_here("--legacy", path, "--out", out, "--quiet")
    assert code == 0, errors
    R = load_arrays(out / "weights" / "r-L40-run1.npz")["R"]
    assert R.shape == (10, row.C)
    assert (R[0] == R).all()
    assert R[0].sum() == pytest.approx(1, abs=1e-4)
    assert R[0].std() > 1e-3
    assert records(out)["r", 40, 1]["test_error"] == 90.0  # the first class always wins


def test_some_classes_in_an_order_of_ones_own(authors: Path) -> None:
    row = small("MNIST/ff+-NeSi-test")._replace(runs=1, N=60, L=9, test=20, C=6)
    path = write_row(authors, row, classes="['7', '2', '0']", EVENLABELS=False)
    text = path.read_text()
    path.write_text(text)
    model = path.parent / "model" / f"{row.model_file}.ini"
    model.write_text(model.read_text().replace("C = 10\n", "C = 'Default'\n"))
    out = authors / "classes"
    code, _, errors = run_here("--legacy", path, "--out", out, "--quiet")
    assert code == 0, errors
    about = json.loads((out / "dataset.json").read_text())
    assert (about["class_names"], about["n_train"]) == (["7", "2", "0"], 3 * N_TRAIN // 10)
    assert records(out)["ff+", 9, 1]["n_train"] == 60


def test_data_that_is_too_small_is_refused(authors: Path) -> None:
    path = write_row(authors, small("MNIST/ff-NeSi-L100")._replace(N=60000))
    code, _, errors = run_here("--legacy", path, "--out", authors / "large", "--quiet")
    assert code == 2
    assert f"train_size is 60000, but {authors / 'data-sets' / 'MNIST'} has 230 training points" in errors


def test_either_a_parameter_file_or_a_configuration(authors: Path) -> None:
    for arguments in ((), ("p.yaml", "--legacy", "MNIST/ff-NeSi-test")):
        code, _, errors = run_here(*arguments)
        assert (code, errors.count("\n")) == (2, 1)
        assert "either a parameter file or --legacy" in errors


def test_texts_in_the_authors_folder(tmp_path: Path) -> None:
    """data-sets/20Newsgroups/20news-bydate/matlab with a vocabulary above it, in the complete setting C = K."""
    folder = tmp_path / "data-sets" / "20Newsgroups" / "20news-bydate" / "matlab"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    n_words = 30
    for split, count in (("train", 80), ("test", 40)):
        labels = 1 + np.arange(count) % 4
        lines = [
            f"{document + 1} {word + 1} {rng.integers(1, 4)}"
            for document, label in enumerate(labels)
            for word in sorted({*rng.choice(n_words, 5), *range(7 * (label - 1), 7 * label)})
        ]
        (folder / f"{split}.data").write_text("\n".join(lines) + "\n")
        (folder / f"{split}.label").write_text("\n".join(map(str, labels)) + "\n")
        (folder / f"{split}.map").write_text("".join(f"group.{k} {k}\n" for k in range(1, 5)))
    vocabulary = tmp_path / "data-sets" / "20Newsgroups" / "vocabulary.txt"
    vocabulary.write_text("".join(f"word{number}\n" for number in range(n_words)))
    row = row_named("20 Newsgroups/r-NeSi-test")._replace(N=80, L=40, test=40, A=60, runs=1, iterations=10, C=4)
    path = write_row(tmp_path, row, nclasses=4)
    model = path.parent / "model" / f"{row.model_file}.ini"
    model.write_text(model.read_text().replace("C = 20\n", "C = 'Default'\n").replace("5.0", "1.0"))
    code, _, errors = run_here("--legacy", path, "--out", tmp_path / "out", "--quiet")
    assert code == 0, errors
    assert records(tmp_path / "out")["r", 40, 1]["test_error"] < 30


def test_the_tree_of_an_experiment_without_legacy_options(tmp_path: Path, authors: Path) -> None:
    out = tmp_path / "out"
    params = tmp_path / "p.yaml"
    params.write_text(f"""
dataset: {authors / "data-sets" / "MNIST"}
C: 10
A: 100
epsilon_W: 1.0
epsilon_R: 1.0
iterations: 3
networks: [ff, r]
labels: [20, all]
runs: 1
batch_size: 10
""")
    assert run_here(params, "--out", out, "--quiet")[0] == 0
    lost: list[str] = []
    folders = write_output_tree(out, tmp_path / "root", lost.append, datetime.date(2016, 5, 3))
    assert [folder.relative_to(tmp_path / "root").as_posix() for folder in folders] == [
        f"MNIST/{network}-NeSi - L{labels}" for network in ("ff", "r") for labels in (20, N_TRAIN)
    ]
    assert any("quirks" in sentence for sentence in lost)
    assert (folders[0] / "L20 - Results.txt").read_text().startswith("2016-05-03\nTest-Error [%]\tLog-Likelihood\n")
