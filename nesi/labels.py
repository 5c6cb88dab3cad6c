"""Which training points get a label: class-balanced draws and the tuning split of Section 4.1.

All draws come from the generator that is handed in, so the same seed gives the same indices. In `y` -1 means
unlabeled; such points are never drawn.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from data_tools.dataset import UNLABELED as UNLABELED
from nesi.errors import NesiError

Indices = npt.NDArray[np.int64]


def draw_labels(y: npt.ArrayLike, n_labels: int, rng: np.random.Generator) -> Indices:
    """Sorted indices of `n_labels` points, equally many per class, drawn at random within each class.

    A class with too few points gives all it has, and the others share what is lacking. What cannot be shared
    equally goes to the lowest-numbered classes, one each, as in the authors' program.
    """
    labels = np.asarray(y)
    if isinstance(n_labels, bool) or not isinstance(n_labels, (int, np.integer)) or n_labels < 0:
        raise NesiError(f"{n_labels!r} labels were asked for, but the number must be an integer of at least 0.")
    classes, available = np.unique(labels[labels != UNLABELED], return_counts=True)
    if n_labels > available.sum():
        raise NesiError(
            f"{n_labels} labels were asked for, but only {available.sum()} training points are labeled; ask for fewer."
        )
    drawn = [
        rng.choice(np.flatnonzero(labels == label), size=size, replace=False)
        for label, size in zip(classes, balanced_shares(available, n_labels), strict=True)
    ]
    return np.sort(np.concatenate(drawn)).astype(np.int64) if drawn else np.empty(0, dtype=np.int64)


def balanced_shares(available: npt.NDArray[np.integer], total: int) -> Indices:
    """How many of `total` each class gives when class k has `available[k]` points."""
    shares = np.zeros(len(available), dtype=np.int64)
    left = int(total)
    while left > 0:
        open_classes = np.flatnonzero(shares < available)
        each = left // len(open_classes)
        if each == 0:
            shares[open_classes[:left]] += 1
            break
        # Nobody is given more than the smallest of them still has; then that class is full and we go round again.
        each = min(each, int((available - shares)[open_classes].min()))
        shares[open_classes] += each
        left -= each * len(open_classes)
    return shares


def mask_labels(y: npt.ArrayLike, indices: npt.ArrayLike) -> Indices:
    """The labels at `indices`, and -1 everywhere else."""
    labels = np.asarray(y)
    positions = np.asarray(indices, dtype=np.int64)
    masked = np.full(labels.shape, UNLABELED, dtype=np.int64)
    masked[positions] = labels[positions]
    return masked


def tuning_split(y: npt.ArrayLike, n_labels: int, rng: np.random.Generator) -> tuple[Indices, Indices]:
    """Draw `n_labels` as above and halve them, class by class: labels to train on, and labels to validate on.

    The validation points must not be trained on, not even without their labels: the training set for tuning is
    everything but them, with `mask_labels(y, train_indices)` as labels.
    """
    labels = np.asarray(y)
    drawn = draw_labels(labels, n_labels, rng)
    train, validation = [], []
    extra_to_training = True
    for label in np.unique(labels[labels != UNLABELED]):
        members = rng.permutation(drawn[labels[drawn] == label])
        if len(members) < 2:
            raise NesiError(
                f"{n_labels} labels leave class {label} with {len(members)}, but halving them for tuning needs two "
                f"per class; ask for more labels."
            )
        half = len(members) // 2
        if len(members) % 2:
            # The odd ones take turns, so that both halves stay equally large.
            half += extra_to_training
            extra_to_training = not extra_to_training
        train.append(members[:half])
        validation.append(members[half:])
    if not train:
        raise NesiError("there is no labeled training point to split for tuning; label at least two per class.")
    return np.sort(np.concatenate(train)), np.sort(np.concatenate(validation))
