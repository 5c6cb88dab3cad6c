"""What is chosen where nothing is said: by the estimator, by a parameter file, and why."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import scipy.sparse as sp
import yaml
from command_line import nesi, run_here, write_params
from sklearn.datasets import load_iris
from small_networks import make_data

import data_tools
from data_tools.signed import InputPairs, are_measurements, settled_pairs
from nesi import NeSiClassifier, NesiError
from nesi.automatic import Facts, choices

pytestmark = pytest.mark.usefixtures("one_thread")

IMAGES = Facts(6000, 784, 10, 100, every_class=True, counts=False, measurements=False)
TEXTS = Facts(11000, 61188, 20, 200, every_class=True, counts=True, measurements=False)
TABLE = Facts(150, 8, 3, 9, every_class=True, counts=False, measurements=True)


def values(facts: Facts, **given: object) -> dict[str, object]:
    return {name: choice.value for name, choice in choices(facts, given).items()}


def changed(facts: Facts, **changes: object) -> Facts:
    return Facts(**{**vars(facts), **changes})


def iris_with_few_labels(per_class: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X, y = load_iris(return_X_y=True)
    known = np.concatenate([np.flatnonzero(y == k)[:per_class] for k in range(3)])
    labels = np.full(len(y), -1)
    labels[known] = y[known]
    return X, labels, y


# ---- the rule --------------------------------------------------------------------------------------------------------


def test_images_have_many_units_layer_by_layer() -> None:
    found = values(IMAGES)
    assert (found["C"], found["inference"], found["network"], found["greedy"]) == (3000, "truncated", "ff+", True)
    assert found["A"] == pytest.approx(1.15 * 784)
    assert found["spread"] is None
    assert values(changed(IMAGES, labels=40))["spread"] == "points"
    assert values(changed(IMAGES, points=60000, labels=100))["spread"] == "units"
    assert values(changed(IMAGES, classes=26, labels=520))["spread"] == "points"
    assert values(changed(IMAGES, classes=200, labels=200))["spread"] is None
    assert values(changed(IMAGES, points=60000))["C"] == 10000
    assert values(changed(IMAGES, points=60000, inputs=100_000))["C"] == 2500  # 1 GB


def test_texts_have_a_unit_per_class_and_learn_by_em() -> None:
    found = values(TEXTS)
    assert (found["C"], found["training"], found["network"], found["spread"]) == (20, "em", "r", "points")
    all_labeled = values(changed(TEXTS, labels=11000))
    assert (all_labeled["spread"], all_labeled["W_init"], all_labeled["R_init"]) == (None, "class_means", "delta")
    assert values(changed(TEXTS, every_class=False))["training"] == "online"


def test_small_tables_have_few_units() -> None:
    assert values(TABLE)["C"] == 25
    some_labels = values(changed(TABLE, labels=30))
    assert (some_labels["C"], some_labels["training"]) == (9, "em")
    assert values(TABLE)["A"] == 8 + 50 * 4
    assert values(changed(TABLE, inputs=60))["A"] == 60 + 600


@pytest.mark.parametrize("facts", [IMAGES, TEXTS, TABLE])
def test_what_is_given_is_not_chosen_and_the_rest_fits_it(facts: Facts) -> None:
    assert {"C", "greedy"}.isdisjoint(values(facts, C=50, greedy=False))
    assert values(facts, network="ff+")["training"] == "online"
    assert values(facts, committee=3)["training"] == "online"
    assert values(facts, backend="c")["inference"] == "exact"
    assert all(choice.reason for choice in choices(facts, {}).values())


@pytest.mark.parametrize("facts", [IMAGES, TEXTS, TABLE])
def test_points_without_a_label_in_some_class_do_not_spread(facts: Facts) -> None:
    assert values(changed(facts, every_class=False))["spread"] is None


# ---- the estimator ---------------------------------------------------------------------------------------------------


def test_with_nothing_set_a_table_is_learned_from_two_labels_per_class() -> None:
    X, labels, y = iris_with_few_labels()
    network = NeSiClassifier(random_state=0).fit(X, labels)
    assert np.mean(network.predict(X) == y) > 0.9
    assert network.choices_["n_subclasses"].value == network.n_subclasses_ == 25
    assert network.choices_["normalization"].value == network.normalization_
    assert network.spread_["over"] == "points"
    assert network.W_.shape == (25, 8)
    points, _ = network.sample(20, random_state=0)
    assert (points >= X.min(axis=0) - 1e-9).all()
    assert (points <= X.max(axis=0) + 1e-9).all()


def test_what_is_set_is_kept_and_a_given_number_of_units_leaves_the_rest_as_it_was(capsys) -> None:
    X, labels = make_data()
    network = NeSiClassifier(epsilon_w=0.5, max_iter=3, network="ff", verbose=1, random_state=0).fit(X, labels)
    assert {"epsilon_w", "max_iter", "network"}.isdisjoint(network.choices_)
    assert network._trained.network.name == "ff"
    assert "n_subclasses = 10: measurements: a unit for every 6 points" in capsys.readouterr().out
    plain = NeSiClassifier(6, random_state=0, max_iter=3).fit(X, labels)
    assert set(plain.choices_) == {"normalization"}
    explicit = {"network": "ff+", "epsilon_w": 0.2, "epsilon_r": 0.2, "greedy": False, "inference": "exact"}
    named = NeSiClassifier(6, random_state=0, max_iter=3, spread="no", tol="no", **explicit).fit(X, labels)
    np.testing.assert_array_equal(plain.W_, named.W_)
    asked = NeSiClassifier(6, random_state=0, max_iter=3, epsilon_r="auto", tol="auto").fit(X, labels)
    assert {"epsilon_r", "tol", "normalization"} == set(asked.choices_)


def test_texts_are_noticed() -> None:
    rng = np.random.default_rng(0)
    classes = np.arange(120) % 3
    profiles = rng.dirichlet(np.full(400, 0.05), 3)
    X = np.array([rng.multinomial(12, profiles[k]) for k in classes])
    labels = np.where(np.arange(120) < 12, classes, -1)
    assert Facts.of(sp.csr_array(X), 3, 12, True, False) == Facts.of(X, 3, 12, True, False)
    network = NeSiClassifier(random_state=0).fit(sp.csr_array(X), labels)
    assert (network.n_subclasses_, network.choices_["training"].value) == (3, "em")
    assert np.mean(network.predict(sp.csr_array(X)) == classes) > 0.9


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"n_subclasses": "many"}, "n_subclasses is 'many', but must be an integer"),
        ({"epsilon_w": "fast"}, "epsilon_w is 'fast', but must be a number"),
        ({"greedy": "maybe"}, "greedy is 'maybe', but must be true or false"),
        ({"tol": "none"}, "tol is 'none', but must be a number"),
        ({"spread": "far"}, "spread is 'far', but must be one of 'units', 'points' or 'auto'"),
        ({"n_init": "few"}, "n_init is 'few', but must be an integer"),
    ],
)
def test_another_word_than_auto_is_refused(settings, sentence) -> None:
    X, labels = make_data()
    with pytest.raises(NesiError, match=sentence):
        NeSiClassifier(**settings).fit(X, labels)


# ---- measurements ----------------------------------------------------------------------------------------------------


def test_ranges_say_where_a_value_lies_in_its_column() -> None:
    X = np.random.default_rng(0).normal([5, -200, 0.01], [1, 30, 0.002], (500, 3))
    X[0, 0] = 1e6  # would squeeze all others into nothing
    pairs = settled_pairs(X, "range")
    assert pairs is not None
    made = pairs.of(X)
    np.testing.assert_allclose(made[:, :3] + made[:, 3:], 1)
    low, high = (np.sort(X, axis=0)[place] for place in (5, 494))
    twin = np.clip((X - low) / (high - low), 0, 1)
    np.testing.assert_allclose(made[:, :3], twin, atol=1e-12)
    inside = (low < X) & (high > X)
    np.testing.assert_allclose(pairs.undone(made)[inside], X[inside], rtol=1e-9)
    constant = settled_pairs(np.ones((5, 2)), "range")
    assert constant is not None
    assert np.isfinite(constant.of(np.ones((2, 2)))).all()


def test_amounts_and_measurements_are_told_apart() -> None:
    assert are_measurements(load_iris().data)
    assert not are_measurements(data_tools.load("digits").X_train)
    assert not are_measurements(sp.csr_array(-np.eye(3)))
    assert settled_pairs(sp.csr_array(-np.eye(3)), "measured") == InputPairs()
    with pytest.raises(data_tools.DataError, match="for dense data in memory"):
        settled_pairs(sp.csr_array(np.eye(3)), "range")


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_ranges_do_not_hide_what_is_not_finite(odd: float) -> None:
    X, labels, _ = iris_with_few_labels()
    network = NeSiClassifier(4, signed="range", network="ff", max_iter=1).fit(X, labels)
    X[3, 1] = odd
    with pytest.raises(NesiError, match="NaN or infinity"):
        network.predict(X)
    with pytest.raises(NesiError, match="NaN or infinity"):
        NeSiClassifier(max_iter=1).fit(X, labels)


def test_ranges_and_reasons_are_kept_with_the_network(tmp_path: Path) -> None:
    X, labels, _ = iris_with_few_labels()
    network = NeSiClassifier(random_state=0).fit(X, labels)
    network.save(tmp_path / "network.npz")
    again = NeSiClassifier.load(tmp_path / "network.npz")
    np.testing.assert_array_equal(again.predict_proba(X), network.predict_proba(X))
    assert again.choices_ == network.choices_
    network.to_onnx(tmp_path / "network.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "network.onnx")
    _, probabilities = session.run(None, {"points": X.astype(np.float32)})
    np.testing.assert_allclose(probabilities, network.predict_proba(X.astype(np.float32)), atol=1e-4)


# ---- parameter files -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with few labels, and nothing said but its path and the labels."""
    folder = tmp_path_factory.mktemp("automatic")
    X, labels, _ = iris_with_few_labels()
    table = np.column_stack([X.astype(np.float32), labels])
    header = "a,b,c,d,class"
    np.savetxt(folder / "table.csv", table, delimiter=",", header=header, comments="", fmt="%.9g")
    (folder / "mine.yaml").write_text(f"dataset: {folder / 'table.csv'}\nlabels: [all]\ndata: {{test_fraction: 0}}\n")
    code, output, errors = run_here(folder / "mine.yaml", "--out", folder / "run")
    assert code == 0, errors
    assert "chosen: C = 25 (measurements: a unit for every 6 points)" in output + errors
    return folder


