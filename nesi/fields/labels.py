"""Classes for fields instead of classes for points (Section 4.5 and Appendix B.3).

A field is a row of W: somebody looks at it and says which class it shows. An answer is a distribution over the
classes: all on one class for somebody who is sure, spread over several for somebody who is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from nesi.errors import NesiError
from nesi.posteriors import class_given_unit

if TYPE_CHECKING:
    from nesi.trained import TrainedNetwork

Answers = dict[int, np.ndarray]  # field -> p(k), K numbers that sum to one

ORACLE = "majority class of the training points that the field wins (uses their labels)"


def checked_answer(weights: Any, n_classes: int) -> np.ndarray:
    """A distribution from non-negative weights of the classes."""
    try:
        answer = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        answer = np.empty(0)
    if answer.shape != (n_classes,) or not np.isfinite(answer).all() or answer.min() < 0 or not answer.any():
        raise NesiError(
            f"The answer is {str(weights)[:60]}, but must be {n_classes} weights >= 0, one for each class and not all "
            "of them zero."
        )
    if answer.max() > 1e300:  # their sum might be infinite
        answer = answer / answer.max()
    return answer / answer.sum()


def class_beliefs(R: np.ndarray, answers: Mapping[int, np.ndarray] | None = None) -> np.ndarray:
    """p(k|c), fields in rows: the answer where there is one, else what R says; 1/K for a field without any weight."""
    beliefs = class_given_unit(R, unused=1 / len(R)).T
    for field, answer in (answers or {}).items():
        beliefs[field] = answer
    return beliefs


def field_usage(R: np.ndarray) -> np.ndarray:
    """p(c|R) = 1/K sum_k R_kc."""
    return np.asarray(R, dtype=np.float64).mean(axis=0)


def R_by_hard_max(activities: sp.csr_array, labels: np.ndarray, n_classes: int) -> np.ndarray:
    """The 'hard max' of Section 4.5: every unit belongs to the class whose labeled points activate it most on average.

    `activities` are s (T1.4), points in rows. A unit that no labeled point activates belongs to no class.
    """
    known = labels >= 0
    counts = np.bincount(labels[known], minlength=n_classes)
    points = np.arange(known.sum())
    of_class = sp.csr_array((1 / counts[labels[known]], (labels[known], points)), shape=(n_classes, len(points)))
    mean_activity = (of_class @ activities[known]).toarray()
    R = np.zeros(mean_activity.shape)
    active = np.flatnonzero(mean_activity.max(axis=0) > 0)
    R[mean_activity[:, active].argmax(axis=0), active] = 1
    return _normalised_rows(R)


def with_hard_classes(network: TrainedNetwork, activities: sp.csr_array, labels: np.ndarray) -> TrainedNetwork:
    """The network with the hard max of its training points instead of what the class layer has learned."""
    if network.network.recurrent:
        raise NesiError(f"hard max is for feedforward networks, but the network is {network.network.name}.")
    return network.with_weights(network.W, R_by_hard_max(activities, labels, network.n_classes))


def R_from_answers(R_old: np.ndarray, answers: Mapping[int, np.ndarray]) -> np.ndarray:
    """Eq. (setlabel): R_kc = q_kc p(c|R_old) / sum_c' q_kc' p(c'|R_old).

    The delta of the paper is q_kc, the answer: a delta again for somebody who is sure. Fields without an answer keep
    the p(k|c) of R_old, which is 1/K as long as no class was ever learned. A class that no field shows has no weights
    and is never inferred. With an R_old that has learned nothing, R_kc = 1/C, this is the equation of Section 4.5.
    """
    beliefs = class_beliefs(R_old, answers)
    return _normalised_rows(beliefs.T * field_usage(R_old)).astype(R_old.dtype)


def without_classes(prior: np.ndarray, n_classes: int) -> np.ndarray:
    """R of a network that knows p(c|R) and no class: all rows the same."""
    return np.repeat(np.asarray(prior).reshape(1, -1), n_classes, axis=0)


def oracle_answers(activities: sp.csr_array, labels: np.ndarray, n_classes: int, soft: bool = False) -> Answers:
    """Somebody who knows the labels of the training points, for experiments without a person: ORACLE.

    A field that wins no point is judged by the points that it takes part in; if there are none, there is no answer.
    With `soft` the answer is the distribution of the classes of these points.
    """
    n_points, n_fields = activities.shape
    known = labels >= 0
    winners = winning_fields(activities)
    won = np.zeros((n_fields, n_classes))
    np.add.at(won, (winners[known], labels[known]), 1)
    one_hot = sp.csr_array((np.ones(known.sum()), (np.flatnonzero(known), labels[known])), shape=(n_points, n_classes))
    shared = (activities.T @ one_hot).toarray()
    counts = np.where(won.sum(axis=1, keepdims=True) > 0, won, shared)
    answers = {}
    for field in np.flatnonzero(counts.sum(axis=1) > 0):
        weights = counts[field] if soft else np.eye(n_classes)[np.argmax(counts[field])]
        answers[int(field)] = checked_answer(weights, n_classes)
    return answers


def winning_fields(activities: sp.csr_array) -> np.ndarray:
    """The field with the largest activity, for every point."""
    rows = np.repeat(np.arange(activities.shape[0]), np.diff(activities.indptr))
    order = np.lexsort((activities.indices, -activities.data, rows))  # the lowest number wins among equals
    first = np.searchsorted(rows[order], np.arange(activities.shape[0]))
    return activities.indices[order][first].astype(np.int64)


def given_answers(answers: Mapping[int, np.ndarray], fields: Iterable[int]) -> Answers:
    """The answers for these fields; a field without an answer is left out."""
    return {int(field): answers[int(field)] for field in fields if int(field) in answers}


def _normalised_rows(R: np.ndarray) -> np.ndarray:
    total = R.sum(axis=1, keepdims=True)
    return np.where(total > 0, R / np.where(total > 0, total, 1), 0)
