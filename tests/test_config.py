"""Parameter files: what is accepted, and that everything else is refused in one sentence."""

import contextlib
import io
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nesi.cli import run_main
from nesi.config.parameters import ExperimentParameters, first_difference
from nesi.config.reading import load_parameters, parse_assignment
from nesi.errors import NesiError

PARAMS = sorted((Path(__file__).parent.parent / "params").glob("*.yaml"))
MINIMAL = {
    "dataset": "digits",
    "C": 10,
    "A": 200,
    "epsilon_W": 0.2,
    "epsilon_R": 0.2,
    "iterations": 1,
    "networks": ["ff"],
    "labels": [10],
}


def write(path: Path, content: object) -> Path:
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def refusal(path: Path, *options: str) -> str:
    """The sentence that run_experiment.py prints; anything but exit code 2 and one line fails."""
    errors, output = io.StringIO(), io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(output):
        code = run_main([str(path), "--out", str(path.parent / "out"), *options])
    assert code == 2
    assert output.getvalue() == ""
    sentence = errors.getvalue()
    assert sentence.startswith("error: ")
    assert sentence.count("\n") == 1
    assert "Traceback" not in sentence
    return sentence


@pytest.mark.parametrize("path", PARAMS, ids=lambda path: path.stem)
def test_shipped_files_are_valid_and_survive_a_round_trip(path: Path, tmp_path: Path) -> None:
    parameters = load_parameters(path)
    assert load_parameters(write(tmp_path / "again.yaml", parameters.to_yaml())) == parameters


def test_the_files_of_the_paper_are_there() -> None:
    names = {path.stem for path in PARAMS}
    assert {"mnist", "newsgroups20", "newsgroups6", "nist_digits", "nist_letters", "quickstart"} <= names


def test_mnist_has_the_settings_of_the_paper() -> None:
    mnist = load_parameters(next(path for path in PARAMS if path.stem == "mnist"))
    assert (mnist.C, mnist.A, mnist.epsilon_W, mnist.epsilon_R, mnist.threshold) == (10000, 900, 0.2, 0.2, 0.6)
    assert mnist.for_cell("ff+", 10, 60000).iterations == 2000
    assert mnist.for_cell("ff", 10, 60000).iterations == 500
    assert mnist.for_cell("r", 3000, 60000).stopping
    assert not mnist.for_cell("r", 60000, 60000).stopping
    assert not mnist.for_cell("r+", 100, 60000).stopping


def test_overrides_may_name_all_labels() -> None:
    digits = load_parameters(next(path for path in PARAMS if path.stem == "nist_digits"))
    assert digits.for_cell("r+", 344307, 344307).epsilon_R == 0.2
    assert digits.for_cell("r+", 3000, 344307).epsilon_R == 1.0


def test_dotted_assignments_change_one_key(tmp_path: Path) -> None:
    path = write(tmp_path / "p.yaml", MINIMAL)
    changes = dict([parse_assignment("C=1000"), parse_assignment("truncated.active=30"), parse_assignment("A=1e3")])
    parameters = load_parameters(path, changes)
    assert (parameters.C, parameters.A) == (1000, 1000)
    assert (parameters.truncated.active, parameters.truncated.neighbours) == (30, 8)


def test_a_difference_names_its_key() -> None:
    one = ExperimentParameters.model_validate(MINIMAL)
    assert first_difference(one, one) is None
    other = one.model_copy(update={"epsilon_W": 0.5})
    assert "'epsilon_W' (stored: 0.2, given: 0.5)" in str(first_difference(one, other))
    assert first_difference(one, one.model_copy(update={"checkpoint_seconds": 1.0})) is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"epsilonW": 0.2}, ["unknown key 'epsilonW'", "did you mean 'epsilon_W'?"]),
        ({"truncated": {"activ": 3}}, ["'truncated.activ'", "'active'"]),
        ({"overrides": [{"iteration": 3}]}, ["'overrides.0.iteration'", "'iterations'"]),
        ({"C": -3}, ["C is -3", "at least 1"]),
        ({"C": True}, ["C is True", "integer"]),
        ({"C": "many"}, ["C is 'many'"]),
        ({"C": None}, ["C is None"]),
        ({"A": float("nan")}, ["A is nan", "finite"]),
        ({"A": 10**400}, ["A is"]),
        ({"labels": []}, ["labels"]),
        ({"labels": ["some"]}, ["'some'", "or all"]),
        ({"labels": [10, 10]}, ["10 is listed twice"]),
        ({"networks": ["rr"]}, ["'rr'", "'ff', 'r', 'ff+' or 'r+'"]),
        ({"runs": 0}, ["runs is 0"]),
        ({"seed": -1}, ["seed is -1"]),
        ({"stopping": 1}, ["stopping is 1"]),
        ({"data": {"data_dir": "/"}}, ["--data-dir"]),
        ({"overrides": [{"networks": ["ff"]}]}, ["changes nothing"]),
        ({"tuning": {"labels": 4, "grid": {"A": ["x"]}}}, ["A holds 'x'"]),
    ],
)
def test_a_wrong_value_is_named(change: dict[str, object], words: list[str], tmp_path: Path) -> None:
    sentence = refusal(write(tmp_path / "p.yaml", {**MINIMAL, **change}))
    for word in words:
        assert word in sentence


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "key: value"),
        ("just words", "key: value"),
        ("- a\n- b", "key: value"),
        ("a: [1, 2", "not valid YAML"),
        ("C: 1\nC: 2", "given twice"),
        ("a: &x [1]\nb: *x", "aliases"),
        ("C: !!python/object/apply:os.system ['true']", "not valid YAML"),
        ("C: !!python/name:os.system", "not valid YAML"),
        ("C: !unknown 1", "not valid YAML"),
        ("a: 2020-13-45", "not valid YAML"),
        ("[" * 5000, "nested deeper"),
        ("C: " + "9" * 5000, "p.yaml"),
        ("? {a: 1}\n: b", "p.yaml"),
        ("\x00", "p.yaml"),
        ("a: " + "x" * 1_100_000, "larger than"),
    ],
)
def test_hostile_yaml_is_refused(text: str, word: str, tmp_path: Path) -> None:
    assert word in refusal(write(tmp_path / "p.yaml", text))


