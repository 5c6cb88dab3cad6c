"""One of several workers that train a network together: it keeps its points, and all of the weights.

The data is dealt out in parts. In every round each part proposes what its mini-batch would change
(`nesi.engines.proposals`), with the weights that all workers have in common. Units have owners: every owner collects
what all parts propose for its units, applies it part by part, and hands out the result. So which worker has which part,
and how many workers there are, changes no number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from data_tools.dataset import Matrix
from data_tools.errors import DataError
from nesi.engines.exact import ExactEngine
from nesi.engines.proposals import NewWeights, Proposal, applied
from nesi.engines.second_layer import SecondLayer
from nesi.engines.specification import NetworkSpec
from nesi.engines.truncated import TruncatedEngine
from nesi.engines.votes import Votes, count_votes, elected
from nesi.errors import NesiError
from nesi.observations import Observations, SparseRows
from nesi.threads import limited_threads
from nesi.training.order import in_batches, shuffled_in_blocks
from nesi.training.settings import TrainingSettings

Peer = Callable[[str, int, int], Callable[[], Any]]  # what, of units first to last -> wait for it


class PointsOfPart(NamedTuple):
    """One part of the data; `rows` says where its points are in the whole."""

    number: int
    rows: np.ndarray
    X: Matrix
    labels: np.ndarray


class Outcome(NamedTuple):
    """Of the mini-batch of one part."""

    part: int
    n_points: int
    log_likelihood: float  # the sum over its points
    self_labeled: int


class _Part:
    """The points of a part, and the candidates of these points."""

    def __init__(self, points: PointsOfPart, settings: TrainingSettings) -> None:
        self.number, self.rows, self.labels = points.number, points.rows, points.labels
        try:
            self.data = Observations(points.X, settings.A)
        except (OSError, DataError) as error:
            raise NesiError(
                f"a worker cannot read the data ({error}); put the files where all workers see them."
            ) from None
        self.engine: Any = None  # exact or truncated
        self.batches: Iterator[np.ndarray] = iter(())
        self.activities: Any = None


class Member:
    """All methods but `give` are called by the one who directs the training, one at a time."""

    def __init__(self, settings: TrainingSettings, threads: int | None, parts: Sequence[PointsOfPart]) -> None:
        self._settings, self._threads = settings, threads
        self._parts = [_Part(points, settings) for points in parts]
        self._proposals: list[tuple[int, Proposal]] = []
        self._merged: NewWeights | None = None
        self._votes: Votes | None = None
        self._elected: np.ndarray | None = None
        self._second: SecondLayer | None = None
        self._peers: list[Peer] = []
        self._me = 0
        self.received = 0  # bytes, from other workers

    def meet(self, me: int, peers: list[Peer], first: int, last: int) -> None:
        """The workers, of which this is number `me`, the owner of units first to last."""
        self._me, self._peers, self._own = me, peers, (first, last)

    def give(self, what: str, first: int, last: int) -> Any:
        """What another worker asks for."""
        if what == "proposals":
            return [(number, proposal.part(first, last)) for number, proposal in self._proposals]
        if what == "votes":
            assert self._votes is not None
            return self._votes.part(first, last)
        return {"merged": self._merged, "neighbours": self._elected}[what]

    def _from_all(self, what: str, first: int = 0, last: int = 0) -> list[Any]:
        waiting = [peer(what, first, last) for peer in self._peers]
        answers = [wait() for wait in waiting]
        self.received += sum(_size(answer) for number, answer in enumerate(answers) if number != self._me)
        return answers

    # ---- the data --------------------------------------------------------------------------------------------------

    def sums(self, chosen: dict[int, np.ndarray]) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        """Per part, over its points with these places."""
        return {part.number: part.data.sums(chosen[part.number]) for part in self._parts if part.number in chosen}

    def dense_rows(self, chosen: dict[int, np.ndarray], dtype: str) -> dict[int, np.ndarray]:
        return {
            part.number: part.data.dense_rows(chosen[part.number], dtype)
            for part in self._parts
            if part.number in chosen
        }

    # ---- weights ---------------------------------------------------------------------------------------------------

    def start(self, spec: NetworkSpec, W: np.ndarray, R: np.ndarray) -> None:
        """A new phase, with these weights."""
        settings, self._second, self._merged = self._settings, None, None
        for part in self._parts:
            if settings.inference == "exact":
                part.engine = ExactEngine(spec, W, R, settings.A, settings.threshold)
            else:
                part.engine = TruncatedEngine(
                    spec,
                    W,
                    R,
                    settings.A,
                    settings.threshold,
                    part.data,
                    part.labels,
                    np.random.default_rng(0),  # strangers come from whoever directs the training
                    settings.truncated,
                    settings.candidates_in,
                )
            part.engine.share_weights_of(self._engine)

    @property
    def _engine(self) -> Any:
        return self._parts[0].engine

    def weights(self) -> tuple[np.ndarray, np.ndarray]:
        return self._engine.W, self._engine.R if self._second is None else self._second.R

    def set_weights(self, W: np.ndarray, R: np.ndarray) -> None:
        self._engine.set_weights(W, R)
        for part in self._parts[1:]:
            part.engine.share_weights_of(self._engine)

    # ---- candidates ------------------------------------------------------------------------------------------------

    def find_first_candidates(self) -> None:
        with limited_threads(self._threads):
            for part in self._parts:
                if isinstance(part.engine, TruncatedEngine):
                    part.engine.find_first_candidates()

    def search(self, places: dict[int, np.ndarray], strangers: dict[int, np.ndarray]) -> None:
        """Better candidates for some points of each part."""
        with limited_threads(self._threads):
            for part in self._parts:
                if isinstance(part.engine, TruncatedEngine) and part.number in places:
                    part.engine.search(places[part.number], strangers[part.number])

    def candidates(self) -> dict[int, np.ndarray]:
        return {part.number: part.engine.find_first_candidates() for part in self._parts}

    def neighbours(self) -> np.ndarray:
        return np.asarray(self._engine.neighbours)

    def set_candidates(self, units: dict[int, np.ndarray], neighbours: np.ndarray) -> None:
        for part in self._parts:
            assert isinstance(part.engine, TruncatedEngine)
            part.engine.restore({"units": units[part.number], "neighbours": neighbours})
            part.engine.share_weights_of(self._engine)

    def vote(self) -> None:
        """Who is whose neighbour, as far as the points here know."""
        votes = []
        for part in self._parts:
            units, size = part.engine.find_first_candidates(), part.engine.size
            members = units.shape[1] // size
            rows = (part.rows[:, None] * members + np.arange(members)).ravel()
            votes.append(count_votes(units.reshape(-1, size), rows, len(self._engine.W)))
        unit = np.concatenate([part.unit for part in votes])
        order = np.argsort(unit, kind="stable")
        self._votes = Votes(*(np.concatenate(values)[order] for values in zip(*votes, strict=True)))

    def elect(self) -> None:
        """Of the units that are owned here."""
        self._elected = elected(self._engine.neighbours, *self._own, self._from_all("votes", *self._own))

    def learn_neighbours(self) -> None:
        self._engine.neighbours[:] = np.concatenate(self._from_all("neighbours"))

    # ---- learning ----------------------------------------------------------------------------------------------------

    def begin_pass(self, batch_size: int, seeds: dict[int, int] | None) -> None:
        """The order of the points; as they are, if there are no seeds."""
        blocks = self._settings.shuffle == "blocks"
        for part in self._parts:
            if seeds is None:
                order: Any = [np.arange(part.data.n_points)]
            else:
                rng = np.random.default_rng(np.random.SeedSequence(seeds[part.number]))
                shuffles_blocks = blocks or part.data.on_disk
                order = shuffled_in_blocks(part.data, rng) if shuffles_blocks else [rng.permutation(part.data.n_points)]
            part.batches = in_batches(order, batch_size)

    def propose(
        self, learn: str, epsilon_W: float, epsilon_R: float, strangers: dict[int, np.ndarray] | None
    ) -> list[Outcome]:
        """What the next mini-batch of every part would change."""
        with limited_threads(self._threads):
            self._take_over()
            self._proposals, outcomes = [], []
            for part in self._parts:
                batch = next(part.batches, None)
                if batch is not None:
                    rates = np.full(len(batch), epsilon_W), np.full(len(batch), epsilon_R)
                    of_part = None if strangers is None else strangers[part.number]
                    outcome, proposal = self._proposal(part, batch, learn, *rates, of_part)
                    self._proposals.append((part.number, proposal))
                    outcomes.append(outcome)
            return outcomes

    def _proposal(
        self,
        part: _Part,
        batch: np.ndarray,
        learn: str,
        rates_W: np.ndarray,
        rates_R: np.ndarray,
        strangers: np.ndarray | None,
    ) -> tuple[Outcome, Proposal]:
        labels, spec = part.labels[batch], self._settings
        if self._second is not None:
            G = spec.committee
            rows = part.activities[(batch[:, None] * G + np.arange(G)).ravel()]
            activities = SparseRows(rows.data, rows.indices.astype(np.int64), rows.indptr.astype(np.int64))
            self_labeled, forgotten, learned = self._second.propose(activities, labels, rates_R)
            no_rows = np.empty(0, np.int64), forgotten[:0], np.empty((0, part.data.n_features), spec.dtype)
            return Outcome(part.number, len(batch), 0.0, self_labeled), Proposal(*no_rows, forgotten, learned)
        points = part.data.take(batch, spec.dtype)
        step, proposal = part.engine.propose(points, labels, rates_W, rates_R, batch, strangers)
        if "R" not in learn:
            proposal = proposal.without("R")
        log_likelihood = float((step.log_likelihood - part.data.log_gamma[batch]).sum())
        return Outcome(part.number, len(batch), log_likelihood, step.self_labeled), proposal

    def merge(self) -> None:
        """Apply what all parts propose for the units that are owned here, one part after the other."""
        answers = self._from_all("proposals", *self._own)
        proposals = sorted((entry for answer in answers for entry in answer), key=lambda entry: entry[0])
        W, R = self._engine.W, self._engine.R if self._second is None else self._second.R
        self._merged = applied(W, R, *self._own, [proposal for _, proposal in proposals])

    def _take_over(self) -> None:
        """What the owners have made of the last round."""
        if self._merged is None:
            return
        new: list[NewWeights] = self._from_all("merged")
        R = np.concatenate([part.R for part in new], axis=1)
        if self._second is not None:
            self._second.set_R(R)
        else:
            rows, W = np.concatenate([part.rows for part in new]), np.concatenate([part.W for part in new])
            self._engine.replace_rows(rows, W, R)

    def take_over(self) -> None:
        """At the end of a pass. Other workers may still ask for what was merged here."""
        self._take_over()
        self._proposals = []

    def end_pass(self) -> int:
        """When all have taken over: compute again what follows from the weights. Returns what was received so far."""
        self._merged = None
        if self._second is None:
            if isinstance(self._engine, ExactEngine):
                self._engine.end_iteration()
            else:
                self._engine.compute_derived()
        return self.received

    # ---- the second layer --------------------------------------------------------------------------------------------

    def start_second(self, spec: NetworkSpec) -> None:
        """The first layer stays as it is; the second one learns from its activities."""
        with limited_threads(self._threads):
            for part in self._parts:
                part.activities = part.engine.activities(part.data)
            self._second = SecondLayer(spec, self._engine.R, self._settings.threshold)


def _size(answer: Any) -> int:
    if isinstance(answer, list):
        return sum(proposal.nbytes for _, proposal in answer)
    return int(answer.nbytes)
