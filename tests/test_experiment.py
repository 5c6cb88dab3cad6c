"""A whole experiment, and every way in which one is refused."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml
from command_line import SMALL, checkpoints, records, run_here, sentences, write_params

from nesi.config.parameters import validated
from nesi.config.reading import load_parameters
from nesi.experiment.cells import all_tasks, load_dataset, run_data
from nesi.experiment.one_run import _training_set
from nesi.experiment.point_choice import choose_points
from nesi.storage.arrays import load_arrays


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of a small experiment, made once."""
    folder = tmp_path_factory.mktemp("finished")
    code, output, errors = run_here(write_params(folder / "params.yaml"), "--out", folder / "out")
    assert (code, sentences(errors)) == (0, [])
    assert "[4/4]" in output
    assert "report.html" in output
    return folder / "out"


def test_a_run_that_ends_before_self_labeling_is_pointed_out(tmp_path: Path) -> None:
    params = write_params(tmp_path / "params.yaml", networks=["ff+"], runs=1, epsilon_R=0.01)
    code, _, errors = run_here(params, "--out", tmp_path / "out")
    assert code == 0
    assert "warning: ff+-L20-run1: at the end of training the network labels 0.0 % of the points itself" in errors


def test_the_output_directory_holds_what_was_promised(finished: Path) -> None:
    for name in ("params.yaml", "records.jsonl", "summary.json", "summary.md", "report.html"):
        assert (finished / name).stat().st_size > 0
    figures = {path.name for path in (finished / "figures").iterdir()}
    expected = {f"{kind}_{cell}.png" for kind in ("training", "confusion", "fields") for cell in ("r-L20", "ff+-L20")}
    assert figures == {"error_by_labels.png", *expected}
    assert {path.name for path in (finished / "weights").iterdir()} == {"r-L20-run1.npz", "ff+-L20-run1.npz"}
    assert checkpoints(finished) == []


def test_a_record_says_everything_about_its_run(finished: Path) -> None:
    entry = records(finished, forget=())["r", 20, 1]
    promised = (
        "dataset network labels run seed test_error log_likelihood iterations stopped_at seconds inference backend"
    )
    assert set(promised.split()) <= set(entry)
    assert entry["versions"]["numpy"] == np.__version__
    assert 0 < entry["test_error"] < 60
    weights = load_arrays(finished / "weights" / "r-L20-run1.npz")
    assert weights["W"].shape == (40, 64)
    details = load_arrays(finished / "details" / "r-L20-run1.npz")
    assert len(details["log_likelihood"]) == 20
    wrong = details["confusion"].sum() - np.trace(details["confusion"])
    assert 100 * wrong / details["confusion"].sum() == pytest.approx(entry["test_error"])


def test_labels_are_the_same_for_all_networks_and_new_in_every_run(finished: Path) -> None:
    drawn = {key: entry["labeled_sha256"] for key, entry in records(finished).items()}
    assert drawn["r", 20, 1] == drawn["ff+", 20, 1]
    assert drawn["r", 20, 1] != drawn["r", 20, 2]
    assert records(finished)["r", 20, 1]["weights_sha256"] != records(finished)["r", 20, 2]["weights_sha256"]


def test_summary_agrees_with_the_records(finished: Path) -> None:
    summary = json.loads((finished / "summary.json").read_text())
    assert [(cell["network"], cell["labels"], cell["runs"]) for cell in summary] == [("r", 20, 2), ("ff+", 20, 2)]
    errors = [entry["test_error"] for key, entry in records(finished).items() if key[0] == "r"]
    assert summary[0]["mean"] == pytest.approx(np.mean(errors))


def test_the_same_seed_gives_the_same_records_and_another_seed_others(finished: Path, tmp_path: Path) -> None:
    params = write_params(tmp_path / "p.yaml", networks=["ff+"], runs=1)
    assert run_here(params, "--out", tmp_path / "same", "--quiet")[0] == 0
    assert run_here(params, "--out", tmp_path / "other", "--quiet", "--seed", 2)[0] == 0
    same, other = records(tmp_path / "same"), records(tmp_path / "other")
    assert same["ff+", 20, 1] == records(finished)["ff+", 20, 1]  # whatever ran before it
    assert other["ff+", 20, 1]["labeled_sha256"] != same["ff+", 20, 1]["labeled_sha256"]


