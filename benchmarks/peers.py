"""Other semi-supervised classifiers on the same MNIST digits with the same 100 labels.

    NESI_DATA=... python benchmarks/peers.py [--labels 100] [--draws 5] [--units 10000] [--only NAME ...]

All methods get the same training points, the same few labels and the same test set; each is used as its documentation
suggests, without tuning on labels that it does not have. Error in percent, mean and standard error over the draws.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from sklearn.cluster import MiniBatchKMeans
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import Normalizer
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier
from tqdm import tqdm

import data_tools
from nesi import NeSiClassifier
from nesi.labels import draw_labels, mask_labels

Data = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
Predictor = Callable[[np.ndarray, np.ndarray, np.ndarray, int], np.ndarray]  # X, labels with -1, X_test, seed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--labels", type=int, default=100)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--units", type=int, default=10000)
    parser.add_argument("--points", type=int, default=60000, help="training points")
    parser.add_argument("--only", nargs="+", help="names of methods")
    arguments = parser.parse_args()
    methods = all_methods(arguments.units)
    chosen = [name for name in methods if not arguments.only or name in arguments.only]
    data = data_tools.load("mnist")
    X, y = data.X_train[: arguments.points], data.y_train[: arguments.points]
    errors: dict[str, list[float]] = {name: [] for name in chosen}
    seconds: dict[str, list[float]] = {name: [] for name in chosen}
    for draw in tqdm(range(arguments.draws)):
        labels = mask_labels(y, draw_labels(y, arguments.labels, np.random.default_rng([draw, 7])))
        for name in chosen:
            started = time.perf_counter()
            predicted = methods[name](X, labels, data.X_test, draw)
            seconds[name].append(time.perf_counter() - started)
            errors[name].append(100 * float(np.mean(predicted != data.y_test)))
    print(f"\nMNIST, {len(X)} points, {arguments.labels} labels, {arguments.draws} draws")
    print("| method | test error in % | seconds per run |\n|---|---|---|")
    for name in chosen:
        sem = np.std(errors[name], ddof=1) / np.sqrt(arguments.draws) if arguments.draws > 1 else np.nan
        print(f"| {name} | {np.mean(errors[name]):.2f} ± {sem:.2f} | {np.median(seconds[name]):.0f} |")


def all_methods(units: int) -> dict[str, Predictor]:
    return {
        "ff+-NeSi": lambda X, labels, X_test, seed: neural_simpletron("ff+", X, labels, X_test, seed, units),
        "r+-NeSi": lambda X, labels, X_test, seed: neural_simpletron("r+", X, labels, X_test, seed, units),
        "k-means, clusters labeled": lambda X, labels, X_test, seed: labeled_clusters(X, labels, X_test, seed, units),
        "LabelSpreading (kNN graph)": label_spreading,
        "SelfTrainingClassifier (logistic regression)": self_training,
        "logistic regression, labels only": logistic_regression,
        "1-nearest neighbour, labels only": nearest_neighbour,
    }


def neural_simpletron(
    network: str, X: np.ndarray, labels: np.ndarray, X_test: np.ndarray, seed: int, units: int
) -> np.ndarray:
    """With the settings of params/mnist.yaml."""
    settings = {"inference": "truncated", "greedy": True, "max_iter": 500, "tol": 0.005, "random_state": seed}
    return NeSiClassifier(units, 900, network=network, **settings).fit(X, labels).predict(X_test)


def labeled_clusters(X: np.ndarray, labels: np.ndarray, X_test: np.ndarray, seed: int, units: int) -> np.ndarray:
    """The same number of components; clusters get the majority of their labels, or that of the nearest labeled one."""
    scaled, scaled_test = _scaled(X), _scaled(X_test)
    mixture = MiniBatchKMeans(units, batch_size=10000, init="random", n_init=1, max_iter=20, random_state=seed).fit(
        scaled
    )
    cluster = mixture.labels_[labels >= 0]
    known = labels[labels >= 0]
    named = np.unique(cluster)
    majority = np.array([np.bincount(known[cluster == c]).argmax() for c in named])
    nearest = KNeighborsClassifier(1).fit(mixture.cluster_centers_[named], majority)
    return nearest.predict(mixture.cluster_centers_)[mixture.predict(scaled_test)]


def label_spreading(X: np.ndarray, labels: np.ndarray, X_test: np.ndarray, seed: int) -> np.ndarray:
    graph = LabelSpreading(kernel="knn", n_neighbors=7, alpha=0.2, max_iter=100).fit(_scaled(X), labels)
    return graph.predict(_scaled(X_test))


def self_training(X: np.ndarray, labels: np.ndarray, X_test: np.ndarray, seed: int) -> np.ndarray:
    return SelfTrainingClassifier(_regression()).fit(_from_0_to_1(X), labels).predict(_from_0_to_1(X_test))


def logistic_regression(X: np.ndarray, labels: np.ndarray, X_test: np.ndarray, seed: int) -> np.ndarray:
    known = labels >= 0
    return _regression().fit(_from_0_to_1(X[known]), labels[known]).predict(_from_0_to_1(X_test))


def _regression() -> LogisticRegression:
    return LogisticRegression(max_iter=100)


def nearest_neighbour(X: np.ndarray, labels: np.ndarray, X_test: np.ndarray, seed: int) -> np.ndarray:
    known = labels >= 0
    return KNeighborsClassifier(1).fit(_scaled(X[known]), labels[known]).predict(_scaled(X_test))


def _from_0_to_1(X: np.ndarray) -> np.ndarray:
    return X / np.float32(255)


def _scaled(X: np.ndarray) -> np.ndarray:
    return Normalizer().transform(X.astype(np.float32))


if __name__ == "__main__":
    main()
