"""One first layer, several class layers: the feedforward networks of a run, trained together.

Both layers learn at once, as in the paper. A first layer that no label has a say in is the same for ff and ff+ and for
every number of labels, so that the price of one training pays for a whole half of a table. A network that is trained
alone is computed by the same functions, and is the same number for number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nesi.engines.class_layers import ClassLayer
from nesi.engines.exact import ExactEngine
from nesi.engines.specification import NetworkSpec
from nesi.label_model import label_model
from nesi.networks import get_network
from nesi.training.learning_rates import Lesson
from nesi.training.phases import EnginePhase, PassResult, Phase
from nesi.training.settings import TrainingSettings
from nesi.training.trainer import IterationInfo, State, Trainer


@dataclass
class Companion:
    """The class layer of another network, which learns beside the one that is trained."""

    settings: TrainingSettings
    lesson: Lesson
    layer: ClassLayer
    history: dict[str, list[float]] = field(default_factory=dict)
    last: PassResult | None = None


class ClassLayersPhase(EnginePhase):
    """The first layer learns, and so do the class layers on top of it."""

    def __init__(
        self,
        engine: ExactEngine,
        lesson: Lesson,
        spec: NetworkSpec,
        settings: TrainingSettings,
        companions: dict[str, Companion],
    ) -> None:
        super().__init__("both", engine, lesson, settings.dtype)
        self._exact, self._companions = engine, companions
        self._layer = ClassLayer(spec, engine.R, settings.threshold)

    @property
    def R(self) -> np.ndarray:
        return self._layer.R

    @property
    def learning(self) -> list[np.ndarray]:
        return [self.W, self.R, *(companion.layer.R for companion in self._companions.values())]

    def learn(self, batches: Iterable[np.ndarray]) -> PassResult:
        data, others = self._lesson.data, list(self._companions.values())
        layers = [(self._lesson, self._layer), *((other.lesson, other.layer) for other in others)]
        log_likelihood, self_labeled = np.zeros(len(layers)), np.zeros(len(layers), dtype=np.int64)
        for batch in batches:
            points = data.take(batch, self._dtype)
            activities = self._exact.first_layer_step(points, self._lesson.rates_W(batch))
            for i, (lesson, layer) in enumerate(layers):
                step = layer.step(activities, lesson.labels[batch], lesson.rates_R(batch))
                log_likelihood[i] += float((step.log_likelihood - data.log_gamma[batch]).sum())
                self_labeled[i] += step.self_labeled
        self._engine.end_iteration()
        results = [
            PassResult(float(total) / data.n_points, int(count))
            for total, count in zip(log_likelihood, self_labeled, strict=True)
        ]
        for companion, result in zip(others, results[1:], strict=True):
            companion.last = result
        return results[0]


class SideBySideTrainer(Trainer):
    """A feedforward network in training, and the class layers of others beside it."""

    _engine: ExactEngine  # class layers learn from full posteriors

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.companions: dict[str, Companion] = {}
        super().__init__(*arguments, **options)

    def add_companion(self, name: str, settings: TrainingSettings, labels: np.ndarray) -> None:
        """Another network with the same first layer; before the first iteration."""
        K, data = len(self.R), self._lesson.data
        meaning = label_model(K, settings.class_prior, settings.label_noise)
        lesson = Lesson(settings, K, data, labels, meaning, None, None)
        spec = self._spec._replace(network=get_network(settings.network), label_model=meaning)
        uniform = np.full(self.R.shape, 1 / self.R.shape[1])
        layer = ClassLayer(spec, uniform, settings.threshold)
        self.companions[name] = Companion(settings, lesson, layer, {key: [] for key in self.history})

    def _new_engine(self, W: np.ndarray, R: np.ndarray) -> ExactEngine:
        return self._exact_engine(W, R)

    def _new_phase(self) -> Phase:
        return ClassLayersPhase(self._engine, self._lesson, self._spec, self.settings, self.companions)

    def run_iteration(self) -> IterationInfo:
        info = super().run_iteration()
        n_points = self._lesson.data.n_points
        for companion in self.companions.values():
            assert companion.last is not None
            companion.history["log_likelihood"].append(companion.last.log_likelihood)
            companion.history["self_labeled"].append(companion.last.self_labeled / n_points)
            companion.history["seconds"].append(info.seconds)
        return info

    # ---- saving and continuing -----------------------------------------------------------------------------------

    def is_done(self, name: str) -> bool:
        return self.iteration >= self.companions[name].settings.iterations

    def state_of(self, name: str) -> State:
        """What a trainer of that network alone would have saved now."""
        companion, done = self.companions[name], self.is_done(name)
        state = super().state() | {
            "R": companion.layer.R,
            "phase_ends": np.asarray([self.iteration] if done else [], dtype=np.int64),
            "ended_by": np.frombuffer(json.dumps(["iterations"] if done else []).encode(), dtype=np.uint8),
        }
        return state | {f"history.{key}": np.asarray(values, np.float64) for key, values in companion.history.items()}

    def state(self) -> State:
        state = super().state()
        for name, companion in self.companions.items():
            state[f"beside.{name}.R"] = companion.layer.R
            for key, values in companion.history.items():
                state[f"beside.{name}.history.{key}"] = np.asarray(values, np.float64)
        return state

    def restore(self, state: State) -> None:
        """Companions that the state does not know are left out: they are not as far as this network."""
        super().restore({key: value for key, value in state.items() if not key.startswith("beside.")})
        for name in list(self.companions):
            if (R := state.get(f"beside.{name}.R")) is None:
                del self.companions[name]
                continue
            companion = self.companions[name]
            companion.layer = ClassLayer(companion.layer.spec, R, companion.settings.threshold)
            for key in companion.history:
                companion.history[key] = state[f"beside.{name}.history.{key}"].tolist()