def test_a_file_with_data_and_labels_chooses_what_the_estimator_chooses(finished: Path) -> None:
    data = data_tools.load(finished / "table.csv", test_fraction=0)
    network = NeSiClassifier(random_state=0).fit(data.X_train, data.y_train)
    record = json.loads((finished / "run" / "records.jsonl").read_text())
    settings = record["settings"]
    names = {"C": "n_subclasses", "A": "normalization", "epsilon_R": "epsilon_r", "iterations": "max_iter"}
    names |= {"tolerance": "tol", "inference": "inference", "greedy": "greedy", "spread": "spread"}
    assert {key: settings.get(key) for key in names} == {
        key: network.choices_[name].value for key, name in names.items()
    }
    assert record["network"] == network.choices_["network"].value
    assert record["resolved"]["automatic"]["spread"].startswith("points (few labels")
    again = NeSiClassifier.from_run(finished / "run")
    assert again.signed_
    assert np.mean(again.predict(load_iris().data) == load_iris().target) > 0.9


def test_new_rows_are_treated_as_the_training_table_was(finished: Path) -> None:
    code, output = nesi("predict", finished / "run", finished / "table.csv")
    assert code == 0
    found = [line.split(",")[1] for line in output.splitlines()[1:151]]
    assert np.mean(np.array(found, dtype=int) == load_iris().target) > 0.9


