"""`NeSiClassifier`: the four networks as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from tqdm import tqdm

from nesi.automatic import Facts
from nesi.errors import NesiError
from nesi.estimator.answers import Answers
from nesi.estimator.automatic import chooses_all, chosen_parameters, standard_parameters, standard_units
from nesi.estimator.files import OnDisk
from nesi.estimator.inputs import (
    are_soft,
    as_float,
    check_count,
    check_units,
    checked_classes,
    class_indices,
    generator,
    points_and_labels,
    soft_labels,
    split_labels,
    starting_points,
    weighted,
    without_empty,
)
from nesi.label_model import label_model, soft_label_model
from nesi.labels import UNLABELED
from nesi.observations import suggested_normalization
from nesi.spreading.spread import spreading_advice
from nesi.training.initialization import Start, resolved_start
from nesi.training.settings import EstimatorSettings, TrainingSettings
from nesi.training.stopping import longer_or_faster, self_labeling_advice
from nesi.training.trainer import Trainer


class NeSiClassifier(Answers, OnDisk, BaseEstimator):
    """Neural Simpletron: a generative network that learns from many points and few labels.

    Parameters
    ----------
    n_subclasses : units of the first hidden layer, C. In a committee: of each member. By default, or if it is "auto",
        the number of units and every other parameter that is None are chosen from the kind of data and the numbers of
        points, inputs and labels; `choices_` has them with their reasons. If a number is given, what is None has the
        value in brackets below, and "auto" chooses it (but for spread and W_init, where "auto" is a value).
    normalization : the constant A > n_features to which each point is normalised [15 % above n_features, and at least
        100 above]. Features that become two inputs count twice (signed).
    network : "ff", "r", "ff+" or "r+": feedforward or recurrent, "+" with self-labeling ["ff+"].
    epsilon_w, epsilon_r : learning rates, as the paper's factors x C/N and x K/L (x K/N with self-labeling) [0.2].
    threshold : certainty (best versus second best) above which a network with self-labeling trusts itself.
    max_iter : iterations (passes over the data), at most [100].
    n_init : number of random starts [1]; fit trains a network from each and keeps the one with the highest likelihood,
        or, if labels spread over units, the one with the least energy (docs/few-labels.md).
    batch_size : points per update; by default as many as the learning rates allow, at most 1000.
    minibatch_rule : "sequential" (stable for any batch) or "summed" (the paper's formula, number for number).
    inference : "exact", or "truncated", which looks at a few units per point only: the choice for many units ["exact"].
    predict_inference : the same for predict and predict_proba; "truncated" pays off for very many points.
    truncated : how many units truncated inference looks at, e.g. {"active": 10, "neighbours": 8}; with
        {"start": "walk"} the first of them are found in a fraction of the time, for millions of points.
    candidates_in : "memory", or a temporary "file" for these units (40 bytes per point).
    backend : "numba", "c" or "jax".
    dtype : "float32" or "float64".
    shuffle : present the points in a new random order in every pass; of data on disk, or with "blocks", in blocks of
        neighbouring points.
    stopping : stop when the likelihood drops (Section 4.3.2 of the paper).
    greedy : train feedforward networks layer by layer [False].
    spread : "units", "points" or "auto", for very few labels: let them travel over a graph before the network learns
        from them, over the units of a greedy first layer or over neighbouring points; "no" does not ["no"].
    training : "online" learning as in the paper, or "em", batch EM for the generative model (network "r") ["online"].
    tol : end training when the log-likelihood per point rises by less than this per pass; "no" never does ["no"].
    W_init, R_init : arrays, or the same names and files as in a parameter file: "auto", "data", "class_means",
        "points", "single_points", "random" or "even" for W; "uniform", "delta", "points" or "random" for R;
        {"h5": path} for weights of the authors' program.
    class_prior : p(k) of every class, in the order of classes_; by default all classes are equally likely.
    label_noise : the share of labels that are wrong, or a matrix with p(label | class), one row per class; by default
        labels are right.
    committee : separated softmax groups of n_subclasses units each, which learn from different random starts and whose
        mean is the answer (the paper's outlook); they cost as much time and memory as that many networks.
    signed : "split" makes two inputs of each feature, one for its positive and one for its negative values; "range" one
        for its distance from the lowest and one from the highest value of that feature. "measured" takes ranges for
        dense data with negative values or hardly any zeros. "auto" is "measured" if n_subclasses is chosen as well,
        and else splits if there are negative values in fit, with a warning; "no" refuses them.
    random_state : int, numpy Generator or RandomState, or None.
    verbose : 1 shows progress.

    Labels are numbers or text, in an array, a list or a pandas Series (also categorical or with nullable integers). -1,
    None, NaN, pandas' NA and NaT, and empty text mean unlabeled. Labels may also be distributions over classes, one row
    per point; then the classes are 0, 1, ..., and a row of zeros is an unlabeled point.

    A point that is zero in every input says nothing about its class: it is left out of training, and gets
    class_prior_ as its posterior. Both give one warning that counts such points.

    Attributes
    ----------
    W_, R_ : the learned weights (C x D and K x C); row c of W_ is what unit c has learned to expect. The units of a
        committee's members follow each other.
    classes_ : class names, sorted; only -1 if there was no label at all.
    n_iter_ : iterations over the data; stopped_, converged_ : whether the stopping criterion or tol ended training.
    log_likelihood_ : mean log-likelihood per point in every iteration.
    init_log_likelihood_ : the same of the trained network, for each of several starts (n_init).
    self_labeled_ : share of points that the network labeled itself in every iteration.
    spread_ : how labels were spread and how well that went (docs/few-labels.md), None if they were not.
    normalization_, n_subclasses_, class_prior_ : A, C and p(k) as used.
    choices_ : what was chosen where no value was given: name -> (value, reason).
    signed_, pairs_ : whether features became two inputs each, and how; then W_ has twice as many columns, those of the
        negative values (or of the distances from the highest) last.
    """

    def __init__(
        self,
        n_subclasses: int | str | None = None,
        normalization: float | str | None = None,
        network: str | None = None,
        epsilon_w: float | str | None = None,
        epsilon_r: float | str | None = None,
        threshold: float = 0.6,
        max_iter: int | str | None = None,
        batch_size: int | str | None = None,
        minibatch_rule: str = "sequential",
        inference: str | None = None,
        backend: str = "numba",
        dtype: str = "float32",
        shuffle: bool = True,
        stopping: bool = False,
        greedy: bool | str | None = None,
        spread: str | None = None,
        training: str | None = None,
        tol: float | str | None = None,
        truncated: dict[str, Any] | None = None,
        candidates_in: str = "memory",
        predict_inference: str = "exact",
        W_init: Any = None,
        R_init: Any = None,
        committee: int = 1,
        n_init: int | str | None = None,
        class_prior: Any = None,
        label_noise: Any = None,
        signed: str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_subclasses = n_subclasses
        self.normalization = normalization
        self.network = network
        self.epsilon_w = epsilon_w
        self.epsilon_r = epsilon_r
        self.threshold = threshold
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.minibatch_rule = minibatch_rule
        self.inference = inference
        self.backend = backend
        self.dtype = dtype
        self.shuffle = shuffle
        self.stopping = stopping
        self.greedy = greedy
        self.spread = spread
        self.training = training
        self.tol = tol
        self.truncated = truncated
        self.candidates_in = candidates_in
        self.predict_inference = predict_inference
        self.W_init = W_init
        self.R_init = R_init
        self.committee = committee
        self.n_init = n_init
        self.class_prior = class_prior
        self.label_noise = label_noise
        self.signed = signed
        self.random_state = random_state
        self.verbose = verbose

    # ---- learning ------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> NeSiClassifier:
        """Learn from points X (dense or sparse) and their labels; y=None means no labels at all.

        Memory maps and dask arrays stay where they are: only the points of a mini-batch are in memory.
        A point with a weight of w counts as if it were there w times; with a weight of 0 as if it were not there.
        """
        by_kind = isinstance(self.signed, str) and self.signed == "auto" and chooses_all(self.get_params())
        X = self._validated(X, "measured" if by_kind else self.signed)
        labels, labeled = self._read_labels(y, X.shape[0])
        X, labels, labeled, weights = without_empty(*weighted(X, labels, labeled, sample_weight))
        if not X.shape[0]:
            raise NesiError("Every point is zero in every input: there is nothing to learn from.")
        self._random, self.seen_ = generator(self.random_state), points_and_labels(labeled, weights)
        values = self._choose(X, labels, labeled)
        trainer = self._best_trained(X, labels, weights, values)
        unlabeled = 1 - float(np.mean(labeled))
        by_itself = trainer.settings.network_kind.self_labeling and trainer.settings.spread is None
        if by_itself and (advice := self_labeling_advice(trainer.history["self_labeled"], unlabeled, _remedy(values))):
            warnings.warn(advice[0].upper() + advice[1:], ConvergenceWarning, stacklevel=2)
        if (advice := spreading_advice(trainer.account().get("spread"))) is not None:
            warnings.warn(advice[0].upper() + advice[1:], ConvergenceWarning, stacklevel=2)
        return self._keep(trainer)

    def _choose(self, X: Any, labels: np.ndarray, labeled: np.ndarray) -> dict[str, Any]:
        """All parameters with a value; sets `choices_`."""
        K = len(self.classes_)
        certain = labels.ndim == 1 and self.label_noise is None
        every_class = bool(certain and labeled.any() and np.bincount(labels[labeled], minlength=K).all())
        ranges = self.pairs_ is not None and self.pairs_.low is not None
        facts = Facts.of(X, K, int(labeled.sum()), every_class, ranges)
        values, self.choices_ = chosen_parameters(self.get_params(), facts)
        for name, choice in self.choices_.items() if self.verbose else ():
            print(f"{name} = {choice.value}: {choice.reason}")
        return values

    def _best_trained(self, X: Any, labels: np.ndarray, weights: np.ndarray | None, values: dict[str, Any]) -> Trainer:
        """A trained network; of several starts the one that looks best without any further label."""
        starts = starting_points(generator(self.random_state), values["n_init"])
        settings, K = self._settings(X, values), len(self.classes_)
        W_init, R_init = _starts(values, settings, X, K)
        best: Trainer | None = None
        likelihoods: list[float] = []
        merits: list[float] = []
        for number, rng in enumerate(starts, start=1):
            trainer = Trainer(settings, X, labels, K, rng, W_init, R_init, sample_weight=weights)
            name = f"{settings.network}-NeSi" + (f" {number}/{len(starts)}" if len(starts) > 1 else "")
            for _ in tqdm(trainer, total=trainer.total_iterations, disable=not self.verbose, desc=name):
                pass
            if len(starts) > 1:
                likelihoods.append(trainer.training_log_likelihood())
                merits.append(_merit(trainer, likelihoods[-1]))
            if best is None or merits[-1] > max(merits[:-1]):
                best = trainer
            del trainer  # so that no more than two are in memory
        self.init_log_likelihood_ = np.array(likelihoods)
        assert best is not None  # there is at least one start
        return best

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None) -> NeSiClassifier:
        """Learn online from a part of the data, one pass; the first call needs `classes` or all of them in y.

        The learning rates belong to all points and labels seen so far, so that they fall as the stream goes on.
        """
        first = not hasattr(self, "W_")
        X = self._validated(X, self.signed if first else None)
        values = standard_parameters(self.get_params())
        if not first and "network" in (known := getattr(self, "choices_", {})):
            values["network"] = known["network"].value
        check_count("n_init", values["n_init"])
        labels, labeled = self._read_labels(y, X.shape[0], classes, keep=not first)
        X, labels, labeled, weights = without_empty(*weighted(X, labels, labeled, sample_weight))
        if not X.shape[0]:
            if first:
                raise NesiError("Every point is zero in every input: the first part of the data needs some others.")
            return self
        if first:
            self._random = generator(self.random_state)
            self.seen_ = (0, 0)
            self.init_log_likelihood_ = np.array([])  # a stream is seen once: there is one start
            self.choices_ = {}  # what is right for a stream is not known from its first part
        points, known = points_and_labels(labeled, weights)
        self.seen_ = (self.seen_[0] + points, self.seen_[1] + known)
        settings = self._settings(X, values, iterations=1, greedy=False, spread=None, stopping=False, tolerance=None)
        W, R = _starts(values, settings, X, len(self.classes_)) if first else (self.W_, self.R_)
        trainer = Trainer(settings, X, labels, len(self.classes_), self._random, W, R, self.seen_, weights)
        trainer.run_iteration()
        return self._keep(trainer)

    def _read_labels(
        self, y: Any, n_points: int, classes: Any = None, keep: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of classes, or the given distributions over them, and which points are labeled.

        Sets `classes_`, unless they are to be kept.
        """
        if are_soft(y):
            soft = soft_labels(y, n_points)
            if not keep:
                self.classes_ = np.arange(soft.shape[1]) if classes is None else checked_classes(classes)
            return soft, soft_label_model(soft)[0] >= 0
        known, labeled = split_labels(y, n_points)
        if not keep:
            names = known if classes is None else checked_classes(classes)
            self.classes_ = np.unique(names) if len(names) else np.array([UNLABELED])
        return class_indices(known, labeled, self.classes_), labeled

    def _settings(self, X: Any, values: dict[str, Any], **changes: Any) -> TrainingSettings:
        if not hasattr(self, "W_") or "iterations" not in changes:
            points, features = X.shape
            C, A, K = values["n_subclasses"], values["normalization"], len(self.classes_)
            self.n_subclasses_ = standard_units(points, K) if C is None else C
            check_units(self.n_subclasses_, K)
            self.normalization_ = suggested_normalization(features) if A is None else as_float(A)
        return EstimatorSettings.of(values, C=self.n_subclasses_, A=self.normalization_, **changes)

    def _keep(self, trainer: Trainer) -> NeSiClassifier:
        self._trained = trainer.trained()
        self.W_, self.R_ = self._trained.W, self._trained.R
        self.class_prior_ = label_model(len(self.R_), self.class_prior).prior
        self.n_iter_ = trainer.iteration if trainer.stopped_at is None else trainer.stopped_at
        self.stopped_ = trainer.stopped_at is not None
        self.converged_ = trainer.converged_at is not None
        self.log_likelihood_ = np.array(trainer.history["log_likelihood"])
        self.self_labeled_ = np.array(trainer.history["self_labeled"])
        self.spread_ = trainer.account().get("spread")
        return self

    # ---- what scikit-learn asks ------------------------------------------------------------------------------------

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = self.signed == "no"
        tags.target_tags.required = False
        tags.transformer_tags.preserves_dtype = []  # activities have the type that the network computes with
        # T1.3 keeps the direction of a point and discards its length, and with it classes that differ in nothing else.
        tags.classifier_tags.poor_score = True
        return tags


def _remedy(values: dict[str, Any]) -> str:
    more, faster = longer_or_faster(values["max_iter"], values["epsilon_r"])
    return f"max_iter={more}, or epsilon_r={faster:g}"


def _merit(trainer: Trainer, log_likelihood: float) -> float:
    """Of a start among several. Likelihood does not tell whether labels have found the right units, energy does."""
    spread = trainer.account().get("spread")
    return -float(spread["energy"]) if spread is not None and spread["over"] == "units" else log_likelihood


def _starts(values: dict[str, Any], settings: TrainingSettings, X: Any, n_classes: int) -> tuple[Start, Start]:
    W_init = resolved_start(values["W_init"], 1, (1, 1), (settings.C, X.shape[1]))
    return W_init, resolved_start(values["R_init"], 1, (1, 2), (n_classes, settings.C))
