"""What labels say about classes: a class prior, labels that are sometimes wrong, labels that are distributions.

The networks only need p(k), and p(k | label) with p(label) for every label that occurs (docs/extensions.md).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nesi.errors import NesiError

_SUM_TOLERANCE = 1e-3


class LabelModel(NamedTuple):
    relative_prior: np.ndarray  # K p(k): exactly 1 if classes are equally likely
    meanings: np.ndarray  # p(k | label), one row per label
    log_evidence: np.ndarray  # log p(label)
    certain: bool  # a label is the class itself, as in the paper

    @property
    def prior(self) -> np.ndarray:
        """p(k)."""
        return self.relative_prior / len(self.relative_prior)

    def for_labels(self, labels: np.ndarray, most_rows: int = 64) -> tuple[np.ndarray, LabelModel]:
        """The same for some points only, if there are many different labels: tables with a row per label get large."""
        if len(self.meanings) <= most_rows:
            return labels, self
        rows, numbers = np.unique(labels[labels >= 0], return_inverse=True)
        local = labels.copy()
        local[labels >= 0] = numbers
        filled = np.resize(rows, 1 << int(np.ceil(np.log2(max(len(rows), 1))))) if len(rows) else np.zeros(1, np.int64)
        return local, self._replace(meanings=self.meanings[filled], log_evidence=self.log_evidence[filled])


def label_model(K: int, class_prior: Any = None, label_noise: Any = None) -> LabelModel:
    """Labels that are class numbers; `label_noise` is the share of wrong ones, or p(label | class) as a matrix."""
    relative = np.ones(K) if class_prior is None else _checked_prior(class_prior, K)
    if label_noise is None:
        return LabelModel(relative, np.eye(K), np.log(relative) - np.log(K), certain=True)
    joint = (relative / K)[:, None] * _checked_noise(label_noise, K)  # p(k, label)
    evidence = joint.sum(axis=0)
    possible = evidence > 0
    meanings = np.where(possible, joint / np.where(possible, evidence, 1), 1 / K).T
    with np.errstate(divide="ignore"):
        return LabelModel(relative, meanings, np.log(evidence), certain=False)


def soft_label_model(rows: Any, class_prior: Any = None) -> tuple[np.ndarray, LabelModel]:
    """Labels that are distributions over classes, one row per point; rows of zeros, or of -1, are unlabeled points.

    Such a row is p(k | label). What is not known is p(label), which no weight can change: it is counted as
    sum_k p(k | label) p(k), which is right for a label that is certain.
    """
    given = np.asarray(rows, dtype=np.float64)
    if given.ndim != 2 or given.shape[1] < 2:
        raise NesiError(
            f"Soft labels have the shape {given.shape}, but must have one row per point, one column per class."
        )
    K = given.shape[1]
    unlabeled = (given == 0).all(axis=1) | (given == -1).all(axis=1)
    known = given[~unlabeled]
    wrong = ~(np.isfinite(known).all(axis=1) & (known >= 0).all(axis=1))
    wrong |= ~(np.abs(known.sum(axis=1) - 1) <= _SUM_TOLERANCE)
    if wrong.any():
        row = int(np.flatnonzero(~unlabeled)[np.argmax(wrong)])
        raise NesiError(
            f"Row {row} of the soft labels is not a distribution over classes: its values must be at least 0 and "
            "sum to 1; a row of zeros marks an unlabeled point."
        )
    certain = label_model(K, class_prior)
    labels = np.full(len(given), -1, dtype=np.int64)
    meanings = np.eye(K)
    if len(known):
        meanings, numbers = np.unique(known / known.sum(axis=1, keepdims=True), axis=0, return_inverse=True)
        labels[~unlabeled] = numbers.ravel()
    return labels, LabelModel(certain.relative_prior, meanings, np.log(meanings @ certain.prior), certain=False)


def read_labels(labels: Any, n_points: int, model: LabelModel) -> tuple[np.ndarray, np.ndarray, LabelModel]:
    """The number of each point's label, its (most probable) class, and what the labels mean.

    Labels are class numbers, which `model` is about, or distributions over classes, one row per point.
    """
    K = len(model.relative_prior)
    if np.ndim(labels) != 2:
        numbers = checked_labels(labels, n_points, K)
        return numbers, numbers, model
    if not model.certain:
        raise NesiError("Labels that are distributions already say how certain they are: leave label_noise out.")
    if np.shape(labels) != (n_points, K):
        raise NesiError(f"The soft labels have the shape {np.shape(labels)}, but must have {n_points, K}.")
    numbers, soft = soft_label_model(labels, model.prior)
    return numbers, np.where(numbers >= 0, soft.meanings.argmax(axis=1)[numbers], -1), soft


def checked_labels(labels: Any, n_points: int, n_classes: int) -> np.ndarray:
    array = np.asarray(labels)
    if array.shape != (n_points,):
        raise NesiError(f"The labels have the shape {array.shape}, but there are {n_points} points.")
    if not np.issubdtype(array.dtype, np.integer):
        raise NesiError(f"The labels have the type {array.dtype}, but must be integers, with -1 for unlabeled.")
    if n_points and (array.min() < -1 or array.max() >= n_classes):
        wrong = array[(array < -1) | (array >= n_classes)][0]
        raise NesiError(f"A label is {wrong}, but must be a class from 0 to {n_classes - 1}, or -1 for unlabeled.")
    return array.astype(np.int64)


def _checked_prior(given: Any, K: int) -> np.ndarray:
    """K p(k)."""
    prior = np.asarray(given, dtype=np.float64)
    if prior.shape != (K,):
        raise NesiError(
            f"class_prior has the shape {prior.shape}, but must hold one number for each of the {K} classes."
        )
    if not (np.isfinite(prior).all() and (prior > 0).all() and abs(prior.sum() - 1) <= _SUM_TOLERANCE):
        raise NesiError(f"class_prior is {prior.tolist()}, but must be positive numbers that sum to 1.")
    relative = K * prior / prior.sum()
    return np.ones(K) if np.allclose(relative, 1, rtol=0, atol=1e-12) else relative


def _checked_noise(given: Any, K: int) -> np.ndarray:
    """p(label | class), one row per class."""
    noise = np.asarray(given, dtype=np.float64)
    if noise.ndim == 0:
        if not 0 <= noise < 1:
            raise NesiError(
                f"label_noise is {float(noise):g}, but the share of wrong labels must be at least 0 and below 1."
            )
        wrong = float(noise) / (K - 1) if K > 1 else 0.0  # any other class is as likely as the others
        return np.full((K, K), wrong) + np.eye(K) * (1 - wrong * K)
    if noise.shape != (K, K):
        raise NesiError(
            f"label_noise has the shape {noise.shape}, but must be a number or a matrix of {K} x {K} classes."
        )
    if not (np.isfinite(noise).all() and (noise >= 0).all() and np.abs(noise.sum(axis=1) - 1).max() <= _SUM_TOLERANCE):
        raise NesiError("label_noise must hold p(label | class): values of at least 0, each row with the sum 1.")
    return noise / noise.sum(axis=1, keepdims=True)