def test_choices_are_settled_once_and_a_run_is_continued_with_them(finished: Path) -> None:
    stored = yaml.safe_load((finished / "run" / "params.yaml").read_text())
    assert stored["C"] == 25
    assert "measurements" in stored["automatic"]["C"]
    code, _, errors = run_here(finished / "mine.yaml", "--out", finished / "run", "--resume")
    assert code == 0, errors
    assert len((finished / "run" / "records.jsonl").read_text().splitlines()) == 1
    stored["automatic"]["C"] = "25 (for a reason that a later version words in its own way)"
    (finished / "again.yaml").write_text(yaml.safe_dump(stored))
    code, _, errors = run_here(finished / "again.yaml", "--out", finished / "run", "--resume")
    assert code == 0, errors


def test_what_depends_on_the_number_of_labels_is_in_overrides(tmp_path: Path) -> None:
    params = tmp_path / "digits.yaml"
    some = "C: 20\niterations: 1\nnetworks: auto\nepsilon_R: auto\n"
    params.write_text(f"dataset: digits\nlabels: [20, 100]\n{some}")
    code, _, errors = run_here(params, "--out", tmp_path / "run")
    assert code == 0, errors
    stored = yaml.safe_load((tmp_path / "run" / "params.yaml").read_text())
    assert set(stored["automatic"]) == {"A", "networks", "epsilon_R"}
    assert (stored["C"], stored["A"], stored["networks"], stored["epsilon_R"]) == (20, 164.0, ["ff+"], 1.0)
    assert (stored["greedy"], stored["inference"]) == (False, "exact")  # left out, but C is given

    from nesi.config.reading import load_parameters
    from nesi.experiment.choices import with_choices

    params.write_text("dataset: digits\nlabels: [20, 100]\n")
    chosen = with_choices(load_parameters(params), data_tools.load("digits"))
    assert chosen.for_cell("ff+", 20, 1437).spread == "points"
    assert chosen.for_cell("ff+", 100, 1437).spread is None
    assert "20 labels: points" in chosen.automatic["spread"]

    edited = {**yaml.safe_load(chosen.to_yaml()), "C": 500, "epsilon_W": "auto"}
    params.write_text(yaml.safe_dump(edited))
    again = with_choices(load_parameters(params), data_tools.load("digits"))
    assert (again.C, again.epsilon_W) == (500, 0.2)  # what was chosen before stays as it has been edited
    assert again.for_cell("ff+", 20, 1437).spread == "points"

    params.write_text("dataset: digits\nlabels: [20]\ndistribute: data\n")
    shared = with_choices(load_parameters(params), data_tools.load("digits"))  # would refuse spreading
    assert "parts of the data" in shared.automatic["spread"]
    assert choices(TEXTS, {"distribute": "data"})["training"].value == "online"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"C": "many"}, "C is 'many', but must be an integer"),
        ({"epsilon_W": "automatic"}, "epsilon_W is 'automatic', but must be a number"),
        ({"C": "auto", "mode": "paper"}, "mode is 'paper', which has no automatic choices"),
    ],
)
def test_bad_values_of_a_file_get_one_sentence(tmp_path: Path, changes, sentence) -> None:
    code, _, errors = run_here(write_params(tmp_path / "bad.yaml", **changes), "--out", tmp_path / "run")
    assert code == 2
    assert sentence in errors
    assert not (tmp_path / "run").exists()
