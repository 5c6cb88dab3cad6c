"""What decides how a network is computed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nesi.label_model import LabelModel, label_model
from nesi.networks import Network


class NetworkSpec(NamedTuple):
    """A network and how to compute it."""

    network: Network
    rule: str
    dtype: str
    backend: str
    sparse: bool
    committee: int = 1  # G: separated softmax groups, which follow each other in the rows of W and the columns of R
    label_model: LabelModel | None = None  # None: a uniform class prior, and labels that are classes

    @property
    def graph(self) -> GraphSpec:
        soft = self.label_model is not None and not self.label_model.certain
        return GraphSpec(self.rule, self.dtype, self.backend, self.sparse, soft)

    def network_inputs(self, threshold: float) -> tuple[np.ndarray, np.ndarray]:
        """What turns the one compiled graph into this network: is it recurrent, and when does it label points itself.

        BvSB is at most 1: with a threshold above, a network never labels a point itself.
        """
        limit = threshold if self.network.self_labeling else 2.0
        return np.asarray(self.network.recurrent, "int8"), np.asarray(limit, self.dtype)

    def label_inputs(self, labels: np.ndarray, K: int) -> list[np.ndarray]:
        """Values of `TopDown.inputs` for some points; `labels` are class numbers, or rows of the label model."""
        labels, model = (self.label_model or label_model(K)).for_labels(labels)
        # The size of a committee comes as that of an array, because JAX takes no other sizes.
        members, prior = np.ones(self.committee), model.relative_prior.astype(self.dtype)
        return [labels, members, prior, model.meanings.astype(self.dtype), model.log_evidence]


class GraphSpec(NamedTuple):
    """All that decides which graph is compiled: neither the network nor sizes do."""

    rule: str
    dtype: str
    backend: str
    sparse: bool
    soft: bool = False  # labels that do not name the class for certain
