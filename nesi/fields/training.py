"""Training with labels for fields (Section 4.5, Appendix B.3): learn without classes, ask, go on with the answers.

First the network learns without any label, with t_k = 1/K for every point: then all rows of R are the same and hold
p(c|R). A network with a single class of which every point is a member does exactly that (t = 1 and the learning rate
eps_R K/N with K = 1, instead of t = 1/K and K classes), so no equation has to be written again.

Then somebody is asked for the classes of some fields, R is set accordingly, and networks with self-labeling go on
learning from there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from nesi.errors import NesiError
from nesi.fields.choice import FieldMap, choose_field
from nesi.fields.labels import (
    Answers,
    R_from_answers,
    class_beliefs,
    given_answers,
    oracle_answers,
    without_classes,
)
from nesi.labels import UNLABELED
from nesi.networks import get_network
from nesi.trained import TrainedNetwork
from nesi.training.initialization import Start
from nesi.training.settings import TrainingSettings
from nesi.training.trainer import IterationInfo, Trainer

Ask = Callable[[np.ndarray, sp.csr_array], tuple[np.ndarray, Answers]]  # (R, s) -> the fields asked, the answers


@dataclass(frozen=True)
class OracleSurvey:
    """Ask the oracle about a number of fields; every question counts, whatever the answer."""

    labels: np.ndarray
    fields: int
    choose: str
    soft: bool
    rng: np.random.Generator

    def __call__(self, R: np.ndarray, activities: sp.csr_array) -> tuple[np.ndarray, Answers]:
        n_classes, n_fields = R.shape
        oracle = oracle_answers(activities, self.labels, n_classes, self.soft)
        order = self.rng.permutation(n_fields)
        if self.choose == "random":
            asked = order[: self.fields]
            return asked, given_answers(oracle, asked)
        return most_informative(FieldMap(activities), class_beliefs(R), oracle, order, self.fields)


def most_informative(
    field_map: FieldMap, known: np.ndarray, oracle: Answers, order: np.ndarray, fields: int
) -> tuple[np.ndarray, Answers]:
    """One field after the other, each chosen with the answers so far in mind."""
    asked: list[int] = []
    answers: Answers = {}
    while len(asked) < fields:
        gains = field_map.outlook(known, answers, np.array(asked, dtype=np.int64)).gains
        field = choose_field("informative", gains, order, np.array(asked, dtype=np.int64))
        if field is None:
            break
        asked.append(field)
        answers |= given_answers(oracle, [field])
    return np.array(asked, dtype=np.int64), answers


class FieldLabelTrainer:
    """A network in training that gets labels for some of its fields on the way; driven as `Trainer` is."""

    log_likelihood_at_start: float | None = None

    def __init__(
        self,
        settings: TrainingSettings,
        X: Any,
        n_classes: int,
        rng: np.random.Generator,
        ask: Ask | None,
        W_init: Start = None,
        spread: bool = False,
    ) -> None:
        """Without `ask` training ends when there is something to ask about; `spread`: see `FieldMap.spread`."""
        self._spread = spread
        self.settings, self._X, self._K, self._rng, self._ask = settings, X, n_classes, rng, ask
        # Without classes r+ is the same as r: there is nothing to label points with.
        network = get_network(settings.network)
        blind = settings.changed(network="r" if network.recurrent else "ff", greedy=False, spread=None, stopping=False)
        if settings.network == "ff":  # does not use p(c|R): only its first layer is trained (Section 4.5)
            blind = blind.changed(epsilon_R=0.0)
        one_class = np.zeros(X.shape[0], dtype=np.int64)
        self._stage = Trainer(blind, X, one_class, n_classes=1, rng=rng, W_init=W_init)
        self._history_before: dict[str, list[float]] = {name: [] for name in self._stage.history}
        self.asked: np.ndarray | None = None  # None as long as nobody was asked
        self.answers: Answers = {}
        self._account_before: dict[str, Any] | None = None  # of the stage without classes, when it is over

    @property
    def W(self) -> np.ndarray:
        return self._stage.W

    @property
    def R(self) -> np.ndarray:
        return self._stage.R if self.asked is not None else without_classes(self._stage.R, self._K)

    @property
    def iteration(self) -> int:
        return len(self._history_before["seconds"]) + self._stage.iteration

    def account(self) -> dict[str, Any]:
        """See `Trainer.account`: where it started, and the phases before and after the answers."""
        now = self._stage.account()
        return (
            now
            if self._account_before is None
            else {**self._account_before, "phases": [*self._account_before["phases"], *now["phases"]]}
        )

    @property
    def phase(self) -> str:
        return self._stage.phase

    @property
    def stopped_at(self) -> int | None:
        return self._counted_from_the_start(self._stage.stopped_at)

    @property
    def converged_at(self) -> int | None:
        return self._counted_from_the_start(self._stage.converged_at)

    def _counted_from_the_start(self, iteration: int | None) -> int | None:
        return None if iteration is None else len(self._history_before["seconds"]) + iteration

    @property
    def history(self) -> dict[str, list[float]]:
        return {name: before + self._stage.history[name] for name, before in self._history_before.items()}

    @property
    def finished(self) -> bool:
        return self.asked is not None and self._stage.finished

    def __iter__(self) -> Iterator[IterationInfo]:
        while not self.finished:
            info = self._stage.run_iteration()
            info = info._replace(iteration=self.iteration)
            if self.asked is None and self._stage.finished:
                self._give_classes()
            yield info

    def _give_classes(self) -> None:
        R = self.R
        activities = self._stage.activities()
        asked, answers = self._ask(R, activities) if self._ask else (np.empty(0, np.int64), {})
        before, self._history_before = self.W, self.history
        self._account_before = self._stage.account()
        self.asked, self.answers = np.asarray(asked, dtype=np.int64), answers
        given = FieldMap(activities).spread(class_beliefs(R), answers) if self._spread and answers else answers
        self._stage = with_answers(self.settings, self._X, before, R, given, self._rng)

    def activities(self) -> sp.csr_array:
        """s of all training points."""
        return self._stage.activities()

    def trained(self) -> TrainedNetwork:
        return self._stage.trained()

    def state(self) -> dict[str, np.ndarray]:
        state = self._stage.state() | {"fields.stage": np.asarray(0 if self.asked is None else 1)}
        if self.asked is None:
            return state
        fields = np.fromiter(self.answers, dtype=np.int64, count=len(self.answers))
        given = np.array(list(self.answers.values())).reshape(len(fields), self._K)
        state |= {"fields.asked": self.asked, "fields.answered": fields, "fields.answers": given}
        state["fields.account"] = np.frombuffer(json.dumps(self._account_before).encode(), dtype=np.uint8)
        return state | {f"fields.history.{name}": np.array(past) for name, past in self._history_before.items()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        of_stage = {name: value for name, value in state.items() if not name.startswith("fields.")}
        if "fields.stage" not in state:
            raise NesiError("The saved state is not from training with labels for fields: start this run from scratch.")
        if not int(state["fields.stage"]):
            return self._stage.restore(of_stage)
        fields, given = state["fields.answered"], state["fields.answers"]
        answers = {int(field): answer for field, answer in zip(fields, given, strict=True)}
        stage = with_answers(self.settings, self._X, state["W"], state["R"], answers, self._rng)
        stage.restore(of_stage)
        self._stage, self.asked, self.answers = stage, state["fields.asked"], answers
        account = bytes(state.get("fields.account", np.frombuffer(b"null", np.uint8))).decode()
        self._account_before = json.loads(account)  # earlier versions did not keep it
        self._history_before = {name: state[f"fields.history.{name}"].tolist() for name in self._history_before}
        return None


def with_answers(
    settings: TrainingSettings,
    X: Any,
    W: np.ndarray,
    R: np.ndarray,
    answers: Answers,
    rng: np.random.Generator,
    labels: np.ndarray | None = None,
) -> Trainer:
    """The network with the classes of some of its fields set, ready to go on with self-labeling, if it does any.

    `labels`: of points, where the network has been trained with some.
    """
    goes_on = get_network(settings.network).self_labeling and bool(answers)
    changes: dict[str, Any] = {}
    if not goes_on:
        changes = {"iterations": 0, "stopping": False, "greedy": False, "spread": None}
    elif not settings.greedy:  # the likelihood hardly rises before self-labeling has taken off: no reason to end
        changes = {"tolerance": None}
    labels = np.full(X.shape[0], UNLABELED) if labels is None else labels
    trainer = Trainer(settings.changed(**changes), X, labels, len(R), rng, W_init=W, R_init=R_from_answers(R, answers))
    if trainer.settings.greedy:
        trainer.keep_first_layer()
    return trainer
