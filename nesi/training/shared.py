"""One network, many workers: the trainer that directs them. What they do is in `nesi.training.member`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp

from data_tools.dataset import Matrix
from nesi.engines.contract import StepInfo
from nesi.engines.specification import NetworkSpec
from nesi.errors import NesiError
from nesi.observations import Observations, Points, moments_of
from nesi.training.learning_rates import Lesson
from nesi.training.member import Outcome
from nesi.training.phases import PassResult, Phase
from nesi.training.settings import TrainingSettings
from nesi.training.team import Parts, Team
from nesi.training.trainer import Trainer

_DEALT_TOGETHER = 1000  # neighbouring points go to the same part; a mini-batch, if its size is given


class DataOfTeam:
    """The data as the trainer sees it: it stays with the workers. Has what starts of W need of `Observations`."""

    def __init__(self, X: Matrix, settings: TrainingSettings, team: Team, parts: int) -> None:
        self._X, self._settings, self.team = X, settings, team
        self.n_points, self.n_features = (int(length) for length in X.shape)
        self.sparse = bool(getattr(X, "sparse", sp.issparse(X)))
        self.on_disk, self.normalization = hasattr(X, "block_starts"), settings.A
        self.parts = Parts(self.n_points, parts, settings.batch_size or _DEALT_TOGETHER)
        self.workers = min(team.size, self.parts.count)
        self.received = 0  # bytes, by all workers from each other

    def hand_out(self, labels: np.ndarray) -> None:
        """Every worker gets its points, and some units that it owns."""
        self.team.gather(self._settings, self.parts.dealt(self._X, labels, self.workers))
        del self._X
        bounds = np.linspace(0, self._settings.units, self.workers + 1).astype(int).tolist()
        self.team.call("meet", [(me, *bounds[me : me + 2]) for me in range(self.workers)])

    def everyone(self, method: str, *arguments: Any) -> list[Any]:
        """All workers get the same."""
        return self.team.call(method, [arguments] * self.workers)

    def by_part(self, method: str, *arguments: Any) -> dict[int, Any]:
        found: dict[int, Any] = {}
        for answer in self.everyone(method, *arguments):
            found |= answer
        return found

    def moments(self, indices: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """As `Observations.moments`."""
        chosen = np.arange(self.n_points) if indices is None else np.asarray(indices)
        found = self.by_part("sums", self.parts.places(chosen))
        sums = [found[part] for part in sorted(found)]
        return moments_of(
            np.sum([one for one, _ in sums], axis=0), np.sum([two for _, two in sums], axis=0), len(chosen)
        )

    def dense_rows(self, indices: np.ndarray, dtype: str) -> np.ndarray:
        """As `Observations.dense_rows`."""
        found = self.by_part("dense_rows", self.parts.places(indices), dtype)
        result = np.empty((len(indices), self.n_features), dtype)
        for part, rows in found.items():
            result[self.parts.of_row[indices] == part] = rows
        return result


class TeamEngine:
    """The weights that the workers have in common."""

    def __init__(
        self,
        spec: NetworkSpec,
        W: np.ndarray,
        R: np.ndarray,
        data: DataOfTeam,
        settings: TrainingSettings,
        rng: np.random.Generator,
    ) -> None:
        self._data, self._settings, self._rng = data, settings, rng
        self._truncated = settings.inference == "truncated"
        self._has_candidates = False
        data.everyone("start", spec, W, R)
        self.fetch()

    def fetch(self) -> None:
        """The weights as they are now; all workers have the same."""
        self._W, self._R = self._data.everyone("weights")[0]

    @property
    def W(self) -> np.ndarray:
        return self._W

    @property
    def R(self) -> np.ndarray:
        return self._R

    def set_weights(self, W: np.ndarray, R: np.ndarray) -> None:
        self._data.everyone("set_weights", W, R)
        self.fetch()

    def step(self, points: Points, labels: np.ndarray, *rates: Any, **more: Any) -> StepInfo:
        raise NotImplementedError("workers learn in rounds: see RoundsPhase")

    def prepare(self) -> None:
        """Candidates for all points, if there are none yet."""
        if self._truncated and not self._has_candidates:
            self._data.everyone("find_first_candidates")
            self._has_candidates = True
            self._data.everyone("end_pass")
            self._find_neighbours()

    def end_iteration(self, first_layer: bool = True) -> int:
        """Returns the bytes that all workers have received from each other meanwhile."""
        before, self._data.received = self._data.received, sum(self._data.everyone("end_pass"))
        if first_layer and self._truncated:
            self._find_neighbours()
        self.fetch()
        return self._data.received - before

    def _find_neighbours(self) -> None:
        for step in ("vote", "elect", "learn_neighbours"):
            self._data.everyone(step)

    def strangers(self, counts: dict[int, int]) -> dict[int, np.ndarray] | None:
        """For as many points of each part: those that one machine would draw for all of them."""
        if not self._truncated:
            return None
        G, numbers = self._settings.committee, [counts[part] for part in sorted(counts)]
        shape = (sum(numbers) * G, self._settings.truncated.strangers)
        drawn = self._rng.integers(self._settings.C, size=shape, dtype=np.int32)
        split = np.split(drawn, np.cumsum(numbers)[:-1] * G)
        return dict(zip(sorted(counts), split, strict=True))

    def settle(self) -> None:
        """One last search, as `TruncatedEngine` does it."""
        self.prepare()
        if self._truncated:
            parts = self._data.parts
            size = parts.block * parts.count
            for first in range(0, self._data.n_points, size):
                places = parts.places(np.arange(first, min(first + size, self._data.n_points)))
                strangers = self.strangers({part: len(found) for part, found in places.items()})
                self._data.everyone("search", places, strangers)

    def activities(self, data: Observations) -> sp.csr_array:
        raise NesiError(
            "The activities of all points are with the workers; with distribute: data nothing else needs them."
        )

    def state(self) -> dict[str, np.ndarray]:
        """As that of a single machine: any number of workers can go on from it."""
        if not self._truncated:
            return {}
        self.prepare()
        units = self._data.parts.whole(self._data.by_part("candidates"))
        return {"units": units, "neighbours": self._data.everyone("neighbours")[0]}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        if not self._truncated:
            return
        C, options, G = self._settings.C, self._settings.truncated, self._settings.committee
        shapes = {
            "units": (self._data.n_points, G * min(options.active, C)),
            "neighbours": (C * G, min(options.neighbours, C - 1)),
        }
        for name, shape in shapes.items():
            if name not in state or state[name].shape != shape:
                raise NesiError(
                    f"The saved candidates ({name}) do not belong to this network: start this run from scratch."
                )
        parts = self._data.parts
        of_parts = {part: np.ascontiguousarray(state["units"][parts.rows(part)]) for part in range(parts.count)}
        self._data.everyone("set_candidates", of_parts, state["neighbours"])
        self._has_candidates = True


class RoundsPhase:
    """One or both layers learn, in rounds: a mini-batch of every part at a time."""

    changes_likelihood = True

    def __init__(
        self, name: str, engine: TeamEngine, lesson: Lesson, data: DataOfTeam, shuffle: bool, rng: np.random.Generator
    ) -> None:
        self.name, self._engine, self._lesson, self._data = name, engine, lesson, data
        self._shuffle, self._rng = shuffle, rng
        self._learn = {"both": "WR", "first": "W", "second": "R"}[name]
        self.about: dict[str, Any] = {}
        self._rounds = self._received = 0

    @property
    def W(self) -> np.ndarray:
        return self._engine.W

    @property
    def R(self) -> np.ndarray:
        return self._engine.R

    @property
    def learning(self) -> list[np.ndarray]:
        return [{"W": self.W, "R": self.R}[layer] for layer in self._learn]

    def learn(self, batches: Iterable[np.ndarray]) -> PassResult:
        """The workers make mini-batches of their own points."""
        self._engine.prepare()
        parts, size = self._data.parts, self._lesson.batch_size
        seeds = {part: int(self._rng.integers(2**63)) for part in range(parts.count)} if self._shuffle else None
        self._data.everyone("begin_pass", size, seeds)
        left = {part: len(parts.rows(part)) for part in range(parts.count)}
        log_likelihood, self_labeled = 0.0, 0
        while any(left.values()):
            counts = {part: min(size, points) for part, points in left.items()}
            strangers = self._engine.strangers(counts) if "W" in self._learn else None
            rates = self._lesson.epsilon_W, self._lesson.epsilon_R
            answers = self._data.everyone("propose", self._learn, *rates, strangers)
            outcomes: list[Outcome] = [outcome for answer in answers for outcome in answer]
            self._data.everyone("merge")
            log_likelihood += sum(outcome.log_likelihood for outcome in sorted(outcomes))
            self_labeled += sum(outcome.self_labeled for outcome in outcomes)
            left = {part: points - counts[part] for part, points in left.items()}
            self._rounds += 1
        self._data.everyone("take_over")
        self._received += self._engine.end_iteration("W" in self._learn)
        self.about = {
            "distribute": {
                "parts": parts.count,
                "workers": self._data.workers,
                "bytes_per_round": round(self._received / self._rounds),
            }
        }
        return PassResult(self._likelihood(log_likelihood), self_labeled)

    def _likelihood(self, total: float) -> float:
        return total / self._data.n_points


class SecondLayerRounds(RoundsPhase):
    """The second layer learns from activities that the workers keep."""

    changes_likelihood = False

    def __init__(self, *given: Any, spec: NetworkSpec, log_likelihood: float) -> None:
        """`log_likelihood`: of the first layer, which does not change any more."""
        super().__init__("second", *given)
        self._last = log_likelihood
        self._data.everyone("start_second", spec)

    def _likelihood(self, total: float) -> float:
        return self._last


class SharedTrainer(Trainer):
    """A network that is trained by a team."""

    def __init__(self, *arguments: Any, team: Team, parts: int, **options: Any) -> None:
        self._team, self._parts = team, parts
        super().__init__(*arguments, **options)

    def _observed(self, X: Matrix) -> Any:
        return DataOfTeam(X, self.settings, self._team, self._parts)

    def _new_lesson(self, n_classes: int, data: Any, labels: np.ndarray, *rest: Any) -> Lesson:
        data.hand_out(labels)
        labels_mean, weights, seen = rest
        return Lesson(self.settings, n_classes, data, labels, labels_mean, weights, seen, data.parts.count)

    def _new_engine(self, W: np.ndarray, R: np.ndarray) -> Any:
        return TeamEngine(self._spec, W, R, self._data, self.settings, self._rng)

    @property
    def _data(self) -> DataOfTeam:
        data: Any = self._lesson.data
        return data

    def _new_phase(self) -> Phase:
        engine: Any = self._engine
        given = engine, self._lesson, self._data, self.settings.shuffle is not False, self._rng
        if self.phase == "second":
            return SecondLayerRounds(*given, spec=self._spec, log_likelihood=self._last_log_likelihood())
        return RoundsPhase(self.phase, *given)

    def _new_batches(self) -> Iterable[np.ndarray]:
        return ()