def test_quiet_prints_the_table_only(finished: Path, tmp_path: Path) -> None:
    code, output, errors = run_here(
        finished / "params.yaml", "--out", shutil.copytree(finished, tmp_path / "copy"), "--resume", "--quiet"
    )
    assert (code, sentences(errors)) == (0, [])
    assert output.startswith("network")


def test_a_finished_experiment_is_not_repeated(finished: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(finished, tmp_path / "copy")
    before = (copy / "records.jsonl").read_bytes()
    code, output, _ = run_here(finished / "params.yaml", "--out", copy, "--resume")
    assert code == 0
    assert "run 1" not in output
    assert (copy / "records.jsonl").read_bytes() == before


def test_existing_records_are_never_overwritten(finished: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(finished, tmp_path / "copy")
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    code, _, errors = run_here(write_params(tmp_path / "p.yaml"), "--out", copy)
    assert code == 2
    assert "already holds an experiment with 4 finished runs; add --resume" in errors
    code, _, errors = run_here(write_params(tmp_path / "p.yaml", epsilon_W=0.9), "--out", copy, "--resume")
    assert code == 2
    assert "'epsilon_W' (stored: 1.0, given: 0.9)" in errors
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    "changes",
    [
        {"A": 64},  # refused before the directory is prepared
        {"minibatch_rule": "summed", "epsilon_W": 500.0, "batch_size": 500},  # when the first run begins
        {"dataset": "nowhere.npz"},
    ],
)
def test_what_is_refused_before_the_first_run_leaves_nothing_behind(tmp_path: Path, changes: dict[str, object]) -> None:
    params = write_params(tmp_path / "p.yaml", **changes)
    code, _, errors = run_here(params, "--out", tmp_path / "new" / "out", "--quiet")
    assert code == 2, errors
    assert not (tmp_path / "new").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    code, _, errors = run_here(params, "--out", tmp_path / "mine", "--quiet")
    assert code == 2, errors
    assert [path.name for path in (tmp_path / "mine").rglob("*")] == ["notes.txt"]


def test_resolved_parameters_are_a_parameter_file(finished: Path) -> None:
    stored = load_parameters(finished / "params.yaml")
    assert stored.threads == 1
    assert stored.model_copy(update={"threads": None}) == validated(dict(SMALL), "SMALL")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"A": 64}, ["A is 64", "D = 64", "try A = 164"]),
        ({"overrides": [{"networks": ["r"], "A": 10}]}, ["A is 10 (r with 20 labels)"]),
        ({"labels": [5000]}, ["labels: 5000 are asked for", "1438"]),
        ({"labels": ["all", 1438]}, ["'all' and 1438 are the same"]),
        ({"train_size": 5000}, ["train_size is 5000"]),
        ({"dataset": "digit"}, ['did you mean "digits"?']),
        ({"dataset": "digits", "data": {"sed": 1}}, ['no option "sed"']),
        ({"dataset": "nowhere/data.npz"}, ["does not exist"]),
        ({"dataset": "mnist", "data": {"fetch": False}}, ["mnist was not found"]),
    ],
)
def test_what_the_user_can_fix_ends_in_one_sentence(
    changes: dict, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NESI_DATA", str(tmp_path))
    monkeypatch.setenv("NESI_CACHE", str(tmp_path))
    code, _, errors = run_here(
        write_params(tmp_path / "p.yaml", **changes), "--out", tmp_path / "out", "--data-dir", tmp_path
    )
    assert code == 2
    assert len(sentences(errors)) == 1
    for word in words:
        assert word in errors


def test_an_unusable_output_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, _, errors = run_here(write_params(tmp_path / "p.yaml"), "--out", tmp_path / "file" / "out")
    assert code == 2
    assert f"cannot write {tmp_path / 'file' / 'out'}" in errors


def test_a_run_without_a_result_does_not_stop_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nesi.errors import TrainingFailed
    from nesi.training.trainer import Trainer

    learn = Trainer.run_iteration

    def fail_for_r(trainer: Trainer) -> object:
        if trainer.settings.network == "r":
            raise TrainingFailed("the weights are no longer finite")
        return learn(trainer)

    monkeypatch.setattr(Trainer, "run_iteration", fail_for_r)
    code, _, errors = run_here(write_params(tmp_path / "p.yaml", runs=1), "--out", tmp_path / "out", "--quiet")
    assert code == 2
    assert "1 run has no result: r-L20-run1: the weights are no longer finite" in errors
    assert set(records(tmp_path / "out")) == {("ff+", 20, 1)}


def test_a_damaged_checkpoint_costs_time_but_not_correctness(finished: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(finished, tmp_path / "copy")
    lines = (copy / "records.jsonl").read_text().splitlines(keepends=True)
    (copy / "records.jsonl").write_text("".join(lines[:-1]))
    lost = json.loads(lines[-1])
    name = f"{lost['network']}-L{lost['labels']}-run{lost['run']}.npz"
    (copy / "checkpoints" / name).write_bytes(b"PK damaged")
    code, _, errors = run_here(finished / "params.yaml", "--out", copy, "--resume", "--quiet")
    assert code == 0
    assert "starts from scratch" in errors
    assert records(copy) == records(finished)


def test_other_data_is_noticed(finished: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(finished, tmp_path / "copy")
    description = json.loads((copy / "dataset.json").read_text())
    (copy / "dataset.json").write_text(json.dumps({**description, "fingerprint": "other"}))
    code, _, errors = run_here(finished / "params.yaml", "--out", copy, "--resume")
    assert code == 2
    assert "the data of digits has changed" in errors


def test_all_labels_a_subset_and_a_test_error_curve(tmp_path: Path) -> None:
    params = write_params(
        tmp_path / "p.yaml", networks=["ff"], labels=["all"], train_size=300, runs=1, iterations=6, test_error_every=2
    )
    assert run_here(params, "--out", tmp_path / "out", "--quiet")[0] == 0
    entry = records(tmp_path / "out")["ff", 300, 1]
    assert entry["n_train"] == 300
    curve = load_arrays(tmp_path / "out" / "details" / "ff-L300-run1.npz")["test_error_curve"]
    assert list(curve[:, 0]) == [2, 4, 6]
    assert curve[-1, 1] == pytest.approx(entry["test_error"])
    assert "test-error curve" in (tmp_path / "out" / "report.html").read_text()


def test_only_the_drawn_labels_reach_training() -> None:
    parameters = validated(dict(SMALL), "SMALL")
    dataset = load_dataset(parameters, None)
    data = run_data(parameters, dataset)
    task = all_tasks(parameters, data, None)[0]
    points = choose_points(task, data)
    X, labels = _training_set(data, points)
    assert (labels >= 0).sum() == 20
    assert sorted(np.flatnonzero(labels >= 0)) == list(points.labeled)
    assert np.bincount(labels[labels >= 0]).tolist() == [2] * 10
    assert X.shape == data.X_train.shape


def test_the_commands_of_the_package(finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from nesi.cli import main

    assert main([]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["compare", str(tmp_path / "missing")]) == 2
    assert "no such directory" in capsys.readouterr().err
    copy = shutil.copytree(finished, tmp_path / "copy")
    assert main(["run", str(copy / "params.yaml"), "--out", str(copy), "--resume", "--quiet"]) == 0
    assert capsys.readouterr().out.startswith("network")


def test_default_directories_are_numbered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nesi.commands import _default_directory

    monkeypatch.chdir(tmp_path)
    params = Path("some.yaml")
    assert _default_directory(params, resume=False) == Path("runs/some")
    for name in ("some", "some-2", "some-thing"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "params.yaml").write_text(yaml.safe_dump(SMALL))
    assert _default_directory(params, resume=False) == Path("runs/some-3")
    assert _default_directory(params, resume=True) == Path("runs/some-2")


def test_a_directory_can_be_continued_with_more_cells_and_runs(finished: Path, tmp_path: Path) -> None:
    params = write_params(tmp_path / "params.yaml")
    out = tmp_path / "out"
    assert run_here(params, "--network", "r", "--runs", 1, "--out", out, "--quiet")[0] == 0
    assert set(records(out)) == {("r", 20, 1)}
    assert run_here(params, "--runs", 2, "--out", out, "--resume", "--quiet")[0] == 0
    assert records(out) == records(finished)
    code, output, _ = run_here(params, "--network", "ff", "--labels", "30", "--runs", 1, "--out", out, "--resume")
    assert code == 0
    assert "[1/1]" in output
    stored = load_parameters(out / "params.yaml")
    assert (stored.networks, stored.labels, stored.runs) == (["ff", "r", "ff+"], [30, 20], 2)
    assert set(records(out)) == {*records(finished), ("ff", 30, 1)}
