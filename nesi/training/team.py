"""Several workers that train one network: who has which points, who owns which units, and how they are called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from data_tools.dataset import Matrix
from data_tools.rows_on_disk import chosen_rows
from nesi.training.member import Member, PointsOfPart
from nesi.training.settings import TrainingSettings


class WorkerLost(Exception):
    """A worker, or the way to it, is gone; what it had has to be taken from a checkpoint."""


class Team(Protocol):
    """The workers, wherever they are."""

    @property
    def size(self) -> int:
        """How many there are."""

    def gather(self, settings: TrainingSettings, points: Sequence[Sequence[PointsOfPart]]) -> None:
        """A member on every worker, with its parts of the data."""

    def call(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """A method of all members at the same time, each with its own arguments."""


class LocalTeam:
    """All of them in this process, one after the other."""

    def __init__(self, size: int = 1, threads: int | None = None) -> None:
        self.size, self._threads = size, threads
        self._members: list[Member] = []

    def gather(self, settings: TrainingSettings, points: Sequence[Sequence[PointsOfPart]]) -> None:
        self._members = [Member(settings, self._threads, parts) for parts in points]

    def call(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        if method == "meet":
            peers = [_asking(member) for member in self._members]
            arguments = [(me, peers, *rest) for me, *rest in arguments]
        return [getattr(member, method)(*given) for member, given in zip(self._members, arguments, strict=True)]


def _asking(member: Member) -> Callable[..., Callable[[], Any]]:
    return lambda *question: lambda: member.give(*question)


class Parts:
    """The data, dealt out: blocks of neighbouring rows go to the parts in turn, and parts to workers."""

    def __init__(self, n_points: int, count: int, block: int) -> None:
        self.n_points, self.block = n_points, block
        self.count = max(1, min(count, -(-n_points // block)))
        self.of_row = (np.arange(n_points) // block) % self.count

    def rows(self, part: int) -> np.ndarray:
        return np.flatnonzero(self.of_row == part)

    def places(self, rows: np.ndarray) -> dict[int, np.ndarray]:
        """Where rows of the whole are in their parts."""
        within = rows // (self.block * self.count) * self.block + rows % self.block
        return {int(part): within[self.of_row[rows] == part] for part in np.unique(self.of_row[rows])}

    def whole(self, found: dict[int, np.ndarray]) -> np.ndarray:
        """One row per point of the whole, from the rows of the parts."""
        first = found[0]
        result = np.empty((self.n_points, *first.shape[1:]), first.dtype)
        for part, values in found.items():
            result[self.rows(part)] = values
        return result

    def dealt(self, X: Matrix, labels: np.ndarray, workers: int) -> list[list[PointsOfPart]]:
        """What each worker gets."""
        dealt: list[list[PointsOfPart]] = [[] for _ in range(workers)]
        for part in range(self.count):
            rows = self.rows(part)
            dealt[part % workers].append(PointsOfPart(part, rows, chosen_rows(X, rows), labels[rows]))
        return dealt
