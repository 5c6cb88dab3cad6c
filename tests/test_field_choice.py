"""The most informative fields: walks over fields that share points, against plain loops over matrices."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from nesi.fields.choice import FieldMap, best_versus_second_best, choose_field
from nesi.fields.labels import oracle_answers
from nesi.fields.training import most_informative

GIVES_UP = 0.03


def ring(n_fields: int = 8) -> sp.csr_array:
    """Every point belongs to two neighbours on a ring of fields."""
    s = np.zeros((n_fields, n_fields))
    for point in range(n_fields):
        s[point, point], s[point, (point + 1) % n_fields] = 0.6, 0.4
    return sp.csr_array(s)


def steps(s: np.ndarray) -> np.ndarray:
    """From a field to one of its points, and on to one of the fields of that point; 3 % give up."""
    return (1 - GIVES_UP) * (s.T @ s) / s.sum(axis=0)[:, None]


def test_beliefs_are_the_classes_at_the_end_of_the_walks():
    """b = 0.97 P b + 0.03/K where there is no answer, solved as a linear system."""
    activities = ring()
    answers = {0: np.array([1.0, 0.0]), 3: np.array([0.2, 0.8])}
    system, right = np.eye(8) - steps(activities.toarray()), np.full((8, 2), GIVES_UP / 2)
    for field, answer in answers.items():
        system[field] = np.eye(8)[field]
        right[field] = answer
    beliefs = FieldMap(activities).beliefs(np.full((8, 2), 0.5), answers)
    np.testing.assert_allclose(beliefs, np.linalg.solve(system, right), atol=0.01)
    np.testing.assert_allclose(beliefs.sum(axis=1), 1)
    assert beliefs[1, 0] > 0.5 > beliefs[4, 0]


def test_gains_are_the_walkers_that_pass():
    """w (I - M)^-1 over the fields that are free, each divided by how often a walk comes back in two moves.

    M are the moves to other fields: staying is divided out.
    """
    activities = ring()
    P = steps(activities.toarray())
    M = (P - np.diag(np.diag(P))) / (1 - np.diag(P))[:, None]
    asked = np.array([0, 3])
    known, answers = np.full((8, 2), 0.5), {0: np.array([1.0, 0.0]), 3: np.array([0.0, 1.0])}
    outlook = FieldMap(activities).outlook(known, answers, asked)
    free = np.setdiff1d(np.arange(8), asked)
    start = (activities.toarray().mean(axis=0) * (1 - best_versus_second_best(outlook.beliefs)))[free]
    passing = np.linalg.solve((np.eye(len(free)) - M[np.ix_(free, free)]).T, start)
    np.testing.assert_allclose(outlook.gains[free], passing / (1 + np.diag(M @ M)[free]), rtol=0.01)
    np.testing.assert_array_equal(outlook.gains[asked], 0)
    assert 0 < outlook.decided < 1


def test_answers_reach_more_and_more_of_the_data():
    field_map, known = FieldMap(ring()), np.full((8, 2), 0.5)
    same = np.array([1.0, 0.0])
    decided = [field_map.outlook(known, dict.fromkeys(range(n), same), np.arange(n)).decided for n in range(9)]
    assert decided[0] == 0
    assert decided[-1] == pytest.approx(1)
    assert np.all(np.diff(decided) > 0)


def test_fields_that_share_nothing_have_nothing_to_pass_on():
    field_map = FieldMap(sp.csr_array(np.eye(3)))
    outlook = field_map.outlook(np.full((3, 2), 0.5), {0: np.array([1.0, 0.0])}, np.array([0]))
    np.testing.assert_allclose(outlook.beliefs, [[1, 0], [0.5, 0.5], [0.5, 0.5]])
    np.testing.assert_allclose(outlook.gains, [0, 1 / 3, 1 / 3])


def test_the_next_field_is_the_first_or_the_best_that_is_open():
    gains, order = np.array([0.1, 0.4, 0.3, 0.4]), np.array([2, 3, 0, 1])
    assert choose_field("random", gains, order, np.array([], dtype=int)) == 2
    assert choose_field("random", gains, order, np.array([2])) == 3
    assert choose_field("informative", gains, order, np.array([2])) == 3
    assert choose_field("informative", gains, order, np.array([3, 1])) == 2
    assert choose_field("informative", gains, order, np.arange(4)) is None


def test_the_most_used_field_of_each_group_is_asked_first():
    """Three groups of fields that share points among themselves: three questions, one for each group."""
    rng = np.random.default_rng(0)
    blocks = [rng.dirichlet(np.full(5, 0.5), size=40 + 20 * group) for group in range(3)]
    activities = sp.csr_array(sp.block_diag(blocks))
    labels = np.repeat(np.arange(3), [40, 60, 80])
    oracle = oracle_answers(activities, labels, 3)
    field_map, known = FieldMap(activities), np.full((15, 3), 1 / 3)
    asked, answers = most_informative(field_map, known, oracle, rng.permutation(15), 3)
    assert sorted(field // 5 for field in asked) == [0, 1, 2]
    beliefs = field_map.beliefs(known, answers)
    np.testing.assert_array_equal(np.argmax(beliefs, axis=1), np.repeat(np.arange(3), 5))


def test_answers_spread_to_where_the_walks_arrive():
    """The probabilities of arriving at each answer, without those of giving up; known classes count as far as sure."""
    activities = ring()
    answers = {0: np.array([1.0, 0.0]), 3: np.array([0.2, 0.8])}
    free = np.array([1, 2, 4, 5, 6, 7])
    P = steps(activities.toarray())
    arrive = np.linalg.solve(np.eye(6) - P[np.ix_(free, free)], P[np.ix_(free, [0, 3])]) @ np.array(
        list(answers.values())
    )
    spread = FieldMap(activities).spread(np.full((8, 2), 0.5), answers)
    np.testing.assert_allclose([spread[c] for c in free], arrive / arrive.sum(axis=1, keepdims=True), atol=0.01)
    assert spread[0] is answers[0]
    sure = np.tile([0.0, 1.0], (8, 1))
    known = FieldMap(activities).spread(sure, answers)
    expected = arrive + (1 - arrive.sum(axis=1, keepdims=True)) * sure[free]
    np.testing.assert_allclose([known[c] for c in free], expected, atol=0.01)
    alone = FieldMap(sp.csr_array(np.eye(3))).spread(np.full((3, 2), 0.5), {0: np.array([1.0, 0.0])})
    assert set(alone) == {0}
