"""Which fields to ask about: at random as in the paper, or the most informative first.

The paper notes that there may be more informative choices than a random one (Appendix B.3). This one imagines a walk
over the units: from a unit to one of its points and on to one of the units of that point, both drawn by s. It ends at
a unit whose field has an answer, and it gives up with a small probability at every step. The class that a field
probably shows is the class at the end of the walks from its unit. That is what self-labeling does later on: a point
that is labeled by one of its units teaches its other units.

The best field to ask about is the one visited by most of the walks that start at points whose class is still open:
many points (p(c|R)), uncertain (1 - BvSB), and not yet near an answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from nesi.fields.labels import Answers
from nesi.posteriors import best_versus_second_best

CHOICES = ("random", "informative")

_GIVES_UP = 0.03  # at every step, so that walks end near where they began, and fields that share nothing stay apart
_NEIGHBOURS = 20  # steps that are tried from each field: the strongest ones, the others hardly matter
_MOST_STEPS = 100
_SMALL = 1e-3


class Outlook(NamedTuple):
    """What the answers so far say about all fields."""

    beliefs: np.ndarray  # p(k|c), fields in rows
    decided: float  # share of the data whose class is decided: 0 nothing, 1 everything
    gains: np.ndarray  # share of the data for which the answer to a field would matter; 0 for fields already asked


class FieldMap:
    """How the fields of a network share the data points."""

    def __init__(self, activities: sp.csr_array) -> None:
        """`activities`: s of the training points. Their mean is p(c|R), once it is learned (eq. WRLearning)."""
        self._usage = np.asarray(activities.mean(axis=0), dtype=np.float64).ravel()
        self._walk = _moves(activities)
        self._back = sp.csr_array(self._walk.T)
        self._ends = 1 - np.asarray(self._walk.sum(axis=1)).ravel()
        # A walk that returns is counted again. Nearly all returns take two moves.
        self._visits = 1 + np.asarray(self._walk.multiply(self._back).sum(axis=1)).ravel()

    def outlook(self, known: np.ndarray, answers: Mapping[int, np.ndarray], asked: np.ndarray) -> Outlook:
        """`known`: p(k|c) without any answer; `asked`: fields that need not be asked (again)."""
        beliefs = self.beliefs(known, answers)
        certainty = best_versus_second_best(beliefs)
        return Outlook(beliefs, float(self._usage @ certainty), self._gains(1 - certainty, asked))

    def beliefs(self, known: np.ndarray, answers: Mapping[int, np.ndarray]) -> np.ndarray:
        """The classes at the end of the walks from each field; a walk that gives up ends with what was known before."""
        beliefs = known.copy()
        fields = np.fromiter(answers, dtype=np.int64, count=len(answers))
        given = np.array([answers[int(field)] for field in fields]).reshape(len(fields), known.shape[1])
        beliefs[fields] = given
        for _ in range(_MOST_STEPS):
            new = self._walk @ beliefs + self._ends[:, None] * known
            new[fields] = given
            change = np.abs(new - beliefs).max(initial=0)
            beliefs = new
            if change < _SMALL:
                break
        return beliefs

    def spread(self, known: np.ndarray, answers: Mapping[int, np.ndarray]) -> Answers:
        """The answers, and for every other field the classes where its walks arrive at answers (not in the paper).

        Walks that give up say nothing, unless it was known before which class the field shows, and how surely.
        """
        arrived = self.beliefs(np.zeros_like(known), answers)
        gave_up = 1 - arrived.sum(axis=1)
        weights = arrived + (gave_up * best_versus_second_best(known))[:, None] * known
        total = weights.sum(axis=1)
        spread = {int(field): weights[field] / total[field] for field in np.flatnonzero(total > _SMALL)}
        return spread | dict(answers)

    def _gains(self, uncertainty: np.ndarray, asked: np.ndarray) -> np.ndarray:
        """Walks that start where the class is open and pass a field, before they end elsewhere."""
        free = np.ones(len(self._usage))
        free[asked] = 0
        walkers = self._usage * uncertainty * free
        passing = walkers.copy()
        for _ in range(_MOST_STEPS):
            walkers = (self._back @ walkers) * free
            passing += walkers
            if walkers.sum() <= _SMALL * passing.sum():
                break
        return passing / self._visits


def choose_field(how: str, gains: np.ndarray, order: np.ndarray, asked: np.ndarray) -> int | None:
    """The next field: the first of `order` that was not asked, or the one that gains most; None after the last."""
    open_fields = order[~np.isin(order, asked)]
    if not len(open_fields):
        return None
    if how == "random":
        return int(open_fields[0])
    return int(open_fields[np.argmax(gains[open_fields])])


def _moves(activities: sp.csr_array) -> sp.csr_array:
    """The probabilities of the next field that is another one; rows sum to less than one, as walks also give up.

    A step goes from c to c' with P_cc' = sum_n s_nc s_nc' / sum_n s_nc, often to c itself. With g = 1 - _GIVES_UP the
    walk is at c' when it first leaves c with the probability g P_cc' / (1 - g P_cc).
    """
    s = activities.astype(np.float64)
    shared = sp.coo_array(s.T @ s)
    use = np.asarray(s.sum(axis=0)).ravel()
    rows, columns = shared.row, shared.col
    steps = (1 - _GIVES_UP) * shared.data / np.where(use > 0, use, 1)[rows]
    stays = np.bincount(rows, weights=np.where(rows == columns, steps, 0), minlength=len(use))
    away = (rows != columns) & (steps > 0)
    values, rows, columns = (steps / (1 - stays[rows]))[away], rows[away], columns[away]
    total = np.bincount(rows, weights=values, minlength=len(use))
    order = np.lexsort((columns, -values, rows))
    values, rows, columns = values[order], rows[order], columns[order]
    strong = np.arange(len(rows)) - np.searchsorted(rows, rows) < _NEIGHBOURS
    values, rows, columns = values[strong], rows[strong], columns[strong]
    kept = np.bincount(rows, weights=values, minlength=len(use))
    return sp.csr_array((values * (total / np.where(kept > 0, kept, 1))[rows], (rows, columns)), shape=shared.shape)
