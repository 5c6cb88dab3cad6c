"""The methods of `peers.py`: from points and a few labels to the classes of the test points."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import normalize
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

from nesi.spreading.neighbours import nearest_neighbours

_NEIGHBOURS = 10


class Points:
    """Training and test points, and the graph of all of them."""

    def __init__(self, X: Any, X_test: Any, n_classes: int) -> None:
        self.X, self.X_test, self.n_classes = X, X_test, n_classes

    @property
    def shares(self) -> np.ndarray:
        """What the methods are told about the classes: that they are equally frequent, as our networks assume."""
        return np.full(self.n_classes, 1 / self.n_classes)

    @cached_property
    def graph(self) -> sp.csr_matrix:
        """Of the neighbours of normalised inputs, with the weights of graphlearning; test points take part."""
        import graphlearning

        everyone = sp.vstack([self.X, self.X_test]) if sp.issparse(self.X) else np.vstack([self.X, self.X_test])
        distances, neighbours = nearest_neighbours(everyone, _NEIGHBOURS)
        euclidean = np.sqrt(np.maximum(2 * distances, 1e-12))
        return graphlearning.weightmatrix.knn(None, _NEIGHBOURS, knn_data=(neighbours, euclidean))

    @cached_property
    def scaled(self) -> tuple[Any, Any]:
        """Texts of length 1, as usual; images from 0 to 1."""
        if sp.issparse(self.X):
            return normalize(self.X), normalize(self.X_test)
        largest = np.float32(self.X.max())
        return self.X / largest, self.X_test / largest


class Method(NamedTuple):
    predict: Callable[[Points, np.ndarray], np.ndarray]
    transductive: bool  # the test points, without labels, are there in training
    slow: bool = False  # minutes for a draw
    prepare: Callable[[Points], Any] = lambda points: None  # what all draws share, which is not part of their time


def poisson_learning(points: Points, labels: np.ndarray) -> np.ndarray:
    import graphlearning

    return _on_graph(graphlearning.ssl.poisson(points.graph), points, labels)


def poisson_mbo(points: Points, labels: np.ndarray) -> np.ndarray:
    import graphlearning

    return _on_graph(graphlearning.ssl.poisson_mbo(points.graph, points.shares), points, labels)


def _on_graph(model: Any, points: Points, labels: np.ndarray) -> np.ndarray:
    labeled = np.flatnonzero(labels >= 0)
    return np.asarray(model.fit_predict(labeled, labels[labeled]))[len(labels) :]


def label_spreading(points: Points, labels: np.ndarray) -> np.ndarray:
    return _spread(points, labels).argmax(axis=1)


def label_spreading_with_class_mass(points: Points, labels: np.ndarray) -> np.ndarray:
    """Class mass normalisation (Zhu et al. 2003): the labels that arrive are weighed so that classes are even."""
    arrived = _spread(points, labels)
    return (arrived * points.shares / arrived.sum(axis=0)).argmax(axis=1)


def _spread(points: Points, labels: np.ndarray) -> np.ndarray:
    """alpha as in the paper of the method (Zhou et al. 2004); scikit-learn's 0.2 hardly leaves the labels."""
    n_test = points.X_test.shape[0]
    everyone = np.arange(len(labels) + n_test)[:, None]  # the kernel knows the points
    model = LabelSpreading(kernel=lambda X, Y: points.graph, alpha=0.99, max_iter=300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", RuntimeWarning)  # points that no label reaches
        model.fit(everyone, np.concatenate([labels, np.full(n_test, -1)]))
    return np.nan_to_num(model.label_distributions_[len(labels) :])


def self_training_naive_bayes(points: Points, labels: np.ndarray) -> np.ndarray:
    return SelfTrainingClassifier(MultinomialNB()).fit(points.scaled[0], labels).predict(points.scaled[1])


def self_training_regression(points: Points, labels: np.ndarray) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return SelfTrainingClassifier(_regression()).fit(points.scaled[0], labels).predict(points.scaled[1])


def regression(points: Points, labels: np.ndarray) -> np.ndarray:
    known = labels >= 0
    return _regression().fit(points.scaled[0][known], labels[known]).predict(points.scaled[1])


def _regression() -> LogisticRegression:
    return LogisticRegression(max_iter=100)


def nearest_neighbour(points: Points, labels: np.ndarray) -> np.ndarray:
    known = labels >= 0
    model = KNeighborsClassifier(1).fit(normalize(points.X[known].astype(np.float32)), labels[known])
    return model.predict(normalize(points.X_test.astype(np.float32)))


def _graph(points: Points) -> Any:
    return points.graph


def _scaled(points: Points) -> Any:
    return points.scaled


METHODS = {
    "Poisson MBO": Method(poisson_mbo, True, prepare=_graph),
    "Poisson learning": Method(poisson_learning, True, prepare=_graph),
    "LabelSpreading": Method(label_spreading, True, prepare=_graph),
    "LabelSpreading, class mass": Method(label_spreading_with_class_mass, True, prepare=_graph),
    "self-training, naive Bayes": Method(self_training_naive_bayes, False, prepare=_scaled),
    "self-training, logistic regression": Method(self_training_regression, False, slow=True, prepare=_scaled),
    "logistic regression, labels only": Method(regression, False, prepare=_scaled),
    "1-nearest neighbour, labels only": Method(nearest_neighbour, False, prepare=_scaled),
}
