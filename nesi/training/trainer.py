"""Training: iterations over the data, phases, stopping, history.

The loop is `for info in trainer`: one pass over the data at a time, so that whoever drives it can show progress,
save the state, or walk away and continue later.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from data_tools.dataset import Matrix
from nesi.engines.contract import LearningEngine
from nesi.engines.exact import ExactEngine
from nesi.engines.specification import NetworkSpec
from nesi.engines.truncated import TruncatedEngine
from nesi.errors import NesiError
from nesi.label_model import label_model, read_labels
from nesi.networks import get_network
from nesi.observations import Observations, checked_weights
from nesi.trained import TrainedNetwork
from nesi.training.failure import check_success
from nesi.training.initialization import Start, initial_weights, start_names
from nesi.training.learning_rates import Lesson
from nesi.training.order import in_batches, shuffled_in_blocks
from nesi.training.phases import BatchEMPhase, ClassLayerPhase, EnginePhase, Phase
from nesi.training.settings import TrainingSettings
from nesi.training.spreading import SpreadPhase, spread_start
from nesi.training.stopping import LikelihoodDrop, has_converged

State = dict[str, np.ndarray]


class IterationInfo(NamedTuple):
    iteration: int
    phase: str  # the layers that learned: "both", or in greedy training "first" and then "second"
    log_likelihood: float  # mean per point, eq. (loglikelihood), of each point just before it was learned from
    self_labeled: float  # share of the points that the network labeled itself
    seconds: float


class Trainer:
    """One network in training."""

    log_likelihood_at_start: float | None = None  # only where the authors' program is followed, which computes it

    def __init__(
        self,
        settings: TrainingSettings,
        X: Matrix,
        labels: Any,
        n_classes: int,
        rng: np.random.Generator,
        W_init: Start = None,
        R_init: Start = None,
        seen: tuple[float, float] | None = None,
        sample_weight: np.ndarray | None = None,
    ) -> None:
        """Labels are class numbers, or distributions over classes, one row per point (`nesi.label_model`).

        `seen`: the numbers of points and labels that N and L stand for, if X is only a part of the data.
        `sample_weight`: how often each point is to count, on average once.
        """
        self.settings, self._rng = settings, rng
        self._network = get_network(settings.network)
        data = self._observed(X)
        weights = None if sample_weight is None else checked_weights(sample_weight, data.n_points)
        of_classes = label_model(n_classes, settings.class_prior, settings.label_noise)
        numbers, classes, labels_mean = read_labels(labels, data.n_points, of_classes)
        if settings.training == "em" and not labels_mean.certain:
            raise NesiError("training is 'em', which is for labels that name a class for certain; use 'online'.")
        self._lesson = self._new_lesson(n_classes, data, numbers, labels_mean, weights, seen)
        self.starts = start_names(W_init, R_init, classes, n_classes, settings)
        self._about: dict[str, Any] = {}
        self._phase_ends: list[int] = []
        if settings.spread is not None and not settings.greedy:
            W, R, self._about = spread_start(settings, self._lesson, self._spec, n_classes, rng)
        else:
            W, R = initial_weights(W_init, R_init, data, classes, n_classes, settings, rng)
        self.iteration = 0
        self._ended_by: list[str] = []
        self._engine = self._new_engine(W, R)
        self._stopping = LikelihoodDrop(settings.stopping_width) if settings.stopping else None
        self.stopped_at: int | None = None
        self.converged_at: int | None = None
        self.history: dict[str, list[float]] = {"log_likelihood": [], "self_labeled": [], "seconds": []}
        self._phase = self._new_phase()

    def _observed(self, X: Matrix) -> Observations:
        return Observations(X, self.settings.A)

    def _new_lesson(self, n_classes: int, data: Observations, labels: np.ndarray, *rest: Any) -> Lesson:
        return Lesson(self.settings, n_classes, data, labels, *rest)

    @property
    def _spec(self) -> NetworkSpec:
        """While the layers of a recurrent network learn one by one, the first does not listen to the second."""
        network = self._network if self.phase == "both" else replace(self._network, recurrent=False)
        rule, dtype, backend = self.settings.minibatch_rule, self.settings.dtype, self.settings.backend
        sparse, labels_mean = self._lesson.data.sparse, self._lesson.labels_mean
        return NetworkSpec(network, rule, dtype, backend, sparse, self.settings.committee, labels_mean)

    def _new_engine(self, W: np.ndarray, R: np.ndarray) -> LearningEngine:
        if self.settings.inference == "exact":
            return self._exact_engine(W, R)
        A, threshold = self.settings.A, self.settings.threshold
        search, lesson = self.settings.truncated, self._lesson
        place = self.settings.candidates_in
        return TruncatedEngine(
            self._spec, W, R, A, threshold, lesson.data, lesson.labels, self._rng, search, candidates_in=place
        )

    def _exact_engine(self, W: np.ndarray, R: np.ndarray) -> ExactEngine:
        return ExactEngine(self._spec, W, R, self.settings.A, self.settings.threshold)

    def _new_phase(self) -> Phase:
        if self.phase == "second":
            last = self._last_log_likelihood()
            return ClassLayerPhase(self._engine, self._lesson, self._spec, self.settings.threshold, last)
        if self.phase == "spread":
            return SpreadPhase(self._engine, self._lesson, self.settings, self._rng, self._last_log_likelihood())
        if self.settings.training == "em":
            assert isinstance(self._engine, ExactEngine)
            return BatchEMPhase(self._engine, self._lesson, self.settings)
        return EnginePhase(self.phase, self._engine, self._lesson, self.settings.dtype)

    def _last_log_likelihood(self) -> float:
        known = self.history["log_likelihood"]
        return known[-1] if known else float("nan")

    # ---- what a driver looks at ------------------------------------------------------------------------------

    @property
    def W(self) -> np.ndarray:
        return self._phase.W

    @property
    def R(self) -> np.ndarray:
        return self._phase.R

    @property
    def batch_size(self) -> int:
        return self._lesson.batch_size

    @property
    def total_iterations(self) -> int:
        """At most; training that converges ends earlier."""
        return sum(self.settings.iterations_of(phase) for phase in self.settings.phases)

    @property
    def phase(self) -> str:
        """The layers that learn in the next iteration."""
        phases = self.settings.phases
        return phases[min(len(self._phase_ends), len(phases) - 1)]

    @property
    def finished(self) -> bool:
        return self.settings.iterations == 0 or len(self._phase_ends) == len(self.settings.phases)

    def __iter__(self) -> Iterator[IterationInfo]:
        while not self.finished:
            yield self.run_iteration()

    def trained(self) -> TrainedNetwork:
        """The network as it is now; later iterations do not change it."""
        W, R = (self.W, self.R) if self.finished else (self.W.copy(), self.R.copy())
        return TrainedNetwork.of(self.settings, W, R, self._spec.network)

    def activities(self) -> sp.csr_array:
        """T1.4 of all training points, without what is negligible; one row per point and member of the committee."""
        return self._engine.activities(self._lesson.data)

    def account(self) -> dict[str, Any]:
        """How it was trained, after everything automatic was resolved; for records."""
        starts = [0, *self._phase_ends]
        phases = [
            {"learning": name, "iterations": end - start, "ended_by": reason}
            for name, start, end, reason in zip(
                self.settings.phases, starts, self._phase_ends, self._ended_by, strict=False
            )
        ]
        account = {"batch_size": self.batch_size, "W_init": self.starts.W, "R_init": self.starts.R, "phases": phases}
        if self._shuffles_blocks:
            account["shuffle"] = "blocks"
        return account | self._about

    def training_log_likelihood(self) -> float:
        """The mean over the training points, with all that is known about their labels: to choose among starts."""
        each = self._exact_engine(self.W, self.R).posterior(self._lesson.data, self._lesson.labels).log_likelihood
        return float(np.average(each, weights=self._lesson.weights))

    # ---- learning ----------------------------------------------------------------------------------------------

    def run_iteration(self) -> IterationInfo:
        """One pass over the data, in a new random order."""
        started = time.perf_counter()
        phase = self._phase
        result = phase.learn(self._new_batches())
        self.iteration += 1
        self._about |= phase.about
        check_success(phase, result.log_likelihood, self.settings, self.batch_size, self.iteration)
        share = result.self_labeled / self._lesson.data.n_points
        seconds = time.perf_counter() - started
        info = IterationInfo(self.iteration, phase.name, result.log_likelihood, share, seconds)
        for name, values in self.history.items():
            values.append(getattr(info, name))
        if (reason := self._reason_to_end(phase, info)) is not None:
            self._end_phase(reason)
        return info

    def _new_batches(self) -> Iterable[np.ndarray]:
        """The indices of the points in every mini-batch of one pass."""
        data = self._lesson.data
        if self._shuffles_blocks:
            return in_batches(shuffled_in_blocks(data, self._rng), self.batch_size)
        order = self._rng.permutation(data.n_points) if self.settings.shuffle else np.arange(data.n_points)
        return [order[first : first + self.batch_size] for first in range(0, data.n_points, self.batch_size)]

    @property
    def _shuffles_blocks(self) -> bool:
        shuffle = self.settings.shuffle
        return shuffle == "blocks" or (shuffle is True and self._lesson.data.on_disk)

    def keep_first_layer(self) -> None:
        """Greedy training goes on with the second layer at once: W is as given and stays as it is."""
        if self.phase != "first":
            raise NesiError("Only greedy training can leave the first layer as it is: use greedy=True.")
        self._end_phase("taken over")

    def _reason_to_end(self, phase: Phase, info: IterationInfo) -> str | None:
        """What ends the phase after this iteration, if anything does."""
        settings, start = self.settings, self._phase_ends[-1] if self._phase_ends else 0
        if phase.changes_likelihood:
            if self._stopping is not None and self._stopping.update(
                self.iteration, info.log_likelihood, {"W": self.W, "R": self.R}
            ):
                self.stopped_at, weights = self._stopping.centre()
                self._engine.set_weights(weights["W"], weights["R"])
                return "stopping criterion"
            or_falls = self._stopping is None
            if settings.tolerance is not None and has_converged(self.history, settings.tolerance, start, or_falls):
                self.converged_at = self.iteration
                return "tolerance"
        return "iterations" if self.iteration - start >= settings.iterations_of(phase.name) else None

    def _end_phase(self, reason: str) -> None:
        W, R = self.W, self.R  # of the phase that ends
        self._phase_ends.append(self.iteration)
        self._ended_by.append(reason)
        if self.finished:
            return
        if self.phase in ("second", "spread"):
            self._engine.settle()
        else:  # a recurrent network whose layers have learned one by one
            self.stopped_at = self.converged_at = None
            state = self._engine.state()
            self._engine = self._new_engine(W, R)
            self._engine.restore(state)
        self._phase = self._new_phase()

    # ---- saving and continuing -------------------------------------------------------------------------------------

    def state(self) -> State:
        """All that is needed to continue bit for bit, as plain arrays."""
        state = {
            "W": self.W,
            "R": self.R,
            "iteration": np.asarray(self.iteration),
            "ends": np.asarray([-1 if end is None else end for end in (self.stopped_at, self.converged_at)]),
            "phase_ends": np.asarray(self._phase_ends, dtype=np.int64),
            "ended_by": _encoded(self._ended_by),
            "random_state": _encoded(self._rng.bit_generator.state),
            "about": _encoded(self._about),
        }
        state |= {f"history.{name}": np.asarray(values, np.float64) for name, values in self.history.items()}
        state |= {f"search.{name}": value for name, value in self._engine.state().items()}
        if self._stopping is not None:
            state |= {f"stopping.{name}": value for name, value in self._stopping.state().items()}
        return state

    def restore(self, state: State) -> None:
        """Continue from `state()`; everything is checked before anything is changed."""
        expected = {"W", "R", "iteration", "ends", "phase_ends", "random_state"}
        expected |= {f"history.{name}" for name in self.history}
        if missing := expected - set(state):
            raise NesiError(f"The saved state lacks {', '.join(sorted(missing))}: start this run from scratch.")
        for name, current in (("W", self.W), ("R", self.R)):
            if state[name].shape != current.shape or state[name].dtype != current.dtype:
                raise NesiError(
                    f"The saved {name} is {state[name].dtype}{state[name].shape}, but this network has "
                    f"{current.dtype}{current.shape}: continue with the settings it was saved with."
                )
        random_state = _decoded_random_state(state["random_state"], self._rng)
        search = _part(state, "search.")
        self._engine.restore(search)
        self._phase_ends = [int(end) for end in state["phase_ends"]]
        # Earlier versions did not say what ended a phase.
        self._ended_by = _decoded(state.get("ended_by", _encoded([])))
        self._about = _decoded(state.get("about", _encoded({})))
        self._ended_by += ["unknown"] * (len(self._phase_ends) - len(self._ended_by))
        self.iteration = int(state["iteration"])
        self.stopped_at, self.converged_at = (None if end < 0 else int(end) for end in state["ends"])
        self._engine = self._new_engine(state["W"], state["R"])
        self._engine.restore(search)
        self._rng.bit_generator.state = random_state
        self.history = {name: state[f"history.{name}"].tolist() for name in self.history}
        if self._stopping is not None:
            self._stopping = LikelihoodDrop(self.settings.stopping_width)
            self._stopping.restore(_part(state, "stopping."))
        self._phase = self._new_phase()


# ---- helpers ---------------------------------------------------------------------------------------------------------


def _part(state: State, prefix: str) -> State:
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}


def _encoded(value: Any) -> np.ndarray:
    return np.frombuffer(json.dumps(value).encode(), dtype=np.uint8)


def _decoded(encoded: np.ndarray) -> Any:
    return json.loads(bytes(encoded).decode())


def _decoded_random_state(encoded: np.ndarray, rng: np.random.Generator) -> dict[str, Any]:
    try:
        state = _decoded(encoded)
    except ValueError as error:
        raise NesiError("The saved random state is damaged: start this run from scratch.") from error
    if not isinstance(state, dict) or state.get("bit_generator") != rng.bit_generator.state["bit_generator"]:
        raise NesiError("The saved random state belongs to another kind of generator: start this run from scratch.")
    return state
