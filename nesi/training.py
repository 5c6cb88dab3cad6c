"""Training: learning rates, iterations over the data, mini-batches, stopping, history.

The loop is `for info in trainer`: one pass over the data at a time, so that whoever drives it can show progress,
save the state, or walk away and continue later.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from nesi.engines.exact import ExactEngine
from nesi.engines.kinds import Kind
from nesi.engines.quick_inference import QuickInference
from nesi.engines.second_layer import SecondLayer
from nesi.engines.truncated import TruncatedEngine
from nesi.errors import NesiError, TrainingFailed
from nesi.field_labels import R_by_hard_max
from nesi.inference import infer, infer_in_chunks
from nesi.initialization import initial_weights
from nesi.label_model import checked_labels, label_model, read_labels
from nesi.learning_rates import Lesson
from nesi.networks import get_network
from nesi.observations import Observations, SparseRows, checked_weights
from nesi.settings import TrainingSettings
from nesi.stopping import LikelihoodDrop, has_converged

# Activities below this are left out of the cache of greedy training: together they are less than rounding errors.
_NEGLIGIBLE = {"float32": 1e-7, "float64": 1e-14}


class IterationInfo(NamedTuple):
    iteration: int
    phase: str  # the layers that learned: "both", or in greedy training "first" and then "second"
    log_likelihood: float  # mean per point, eq. (loglikelihood), of each point just before it was learned from
    self_labeled: float  # share of the points that the network labeled itself
    seconds: float


class Trainer:
    """One network in training."""

    def __init__(
        self,
        settings: TrainingSettings,
        X: Any,
        labels: Any,
        n_classes: int,
        rng: np.random.Generator,
        W_init: Any = None,
        R_init: Any = None,
        seen: tuple[float, float] | None = None,
        sample_weight: np.ndarray | None = None,
    ) -> None:
        """Labels are class numbers, or distributions over classes, one row per point (`nesi.label_model`).

        `seen`: the numbers of points and labels that N and L stand for, if X is only a part of the data.
        `sample_weight`: how often each point is to count, on average once.
        """
        self.settings, self._rng = settings, rng
        self._data = Observations(X, settings.A)
        self._weights = None if sample_weight is None else checked_weights(sample_weight, self._data.n_points)
        self._label_model = label_model(n_classes, settings.class_prior, settings.label_noise)
        self._labels, classes, self._labels_mean = read_labels(labels, self._data.n_points, self._label_model)
        self._network = get_network(settings.network)
        lesson = Lesson(settings, n_classes, self._labels, self._labels_mean, self._weights, seen)
        self._epsilon_W, self._epsilon_R = lesson.epsilon_W, lesson.epsilon_R
        self.batch_size = lesson.batch_size()
        C, K, dtype = settings.C, n_classes, settings.dtype
        overcomplete_start = "points" if settings.inference == "truncated" else "data"
        places = (C, K, rng, dtype, overcomplete_start, settings.committee)
        W, R = initial_weights(W_init, R_init, self._data, classes, *places)
        self.iteration = 0
        self._phase_ends: list[int] = []
        self._engine = self._new_engine(W, R)
        self._second_layer: SecondLayer | None = None
        self._stopping = LikelihoodDrop(settings.stopping_width) if settings.stopping else None
        self.stopped_at: int | None = None
        self.converged_at: int | None = None
        self.history: dict[str, list[float]] = {"log_likelihood": [], "self_labeled": [], "seconds": []}

    @property
    def _kind(self) -> Kind:
        """While the layers of a recurrent network learn one by one, the first does not listen to the second."""
        network = self._network if self.phase == "both" else replace(self._network, recurrent=False)
        rule, dtype, backend = self.settings.minibatch_rule, self.settings.dtype, self.settings.backend
        return Kind(network, rule, dtype, backend, self._data.sparse, self.settings.committee, self._labels_mean)

    def _new_engine(self, W: np.ndarray, R: np.ndarray) -> ExactEngine | TruncatedEngine:
        A, threshold = self.settings.A, self.settings.threshold
        if self.settings.inference == "exact":
            return ExactEngine(self._kind, W, R, A, threshold)
        search = self.settings.truncated
        return TruncatedEngine(self._kind, W, R, A, threshold, self._data, self._labels, self._rng, search)

    # ---- what a driver looks at ------------------------------------------------------------------------------

    @property
    def W(self) -> np.ndarray:
        return self._engine.W

    @property
    def R(self) -> np.ndarray:
        return self._engine.R if self._second_layer is None else self._second_layer.R

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

    # ---- learning ----------------------------------------------------------------------------------------------

    def run_iteration(self) -> IterationInfo:
        """One pass over the data, in a new random order."""
        started = time.perf_counter()
        phase = self.phase
        n_points = self._data.n_points
        batches = self._new_batches()
        if phase == "second":
            log_likelihood, self_labeled = self._learn_second_layer(batches)
        else:
            log_likelihood, self_labeled = self._learn(batches, learn="WR" if phase == "both" else "W")
            self._engine.end_iteration()
        self.iteration += 1
        self._check_weights(phase)
        info = IterationInfo(
            self.iteration, phase, log_likelihood, self_labeled / n_points, time.perf_counter() - started
        )
        for name, values in self.history.items():
            values.append(getattr(info, name))
        if self._phase_is_over(info):
            self._end_phase()
        return info

    def _new_batches(self) -> list[np.ndarray]:
        """The indices of the points in every mini-batch of one pass."""
        n_points = self._data.n_points
        order = self._rng.permutation(n_points) if self.settings.shuffle else np.arange(n_points)
        return [order[first : first + self.batch_size] for first in range(0, n_points, self.batch_size)]

    def _learn(self, batches: list[np.ndarray], learn: str) -> tuple[float, int]:
        log_likelihood, self_labeled = 0.0, 0
        for batch in batches:
            rates_W, rates_R = self._rates(self._epsilon_W, batch), self._rates(self._epsilon_R, batch)
            points = self._data.take(batch, self.settings.dtype)
            step = self._engine.step(points, self._labels[batch], rates_W, rates_R, learn, batch)
            each = step.log_likelihood - self._data.log_gamma[batch]
            log_likelihood += float(each.sum() if self._weights is None else each @ self._weights[batch])
            self_labeled += step.self_labeled
        return log_likelihood / (self._data.n_points if self._weights is None else self._weights.sum()), self_labeled

    def _rates(self, epsilon: float, batch: np.ndarray) -> np.ndarray:
        """A point of weight w is learned from as if it were there w times, one after the other or all at once."""
        if self._weights is None:
            return np.full(len(batch), epsilon)
        weights = self._weights[batch]
        return epsilon * weights if self.settings.minibatch_rule == "summed" else 1 - (1 - epsilon) ** weights

    def _learn_second_layer(self, batches: list[np.ndarray]) -> tuple[float, int]:
        """The first layer is done: its likelihood with a uniform prior over units does not change any more."""
        if self._second_layer is None:
            self._second_layer = SecondLayer(self._kind, self._engine.R, self.settings.threshold)
            self._cached = self.activities()
        self_labeled = 0
        for batch in batches:
            rows = self._cached[(batch[:, None] * self.settings.committee + np.arange(self.settings.committee)).ravel()]
            activities = SparseRows(rows.data, rows.indices.astype(np.int64), rows.indptr.astype(np.int64))
            rates = self._rates(self._epsilon_R, batch)
            self_labeled += self._second_layer.step(activities, self._labels[batch], rates)
        return self.history["log_likelihood"][-1] if self.history["log_likelihood"] else np.nan, self_labeled

    def keep_first_layer(self) -> None:
        """Greedy training goes on with the second layer at once: W is as given and stays as it is."""
        if self.phase != "first":
            raise NesiError("Only greedy training can leave the first layer as it is: use greedy=True.")
        self._end_phase()

    def activities(self) -> sp.csr_array:
        """T1.4 of all training points, without what is negligible; one row per point and member of the committee."""
        committee, units = self.settings.committee, self.settings.units
        if isinstance(self._engine, TruncatedEngine):
            found = self._engine.candidates(np.arange(self._data.n_points), search=False)
            starts = np.arange(len(found.units) + 1) * found.units.shape[1]
            return sp.csr_array((found.s.ravel(), found.units.ravel(), starts), shape=(len(starts) - 1, units))
        parts = []
        for _, inference in infer_in_chunks(self._engine, self._data, None, self.settings):
            s = inference.s.reshape(len(inference.s) * committee, -1)
            s[s < _NEGLIGIBLE[self.settings.dtype]] = 0
            parts.append(sp.csr_array(s / s.sum(axis=1, keepdims=True)))
        rows = sp.csr_array(sp.vstack(parts))
        member = np.repeat(np.arange(rows.shape[0]) % committee, np.diff(rows.indptr))
        columns = rows.indices + self.settings.C * member  # every member's units come after those of the one before
        return sp.csr_array((rows.data, columns, rows.indptr), shape=(rows.shape[0], units))

    def assign_hard_classes(self) -> None:
        """Replace what the second layer has learned: every field gets one class and no more (Section 4.5)."""
        if self._network.recurrent:
            raise NesiError(f"hard max is for feedforward networks, but the network is {self.settings.network}.")
        R = R_by_hard_max(self.activities(), self._labels, len(self.R))
        self._engine.set_weights(self.W, R)
        self._second_layer = None

    def _phase_is_over(self, info: IterationInfo) -> bool:
        """Early stopping and convergence are matters of the likelihood, which the second layer alone can't change."""
        settings, start = self.settings, self._phase_ends[-1] if self._phase_ends else 0
        if info.phase != "second":
            if self._stopping is not None and self._stopping.update(
                self.iteration, info.log_likelihood, {"W": self.W, "R": self.R}
            ):
                self.stopped_at, weights = self._stopping.centre()
                self._engine.set_weights(weights["W"], weights["R"])
                return True
            or_falls = self._stopping is None
            if settings.tolerance is not None and has_converged(self.history, settings.tolerance, start, or_falls):
                self.converged_at = self.iteration
                return True
        return self.iteration - start >= settings.iterations_of(info.phase)

    def _end_phase(self) -> None:
        self._phase_ends.append(self.iteration)
        if self.phase == "second" and not self.finished and isinstance(self._engine, TruncatedEngine):
            self._engine.candidates(np.arange(self._data.n_points))  # one last search with the final weights
        if self.phase == "both" and not self.finished:  # a recurrent network whose layers have learned one by one
            self.stopped_at = self.converged_at = None
            W, R, search = self.W, self.R, self._engine.search_state()
            self._second_layer = None
            self._engine = self._new_engine(W, R)
            self._engine.restore_search(search)

    def _check_weights(self, phase: str) -> None:
        learned = {"first": [self.W], "second": [self.R], "both": [self.W, self.R]}[phase]
        if all(weights.min() >= 0 and weights.max() < np.inf for weights in learned):  # neither holds for nan
            return
        raise TrainingFailed(
            f"Training failed in iteration {self.iteration}: the weights are no longer finite and non-negative. "
            "The learning rate was too high for the size of the mini-batches: use minibatch_rule='sequential', "
            f"a batch_size below {self.batch_size}, or smaller learning rates."
        )

    # ---- inference -----------------------------------------------------------------------------------------------

    def posterior(self, X: Any) -> np.ndarray:
        """p(k|y) of new points, T1.6 without labels."""
        data = Observations(X, self.settings.A)
        if self.settings.test_inference == "truncated":
            quick = QuickInference(self._kind, self.W, self.R, self.settings.A, self.settings.truncated.active)
            return quick.posterior(data)[0]
        return infer(self._inference_engine(), data, self.settings)[0]

    def log_likelihood(self, X: Any, labels: Any = None) -> np.ndarray:
        """Eq. (loglikelihood) of every point."""
        data = Observations(X, self.settings.A)
        known = None if labels is None else checked_labels(labels, data.n_points, len(self.R))
        return infer(self._inference_engine(), data, self.settings, known)[1]

    def training_log_likelihood(self) -> float:
        """The same of the training data with all that is known about its labels, the mean over points."""
        engine = ExactEngine(self._kind, self.W, self.R, self.settings.A, self.settings.threshold)
        each = infer(engine, self._data, self.settings, self._labels)[1]
        return float(np.average(each, weights=self._weights))

    def _inference_engine(self) -> ExactEngine:
        hard_labels = self._labels_mean is self._label_model
        if isinstance(self._engine, ExactEngine) and self._second_layer is None and hard_labels:
            return self._engine
        kind = self._kind._replace(label_model=self._label_model)
        return ExactEngine(kind, self.W, self.R, self.settings.A, self.settings.threshold)

    # ---- saving and continuing -------------------------------------------------------------------------------------

    def state(self) -> dict[str, np.ndarray]:
        """All that is needed to continue bit for bit, as plain arrays."""
        state = {
            "W": self.W,
            "R": self.R,
            "iteration": np.asarray(self.iteration),
            "ends": np.asarray([-1 if end is None else end for end in (self.stopped_at, self.converged_at)]),
            "phase_ends": np.asarray(self._phase_ends, dtype=np.int64),
            "random_state": np.frombuffer(json.dumps(self._rng.bit_generator.state).encode(), dtype=np.uint8),
        }
        state |= {f"history.{name}": np.asarray(values, np.float64) for name, values in self.history.items()}
        state |= {f"search.{name}": value for name, value in self._engine.search_state().items()}
        if self._stopping is not None:
            state |= {f"stopping.{name}": value for name, value in self._stopping.state().items()}
        return state

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Continue from `state()`; everything is checked before anything is changed."""
        expected = {"W", "R", "iteration", "ends", "phase_ends", "random_state"}
        expected |= {f"history.{name}" for name in self.history}
        if missing := expected - set(state):
            raise NesiError(f"The saved state lacks {', '.join(sorted(missing))}: start this run anew.")
        for name, current in (("W", self.W), ("R", self.R)):
            if state[name].shape != current.shape or state[name].dtype != current.dtype:
                raise NesiError(
                    f"The saved {name} is {state[name].dtype}{state[name].shape}, but this network has "
                    f"{current.dtype}{current.shape}: continue with the settings it was saved with."
                )
        random_state = _decoded_random_state(state["random_state"], self._rng)
        search = _part(state, "search.")
        self._engine.restore_search(search)
        self._phase_ends = [int(end) for end in state["phase_ends"]]
        self.iteration = int(state["iteration"])
        self.stopped_at, self.converged_at = (None if end < 0 else int(end) for end in state["ends"])
        self._second_layer = None
        self._engine = self._new_engine(state["W"], state["R"])
        self._engine.restore_search(search)
        self._rng.bit_generator.state = random_state
        self.history = {name: state[f"history.{name}"].tolist() for name in self.history}
        if self._stopping is not None:
            self._stopping = LikelihoodDrop(self.settings.stopping_width)
            self._stopping.restore(_part(state, "stopping."))


# ---- helpers ---------------------------------------------------------------------------------------------------------


def _part(state: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}


def _decoded_random_state(encoded: np.ndarray, rng: np.random.Generator) -> dict[str, Any]:
    try:
        state = json.loads(bytes(encoded).decode())
    except ValueError as error:
        raise NesiError("The saved random state is damaged: start this run anew.") from error
    if not isinstance(state, dict) or state.get("bit_generator") != rng.bit_generator.state["bit_generator"]:
        raise NesiError("The saved random state belongs to another kind of generator: start this run anew.")
    return state