def test_an_alias_bomb_is_refused_at_once(tmp_path: Path) -> None:
    lines = ["a0: &a0 [lol, lol]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    assert "aliases" in refusal(write(tmp_path / "p.yaml", "\n".join(lines)))


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    assert "no such parameter file" in refusal(tmp_path / "missing.yaml")
    assert "a directory" in refusal(tmp_path)
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00\x01")
    assert "UTF-8" in refusal(tmp_path / "binary.yaml")


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--network", "x"], "invalid choice"),
        (["--labels", "0"], "'0'"),
        (["--labels", "-5"], "--labels"),
        (["--runs", "1.5"], "'1.5'"),
        (["--workers", "2", "--scheduler", "tcp://x:1"], "not allowed with"),
        (["--set", "C"], "key=value"),
        (["--set", "C=[1"], "not valid YAML"),
        (["--set", "CC=1"], "did you mean 'C'?"),
        (["--set", "C.D=1"], "not a group"),
        (["--seed", "x"], "--seed"),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_wrong_options_are_refused(options: list[str], word: str, tmp_path: Path) -> None:
    assert word in refusal(write(tmp_path / "p.yaml", MINIMAL), *options)


NUMBERS = st.one_of(
    st.integers(-(10**30), 10**30), st.floats(), st.booleans(), st.none(), st.text(max_size=20), st.dates()
)
VALUES = st.recursive(
    NUMBERS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.one_of(st.sampled_from(sorted(ExperimentParameters.model_fields)), st.text(max_size=12), st.integers())


def test_an_empty_mapping_of_quirks_is_refused(tmp_path: Path) -> None:
    assert "the mapping is empty" in refusal(write(tmp_path / "p.yaml", {**MINIMAL, "legacy": {}}))


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.dictionaries(KEYS, VALUES, min_size=1, max_size=4))
def test_random_changes_load_or_are_refused_in_one_sentence(changes: dict, tmp_path: Path) -> None:
    path = write(tmp_path / "p.yaml", {**MINIMAL, **changes})
    try:
        parameters = load_parameters(path)
    except NesiError:
        assert len(refusal(path)) < 1500
    else:
        assert load_parameters(write(path, parameters.to_yaml())) == parameters


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.one_of(st.text(max_size=60), st.text(alphabet="&*!|>-?:{}[]#'\"%@, \nab01", max_size=60)))
def test_random_text_is_refused_in_one_sentence(text: str, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    refusal(path)


def test_a_committee_is_a_whole_number_of_members(tmp_path: Path) -> None:
    outlook = load_parameters(next(path for path in PARAMS if path.stem == "committee"))
    assert (outlook.C, outlook.committee, outlook.networks, outlook.labels) == (10000, 5, ["r+"], [100])
    assert ExperimentParameters.model_validate(MINIMAL).committee == 1
    for wrong in (0, 2.5, "five"):
        assert "committee is" in refusal(write(tmp_path / "p.yaml", MINIMAL | {"committee": wrong}))
    path = write(tmp_path / "p.yaml", MINIMAL | {"overrides": [{"networks": ["ff"], "committee": 3}]})
    assert load_parameters(path).for_cell("ff", 10, 100).committee == 3


def test_class_prior_and_label_noise_are_numbers_from_0_to_1(tmp_path: Path) -> None:
    given = {"class_prior": [0.5, 0.5], "label_noise": [[0.9, 0.1], [0.2, 0.8]]}
    parameters = load_parameters(write(tmp_path / "p.yaml", MINIMAL | given))
    assert (parameters.class_prior, parameters.label_noise) == tuple(given.values())
    assert load_parameters(write(tmp_path / "again.yaml", parameters.to_yaml())) == parameters
    assert load_parameters(write(tmp_path / "p.yaml", MINIMAL | {"label_noise": 0.1})).label_noise == 0.1
    assert "class_prior.0 is 2" in refusal(write(tmp_path / "p.yaml", MINIMAL | {"class_prior": [2, 0]}))
    assert "label_noise" in refusal(write(tmp_path / "p.yaml", MINIMAL | {"label_noise": -0.1}))
    sentence = refusal(write(tmp_path / "p.yaml", MINIMAL | {"class_prior": [0.5, 0.5]}), "--runs", "1", "--quiet")
    assert "one number for each of the 10 classes" in sentence
