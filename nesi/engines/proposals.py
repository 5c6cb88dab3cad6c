"""What a mini-batch would change, before anything is changed: for networks that several workers train together.

The sequential rule applies the updates of all points one after the other, with the activities of the round's start.
What the points of one mini-batch do to a row of weights is one step, row <- row + learned - forgotten row; and the
steps of several mini-batches, one after the other, are the sequential rule for all of their points.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nesi.equations import VANISHING


class Proposal(NamedTuple):
    """The step of one mini-batch; layers that do not learn are not in it."""

    rows: np.ndarray  # of W that change
    forgotten: np.ndarray  # the share of each that is forgotten
    learned: np.ndarray  # what is learned instead
    R_forgotten: np.ndarray  # one share per class
    R_learned: np.ndarray  # K x C

    def without(self, layer: str) -> Proposal:
        """One layer does not learn."""
        none = self.forgotten[:0]
        if layer == "W":
            return self._replace(rows=self.rows[:0], forgotten=none, learned=self.learned[:0])
        return self._replace(R_forgotten=none, R_learned=self.R_learned[:, :0])

    def part(self, first: int, last: int) -> Proposal:
        """What concerns units first to last."""
        some = slice(*np.searchsorted(self.rows, [first, last]))
        R_learned = self.R_learned[:, first:last] if len(self.R_forgotten) else self.R_learned
        return Proposal(self.rows[some], self.forgotten[some], self.learned[some], self.R_forgotten, R_learned)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self)


class NewWeights(NamedTuple):
    """Rows of W, and the columns of R, of some units after a round."""

    rows: np.ndarray
    W: np.ndarray
    first: int
    R: np.ndarray

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + self.W.nbytes + self.R.nbytes


def applied(W: np.ndarray, R: np.ndarray, first: int, last: int, proposals: list[Proposal]) -> NewWeights:
    """Units first to last after the steps of all proposals, one after the other."""
    rows = np.unique(np.concatenate([proposal.rows for proposal in proposals]))
    new_W, new_R = W[rows], R[:, first:last].copy()
    for proposal in proposals:
        places = np.searchsorted(rows, proposal.rows)
        before = new_W[places]
        new_W[places] = before + (proposal.learned - proposal.forgotten[:, None] * before)
        if len(proposal.R_forgotten):
            new_R += proposal.R_learned - proposal.R_forgotten[:, None] * new_R
            new_R = np.where(new_R > 0, np.maximum(new_R, np.asarray(VANISHING[str(R.dtype)], R.dtype)), new_R)
    return NewWeights(rows, new_W, first, new_R)
