"""`TrainedNetwork`: weights in, posterior out. What training produces, and all that is needed to use it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from pydantic import Field

from data_tools.rows_on_disk import chosen_rows
from data_tools.signed import InputPairs
from nesi.engines.contract import Inference, InferenceEngine
from nesi.engines.exact import ExactEngine
from nesi.engines.inference import full_log_likelihood, infer_in_chunks
from nesi.engines.onnx_graph import posterior_graph
from nesi.engines.quick_inference import QuickInference
from nesi.engines.specification import NetworkSpec
from nesi.errors import NesiError
from nesi.label_model import LabelModel, checked_labels, label_model
from nesi.labels import UNLABELED
from nesi.networks import Network, get_network
from nesi.observations import Observations, has_content, larger_than_the_inputs
from nesi.posteriors import percent_error
from nesi.storage.arrays import Arrays, load_described_arrays, save_arrays
from nesi.storage.descriptions import Description, read_description
from nesi.training.settings import TrainingSettings

FORMAT = 1


@dataclass(frozen=True)
class Computation:
    """How a trained network is computed."""

    backend: str = "numba"
    dtype: str = "float32"
    inference: str = "exact"  # of new points: full posteriors, or "truncated", which looks at some of the units
    active: int = 10  # units with a posterior above zero, if truncated

    def __post_init__(self) -> None:
        if self.inference not in ("exact", "truncated"):
            raise NesiError(f"inference is {self.inference!r}, but must be exact or truncated.")


@dataclass(frozen=True, eq=False)
class TrainedNetwork:
    """A network that has learned. Nothing in it changes any more; the arrays are read-only."""

    network: Network
    W: np.ndarray  # C x D; the units of a committee's members follow each other
    R: np.ndarray  # K x C
    A: float
    class_prior: np.ndarray | None = None  # p(k); None: all classes are equally likely
    label_noise: Any = None  # the share of wrong labels, or p(label | class); None: labels are right
    committee: int = 1
    computation: Computation = Computation()

    def __post_init__(self) -> None:
        for name in ("W", "R"):
            view = np.asarray(getattr(self, name), dtype=self.computation.dtype).view()
            view.flags.writeable = False
            object.__setattr__(self, name, view)
        if self.W.ndim != 2 or self.R.ndim != 2 or len(self.W) != self.R.shape[1] or len(self.W) % self.committee:
            raise NesiError(
                f"W has the shape {self.W.shape} and R {self.R.shape}, which are not the weights of one network with "
                f"a committee of {self.committee}."
            )

    def __reduce__(self) -> tuple[Any, ...]:
        """Travels between processes without its engines."""
        return type(self), tuple(getattr(self, entry.name) for entry in fields(self))

    @classmethod
    def of(cls, settings: TrainingSettings, W: np.ndarray, R: np.ndarray, network: Network | None = None) -> Self:
        """Weights that were trained with these settings; `network` if they are not (yet) those of the whole network."""
        prior = None if settings.class_prior is None else np.asarray(settings.class_prior)
        how = Computation(settings.backend, settings.dtype, settings.test_inference, settings.truncated.active)
        network = network or settings.network_kind
        return cls(network, W, R, settings.A, prior, settings.label_noise, settings.committee, how)

    @property
    def n_classes(self) -> int:
        return len(self.R)

    # ---- answers ---------------------------------------------------------------------------------------------------

    def posterior(self, X: Any) -> np.ndarray:
        """p(k|y) of new points, T1.6 without labels; the prior for points without content or of an unknown class."""

        def answer(data: Observations) -> np.ndarray:
            engine: InferenceEngine
            engine = self._exact(data.sparse) if self.computation.inference == "exact" else self._quick(data.sparse)
            t = engine.posterior(data).t
            if self.R.any(axis=0).all():
                return t
            # A unit that no class has any weight for answers nothing: the others do, and if there is none, the prior.
            total = t.sum(axis=1, keepdims=True, dtype=np.float64)
            known = total > 0
            return np.where(known, t / np.where(known, total, 1), self._label_model.prior).astype(t.dtype)

        return self._answered(X, answer, self._label_model.prior)

    def log_likelihood(self, X: Any, labels: Any = None) -> np.ndarray:
        """Eq. (loglikelihood) of every point, with the labels that are known (-1: unlabeled).

        A point without content counts as one with all inputs the same: it has no direction either.
        """
        n_points = X.n_points if isinstance(X, Observations) else X.shape[0]
        known = np.full(n_points, UNLABELED) if labels is None else checked_labels(labels, n_points, self.n_classes)
        if isinstance(X, Observations) or (filled := has_content(X)).all():
            data = self._observed(X)
            return full_log_likelihood(self._exact(data.sparse), data, known)
        result = np.empty(n_points)
        if filled.any():
            result[filled] = self.log_likelihood(chosen_rows(X, filled), known[filled])
        labels_there, which = np.unique(known[~filled], return_inverse=True)
        even = np.ones((len(labels_there), X.shape[1]))
        result[~filled] = self.log_likelihood(sp.csr_array(even) if sp.issparse(X) else even, labels_there)[which]
        return result

    def activities(self, X: Any) -> np.ndarray:
        """s of every point, T1.4, p(c) without content; those of a committee's members side by side."""

        def answer(data: Observations) -> np.ndarray:
            return np.concatenate([inference.s for _, inference in infer_in_chunks(self._exact(data.sparse), data)])

        of_member = (self._label_model.prior @ self.R).reshape(self.committee, -1)
        total = of_member.sum(axis=1, keepdims=True)
        p_unit = np.where(total > 0, of_member / np.where(total > 0, total, 1), 1 / of_member.shape[1])
        return self._answered(X, answer, p_unit.ravel())

    def inferences(self, X: Any) -> Iterator[tuple[np.ndarray, Inference]]:
        """s, t and the log-likelihood of points that have content, in chunks that fit into memory."""
        data = self._observed(X)
        for chunk, inference in infer_in_chunks(self._exact(data.sparse), data):
            yield chunk, inference._replace(log_likelihood=inference.log_likelihood - data.log_gamma[chunk])

    def sparse_activities(self, X: Any) -> sp.csr_array:
        """The same without what is negligible, one row per point and member of the committee."""
        data = self._observed(X)
        return self._exact(data.sparse).activities(data)

    def percent_error(self, X: Any, classes: np.ndarray) -> float:
        """The share of points, in percent, that get another class than theirs."""
        return percent_error(self.posterior(X), classes)

    def with_weights(self, W: np.ndarray, R: np.ndarray) -> Self:
        """The same network with other weights."""
        return replace(self, W=W, R=R)

    # ---- engines, made when they are needed ----------------------------------------------------------------------

    @cached_property
    def _label_model(self) -> LabelModel:
        return label_model(self.n_classes, self.class_prior, self.label_noise)

    @cached_property
    def _engines(self) -> dict[tuple[str, bool], Any]:
        """By what they do and whether the data is sparse."""
        return {}

    def _spec(self, sparse: bool) -> NetworkSpec:
        how = self.computation
        return NetworkSpec(
            self.network, "sequential", how.dtype, how.backend, sparse, self.committee, self._label_model
        )

    def _exact(self, sparse: bool) -> ExactEngine:
        key = ("exact", sparse)
        if key not in self._engines:
            self._engines[key] = ExactEngine(self._spec(sparse), self.W, self.R, self.A, threshold=0.0)
        engine: ExactEngine = self._engines[key]
        return engine

    def _quick(self, sparse: bool) -> QuickInference:
        """The search for who is whose neighbour takes one exact pass over the units: it is done once."""
        key = ("quick", sparse)
        if key not in self._engines:
            active = self.computation.active
            self._engines[key] = QuickInference(self._spec(sparse), self.W, self.R, self.A, active)
        engine: QuickInference = self._engines[key]
        return engine

    def _answered(
        self, X: Any, answer: Callable[[Observations], np.ndarray], without_content: np.ndarray
    ) -> np.ndarray:
        """One row of answers per point, the same one for all points that have no content."""
        if isinstance(X, Observations) or (filled := has_content(X)).all():
            return answer(self._observed(X))
        result = np.tile(without_content.astype(self.computation.dtype), (len(filled), 1))
        if filled.any():
            result[filled] = answer(self._observed(chosen_rows(X, filled)))
        return result

    def _observed(self, X: Any) -> Observations:
        return X if isinstance(X, Observations) else Observations(X, self.A)

    def onnx(self, classes: np.ndarray, pairs: InputPairs | None = None) -> bytes:
        """An ONNX graph that answers as `posterior` does, with full posteriors; `classes` are called by these names.

        If every column is a pair of inputs, the graph makes these itself.
        """
        model = self._label_model
        return posterior_graph(
            self.W, self.R, self.A, self.network.recurrent, model.relative_prior, self.committee, classes, pairs
        )

    # ---- on disk -----------------------------------------------------------------------------------------------------

    def save(
        self, path: Path, about: Mapping[str, Any] | None = None, arrays: Mapping[str, np.ndarray] | None = None
    ) -> None:
        """Write all of it to an npz file, whole or not at all; `about` and `arrays` add what else is worth knowing."""
        prior = None if self.class_prior is None else np.asarray(self.class_prior).tolist()
        noise = None if self.label_noise is None else np.asarray(self.label_noise).tolist()
        described = {
            "trained_network": FORMAT,
            "network": self.network.name,
            "A": float(self.A),
            "class_prior": prior,
            "label_noise": noise,
            "committee": self.committee,
            "computation": vars(self.computation),
        }
        save_arrays(path, {**(arrays or {}), "W": self.W, "R": self.R}, {**(about or {}), **described})

    @classmethod
    def load(cls, path: Path) -> Self:
        """What `save` has written. Damaged files and other formats are refused."""
        return cls.from_stored(path, *load_described_arrays(path))

    @classmethod
    def from_stored(cls, path: Path, arrays: Arrays, about: Mapping[str, Any]) -> Self:
        """The same from what the file at `path` holds."""
        if read_description(_Format, about, path).trained_network != FORMAT:
            raise NesiError(f"{path}: holds no trained network of format {FORMAT}, which this version reads.")
        stored = read_description(_Stored, about, path)
        W, R = arrays.get("W", np.empty(0)), arrays.get("R", np.empty(0))
        prior = None if stored.class_prior is None else np.asarray(stored.class_prior)
        how = Computation(**stored.computation.model_dump())
        try:
            if not all(array.dtype.kind == "f" and array.ndim == 2 and array.size for array in (W, R)):
                raise NesiError("it holds no matrices W and R.")
            kind = get_network(stored.network)
            network = cls(kind, W, R, stored.A, prior, stored.label_noise, stored.committee, how)
            if not all(array.min() >= 0 and array.max() < np.inf for array in (network.W, network.R)):  # false for nan
                raise NesiError("its weights are not finite and non-negative.")
            if network.W.shape[1] >= network.A:
                raise NesiError(f"A is {network.A:g}, but {larger_than_the_inputs(network.W.shape[1])}")
            label_model(network.n_classes, prior, stored.label_noise)  # refuses those of other classes
        except (NesiError, ValueError) as error:
            raise NesiError(f"{path}: damaged or not a trained network: {error}") from None
        return network


class _Format(Description):
    trained_network: Any = None


class _StoredComputation(Description):
    backend: Literal["numba", "c", "jax"]
    dtype: Literal["float32", "float64"]
    inference: Literal["exact", "truncated"]
    active: int = Field(ge=1)


class _Stored(Description):
    """What `TrainedNetwork.save` says about its arrays."""

    network: str
    A: float = Field(le=1e12)  # as in parameter files
    class_prior: list[float] | None
    label_noise: float | list[list[float]] | None
    committee: int = Field(ge=1)
    computation: _StoredComputation
