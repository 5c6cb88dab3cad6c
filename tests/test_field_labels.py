"""Labels for fields: eq. (setlabel), the oracle, learning p(c|R) without classes, and training from there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from command_line import SMALL
from numpy_twin import class_posterior, label_vector, normalised, softmax, unit_inputs

from nesi.config.parameters import validated
from nesi.errors import NesiError
from nesi.experiment.running import run_experiment
from nesi.fields.labels import (
    R_by_hard_max,
    R_from_answers,
    checked_answer,
    class_beliefs,
    field_usage,
    oracle_answers,
    winning_fields,
    without_classes,
)
from nesi.fields.training import FieldLabelTrainer, OracleSurvey, with_answers
from nesi.report.published import published
from nesi.storage.arrays import load_arrays
from nesi.training.settings import TrainingSettings

pytestmark = pytest.mark.usefixtures("one_thread")
K, C, D = 3, 7, 10


def random_R(seed: int = 0, C: int = C) -> np.ndarray:
    R = np.random.default_rng(seed).random((K, C))
    return R / R.sum(axis=1, keepdims=True)


def make_data(N: int = 90, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    classes = np.arange(N) % K
    profiles = 1 + 30 * rng.random((K, D)) ** 3
    return rng.poisson(profiles[classes]) + 0.1, classes


def settings(network: str, **changes: object) -> TrainingSettings:
    defaults = {"network": network, "C": C, "A": 60.0, "iterations": 6, "dtype": "float64", "batch_size": 1}
    return TrainingSettings(**(defaults | changes))


# ---- R from answers ------------------------------------------------------------------------------------------


def test_setlabel_as_the_paper_writes_it():
    """Eq. (setlabel), term by term: every field labeled by somebody who is sure."""
    R_old = random_R()
    label = np.array([0, 1, 2, 0, 1, 2, 0])
    expected = np.zeros((K, C))
    for k in range(K):
        denominator = sum((label[c] == k) * sum(R_old[j, c] for j in range(K)) for c in range(C))
        for c in range(C):
            expected[k, c] = (label[c] == k) * sum(R_old[j, c] for j in range(K)) / denominator
    np.testing.assert_allclose(R_from_answers(R_old, {c: np.eye(K)[label[c]] for c in range(C)}), expected)


def test_without_a_learned_prior_fields_are_counted():
    """The equation of Section 4.5: R_kc = delta / (number of fields of class k)."""
    label = np.array([0, 1, 2, 0, 1, 0, 0])
    R = R_from_answers(np.full((K, C), 1 / C), {c: np.eye(K)[label[c]] for c in range(C)})
    np.testing.assert_allclose(R, [[(label[c] == k) / (label == k).sum() for c in range(C)] for k in range(K)])


def test_labels_do_not_change_the_use_of_fields_if_the_classes_are_balanced():
    """p(c|R) stays what it was, p(k|c) becomes the label."""
    usage = np.array([1, 2, 3, 1, 2, 3]) / 12
    answers = {c: np.eye(K)[k] for c, k in enumerate([0, 0, 1, 1, 2, 2])}
    usage[[0, 1]], usage[[2, 3]], usage[[4, 5]] = (1 / 12, 3 / 12), (2 / 12, 2 / 12), (1 / 12, 3 / 12)
    R = R_from_answers(without_classes(usage, K), answers)
    np.testing.assert_allclose(field_usage(R), usage)
    np.testing.assert_allclose(class_beliefs(R), [answers[c] for c in range(6)])


def test_fields_without_an_answer_keep_their_classes_and_no_answer_changes_nothing():
    R_old = random_R()
    np.testing.assert_allclose(R_from_answers(R_old, {}), R_old)
    R = R_from_answers(without_classes(np.full(C, 1 / C), K), {2: np.eye(K)[1]})
    beliefs = class_beliefs(R)
    np.testing.assert_allclose(beliefs[2], [0, 1, 0])
    # Class 1 already has a field of its own, so that the other two are a little more likely: 1 / (6/21, 9/21, 6/21).
    np.testing.assert_allclose(beliefs[[0, 1, 3, 4, 5, 6]], [[0.375, 0.25, 0.375]] * 6)


def test_an_unsure_answer_is_a_distribution():
    R_old = without_classes(np.array([0.5, 0.5]), 2)
    R = R_from_answers(R_old, {0: checked_answer([3, 1], 2), 1: checked_answer([1, 3], 2)})
    np.testing.assert_allclose(R, [[0.75, 0.25], [0.25, 0.75]])


def test_a_class_that_no_field_shows_is_never_inferred():
    R = R_from_answers(np.full((K, C), 1 / C), {c: np.eye(K)[c % 2] for c in range(C)})
    np.testing.assert_array_equal(R[2], 0)
    np.testing.assert_allclose(R[:2].sum(axis=1), 1)


@pytest.mark.parametrize(
    "weights", [[1, 1], [0, 0, 0], [1, -1, 1], [np.nan, 1, 1], "abc", None, [[1, 1, 1]], [1, "x", 1]]
)
def test_answers_are_checked(weights):
    with pytest.raises(NesiError, match="3 weights >= 0"):
        checked_answer(weights, 3)


# ---- the oracle ------------------------------------------------------------------------------------------------


def test_the_oracle_answers_with_the_majority_of_what_a_field_wins():
    s = np.array([[0.9, 0.1, 0, 0], [0.8, 0.2, 0, 0], [0.6, 0.4, 0, 0], [0, 0.7, 0.3, 0], [0.5, 0.5, 0, 0]])
    labels = np.array([0, 1, 1, 2, -1])  # the last point has no label, so that the oracle does not know it either
    activities = sp.csr_array(s)
    np.testing.assert_array_equal(winning_fields(activities), [0, 0, 0, 1, 0])
    answers = oracle_answers(activities, labels, 3)
    assert {field: int(np.argmax(answer)) for field, answer in answers.items()} == {0: 1, 1: 2, 2: 2}  # nothing about 3
    soft = oracle_answers(activities, labels, 3, soft=True)
    np.testing.assert_allclose(soft[0], [1 / 3, 2 / 3, 0])
    np.testing.assert_allclose(soft[2], [0, 0, 1])


# ---- training ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("network", ["r+", "ff+"])
def test_learning_without_classes_is_the_papers_t_of_one_over_K(network):
    """T1.7 and T1.8 with t_k = 1/K and u_k = 1/K for every point, one point at a time, with K classes."""
    X, _ = make_data(30)
    trainer = FieldLabelTrainer(
        settings(network, iterations=3, shuffle=False), X, K, np.random.default_rng(1), None, W_init="data"
    )
    W, R = trainer.W.copy(), trainer.R.copy()
    epsilon_W, epsilon_R = 0.2 * C / len(X), 0.2 * K / len(X)
    for x in list(X) * 3:
        y = normalised(x, 60.0)
        s = softmax(unit_inputs(y, label_vector(-1, K), W, R, recurrent=network == "r+"))
        W, R = W + epsilon_W * s[:, None] * (y - W), R + epsilon_R / K * (s - R)
    for _ in trainer:
        pass
    np.testing.assert_allclose(trainer.W, W, rtol=1e-9)
    np.testing.assert_allclose(trainer.R, R, rtol=1e-9)


def test_only_the_first_layer_of_ff_is_trained_and_classification_follows_the_labels():
    X, classes = make_data()
    survey = OracleSurvey(classes, C, "random", False, np.random.default_rng(2))
    trainer = FieldLabelTrainer(settings("ff"), X, K, np.random.default_rng(1), survey)
    assert sum(1 for _ in trainer) == 6
    label = np.array([np.argmax(trainer.answers[c]) if c in trainer.answers else -1 for c in range(C)])
    assert (label >= 0).all()
    counts = np.bincount(label, minlength=K)
    np.testing.assert_allclose(trainer.R, [[(label[c] == k) / max(counts[k], 1) for c in range(C)] for k in range(K)])
    for x, inferred in zip(X[:10], trainer.trained().posterior(X[:10]), strict=True):
        s = softmax(unit_inputs(normalised(x, 60.0), None, trainer.W, trainer.R, recurrent=False))
        np.testing.assert_allclose(inferred, class_posterior(s, trainer.R), atol=1e-9)


@pytest.mark.parametrize(("network", "greedy"), [("r+", False), ("ff+", True), ("ff+", False)])
def test_a_few_labeled_fields_teach_the_others(network, greedy):
    X, classes = make_data(300)
    survey = OracleSurvey(classes, 10, "informative", False, np.random.default_rng(2))
    many = settings(network, C=30, iterations=40, batch_size=10, greedy=greedy, epsilon_R=1.0, A=400.0)
    trainer = FieldLabelTrainer(many, X, K, np.random.default_rng(1), survey)
    infos = list(trainer)
    assert [info.iteration for info in infos] == list(range(1, 81))
    assert (len(trainer.asked), len(set(trainer.asked.tolist()))) == (10, 10)
    assert trainer.history["self_labeled"][39] == 0 < trainer.history["self_labeled"][-1]
    assert np.mean(np.argmax(trainer.trained().posterior(X), axis=1) == classes) > 0.95


@pytest.mark.parametrize("spread", [False, True])
def test_spread_answers_give_classes_to_fields_that_nobody_was_asked_about(spread):
    X, classes = make_data(300)
    survey = OracleSurvey(classes, 6, "informative", False, np.random.default_rng(2))
    some = settings("ff", C=30, iterations=20, batch_size=10)
    trainer = FieldLabelTrainer(some, X, K, np.random.default_rng(1), survey, spread=spread)
    for _ in trainer:
        pass
    assert (len(trainer.asked), set(trainer.answers)) == (6, set(trainer.asked.tolist()))
    truth = oracle_answers(trainer.activities(), classes, K)
    others = [c for c in truth if c not in trainer.answers]
    beliefs = class_beliefs(trainer.R)[others]
    right = np.mean(np.argmax(beliefs, axis=1) == [np.argmax(truth[c]) for c in others])
    if spread:
        assert right > 0.9
    else:
        np.testing.assert_allclose(beliefs, beliefs[:1] * np.ones((len(others), 1)))


def test_more_questions_than_labels_are_never_used():
    """Whatever the oracle says about other fields stays unknown."""
    X, classes = make_data()
    survey = OracleSurvey(classes, 2, "random", False, np.random.default_rng(2))
    trainer = FieldLabelTrainer(settings("ff"), X, K, np.random.default_rng(1), survey)
    for _ in trainer:
        pass
    assert len(trainer.asked) == 2
    assert set(trainer.answers) <= set(trainer.asked.tolist())
    others = np.setdiff1d(np.arange(C), trainer.asked)
    beliefs = class_beliefs(trainer.R)[others]
    np.testing.assert_allclose(beliefs, beliefs[:1] * np.ones((len(others), 1)))


@pytest.mark.parametrize("interrupted_after", [4, 9])
def test_an_interrupted_training_goes_on_bit_for_bit(interrupted_after):
    X, classes = make_data()

    def make() -> FieldLabelTrainer:
        survey = OracleSurvey(classes, 4, "informative", False, np.random.default_rng(2))
        return FieldLabelTrainer(settings("r+", batch_size=10), X, K, np.random.default_rng(1), survey)

    whole, first, second = make(), make(), make()
    for _ in whole:
        pass
    for info in first:
        if info.iteration == interrupted_after:
            break
    second.restore(first.state())
    for _ in second:
        pass
    np.testing.assert_array_equal(second.W, whole.W)
    np.testing.assert_array_equal(second.R, whole.R)
    np.testing.assert_array_equal(second.asked, whole.asked)
    assert second.history["log_likelihood"] == whole.history["log_likelihood"]
    with pytest.raises(NesiError, match="not from training with labels for fields"):
        second.restore(with_answers(settings("r+"), X, whole.W, whole.R, {}, np.random.default_rng(0)).state())


def test_hard_max_gives_every_field_the_class_that_activates_it_most_on_average() -> None:
    s = sp.csr_array(np.array([[0.9, 0.1, 0, 0], [0.3, 0.7, 0, 0], [0.5, 0.5, 0, 0], [0, 0, 0, 1.0], [0.6, 0, 0.4, 0]]))
    labels = np.array([0, 1, 1, -1, 1])  # class 1 has three points: sums would give it the first field
    R = R_by_hard_max(s, labels, 2)
    np.testing.assert_allclose(R, [[1, 0, 0, 0], [0, 0.5, 0.5, 0]])  # the last field saw no labeled point


def test_an_experiment_with_hard_classes_is_compared_with_its_own_row_of_the_paper(tmp_path: Path) -> None:
    changes = {"networks": ["ff"], "labels": [200], "class_assignment": "hard max", "greedy": True, "runs": 1}
    parameters = validated({**SMALL, **changes, "keep_weights": "all"}, "SMALL")
    (record,) = run_experiment(parameters, tmp_path, quiet=True).records
    assert record["settings"]["class_assignment"] == "hard max"
    R = load_arrays(tmp_path / "weights" / "ff-L200-run1.npz")["R"]
    assert ((R > 0).sum(axis=0) <= 1).all()
    assert record["test_error"] < 30
    bio = published().experiments["bio-inspired"]
    assert bio.cell("ff", 60000, {"C": 6400, "class_assignment": "hard max"}).mean == 3.62
    assert bio.cell("ff", 60000, {"C": 6400}).mean == 3.28
    with pytest.raises(NesiError, match="'hard max', which is for ff and ff"):
        validated({**SMALL, **changes, "networks": ["r"]}, "SMALL")
