"""--paper: one switch for the paper's own algorithm, whatever the parameter file says."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import run_here, write_params

from nesi.config import load_parameters
from nesi.config.shipped import shipped_files
from nesi.errors import NesiError
from nesi.storage.experiment_directory import ExperimentDirectory

OUR_WAYS = {
    "inference": "truncated",
    "greedy": True,
    "tolerance": 0.1,
    "W_init": "points",
    "batch_size": 500,
    "overrides": [{"networks": ["r"], "R_init": "points", "iterations": 3}],
}
# Of the experiments that the paper has; what is not here has 500 iterations.
ITERATIONS = {"newsgroups20": 200, "newsgroups6": 200, "minibatch": 200, "nist_digits_60000": 2000}
NOT_IN_THE_PAPER = {"quickstart", "newsgroups20_tuned", "nist_vowels", "nist_vowels_raw"}
NOT_IN_THE_PAPER |= {"mnist_few_labels", "newsgroups20_few_labels", "emnist_digits_few_labels"}


def in_paper_mode(path: Path, **changes: Any) -> Any:
    return load_parameters(path, {"mode": "paper", **changes})


@pytest.mark.parametrize("name", sorted(shipped_files()))
def test_every_file_of_ours_can_be_switched(name: str) -> None:
    parameters = in_paper_mode(shipped_files()[name])
    assert parameters.inference == parameters.test_inference == "exact"
    assert parameters.minibatch_rule == "summed"
    assert (parameters.greedy, parameters.tolerance, parameters.W_init) == (False, None, None)
    assert parameters.R_init == ("delta" if name == "newsgroups20_full" else None)
    changed = {key for override in parameters.overrides for key in override.changes()}
    assert changed <= {"iterations", "stopping", "epsilon_R", "epsilon_W"}
    if name not in NOT_IN_THE_PAPER:
        assert parameters.batch_size == {"minibatch": 1}.get(name, 10 if "newsgroups" in name else 25)
        assert parameters.iterations == ITERATIONS.get(name, 500)


def test_the_papers_mnist_has_2000_iterations_and_the_criterion_where_the_paper_has() -> None:
    parameters = in_paper_mode(shipped_files()["mnist"])
    for network in parameters.networks:
        for labels in parameters.labels:
            cell = parameters.for_cell(network, labels, 60000)
            assert cell.iterations == (2000 if network in ("ff+", "r+") and labels == 10 else 500)
            assert cell.stopping == (network == "r" and labels < 60000)
            assert cell.inference == "exact"
            assert cell.minibatch_rule == "summed"


@pytest.mark.parametrize("name", sorted(shipped_files()))
def test_without_the_switch_a_file_means_what_it_meant(name: str) -> None:
    content = yaml.safe_load(shipped_files()[name].read_text())
    parameters = load_parameters(shipped_files()[name])
    assert parameters.mode == "fast"
    for key, value in content.items():
        if key not in ("overrides", "paper", "tuning", "truncated", "field_labels"):
            assert getattr(parameters, key) == value


def test_what_it_resolves_to_is_written_down_and_read_back(tmp_path: Path) -> None:
    path = write_params(tmp_path / "p.yaml", **OUR_WAYS)
    parameters = in_paper_mode(path, batch_size=5, C=30)
    (tmp_path / "params.yaml").write_text(parameters.to_yaml())
    assert "inference: exact" in parameters.to_yaml()
    assert load_parameters(tmp_path / "params.yaml") == parameters
    assert (parameters.batch_size, parameters.C, parameters.overrides) == (5, 30, [])


def test_the_section_can_be_changed_and_null_is_kept(tmp_path: Path) -> None:
    path = write_params(tmp_path / "p.yaml", **OUR_WAYS)
    for changes, size in (({"paper.batch_size": 50}, 50), ({"batch_size": None}, None)):
        parameters = in_paper_mode(path, **changes)
        assert parameters.batch_size == size
        (tmp_path / "params.yaml").write_text(parameters.to_yaml())
        assert load_parameters(tmp_path / "params.yaml") == parameters


def test_the_papers_algorithm_has_no_quirks_of_the_program(tmp_path: Path) -> None:
    path = write_params(tmp_path / "p.yaml", legacy=True, stopping=True)
    with pytest.raises(NesiError, match="leave one of the two out"):
        in_paper_mode(path)
    assert in_paper_mode(path, legacy=False).stopping is False


def test_a_file_can_ask_for_it_itself(tmp_path: Path) -> None:
    path = write_params(tmp_path / "p.yaml", **OUR_WAYS, mode="paper", paper={"batch_size": 7})
    assert load_parameters(path) == in_paper_mode(
        write_params(tmp_path / "q.yaml", **OUR_WAYS, paper={"batch_size": 7})
    )


@pytest.mark.parametrize(
    ("section", "sentence"),
    [({"batchsize": 3}, "did you mean 'batch_size'"), ({"overrides": [{"C": "x"}]}, "C is 'x'"), (3, "paper is 3")],
)
def test_a_wrong_section_is_named(section: Any, sentence: str, tmp_path: Path) -> None:
    path = write_params(tmp_path / "p.yaml", paper=section)
    with pytest.raises(NesiError, match=sentence):
        load_parameters(path)
    with pytest.raises(NesiError, match=sentence):
        in_paper_mode(path)


def test_a_run_in_paper_mode_can_be_continued_and_says_what_it_did(tmp_path: Path) -> None:
    path = write_params(tmp_path / "p.yaml", **OUR_WAYS, paper={"batch_size": 2}, C=10, epsilon_W=1, epsilon_R=0.3)
    options = ("--paper", "--out", tmp_path / "out", "--set", "iterations=2", "--quiet")
    code, _, errors = run_here(path, *options, "--runs", 1)
    assert code == 0, errors
    code, _, errors = run_here(path, *options, "--runs", 2, "--resume")
    assert code == 0, errors
    code, _, errors = run_here(tmp_path / "out" / "params.yaml", "--out", tmp_path / "out", "--resume", "--quiet")
    assert code == 0, errors
    records = ExperimentDirectory(tmp_path / "out").records()
    assert len(records) == 4
    for record in records:
        assert record["settings"]["mode"] == "paper"
        resolved = record["resolved"]
        assert (resolved["batch_size"], resolved["W_init"], resolved["R_init"]) == (2, "class_means", "uniform")
        assert resolved["phases"] == [{"learning": "both", "iterations": 2, "ended_by": "iterations"}]
        assert 0 <= record["self_labeled"] <= 1
    code, _, errors = run_here(path, "--out", tmp_path / "out", "--resume", "--quiet", "--runs", 2)
    assert code == 2
    assert "'mode' (stored: 'paper', given: 'fast')" in errors
