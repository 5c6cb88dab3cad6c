"""Features with a sign: positive and negative parts side by side, or shifted until none is negative?

    python studies/signed_features.py                  # digits, breast cancer, wine
    NESI_DATA=... python studies/signed_features.py    # also MNIST (6000 points) and 20 Newsgroups

Principal components of images, latent semantic components of texts, standardised columns of tables; ff+ with a tenth as
many units as points (at most 300), trained layer by layer, against logistic regression on the labels alone.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler, normalize

import data_tools
from nesi import NeSiClassifier
from nesi.labels import draw_labels, mask_labels


class Problem(NamedTuple):
    name: str
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    labels: int


def problems() -> Iterator[Problem]:
    digits = data_tools.load("digits")
    components = PCA(30, random_state=0).fit(digits.X_train)
    parts = (components.transform(digits.X_train), digits.y_train, components.transform(digits.X_test), digits.y_test)
    yield Problem("digits, 30 principal components", *parts, 50)
    for name, load in (("breast cancer, standardised", load_breast_cancer), ("wine, standardised", load_wine)):
        X, y = load(return_X_y=True)
        X, order = StandardScaler().fit_transform(X), np.random.default_rng(0).permutation(len(y))
        train, test = np.split(order, [2 * len(y) // 3])
        yield Problem(name, X[train], y[train], X[test], y[test], 12)
    if "NESI_DATA" not in os.environ:
        return
    mnist = data_tools.load("mnist")
    X, X_test = mnist.X_train[:6000] / 255, mnist.X_test[:3000] / 255
    components = PCA(50, random_state=0).fit(X)
    parts = (components.transform(X), mnist.y_train[:6000], components.transform(X_test), mnist.y_test[:3000])
    yield Problem("MNIST (6000), 50 principal components", *parts, 100)
    news = data_tools.load("newsgroups20")
    X, X_test = normalize(news.X_train), normalize(news.X_test)
    semantics = TruncatedSVD(100, random_state=0).fit(X)
    parts = (normalize(semantics.transform(X)), news.y_train, normalize(semantics.transform(X_test)), news.y_test)
    yield Problem("20 Newsgroups, 100 latent semantic components", *parts, 400)


def errors(problem: Problem, seed: int) -> dict[str, float]:
    X, y, X_test = problem.X, problem.y, problem.X_test
    labeled = draw_labels(y, problem.labels, np.random.default_rng(np.random.SeedSequence(seed)))
    labels = mask_labels(y, labeled)
    C = int(min(300, max(2 * len(np.unique(y)), len(y) // 10)))
    network = NeSiClassifier(
        C, network="ff+", epsilon_r=1.0, max_iter=300, greedy=True, tol=0.002, signed="split", random_state=seed
    )
    answers = {"logistic regression": LogisticRegression(max_iter=2000).fit(X[labeled], y[labeled]).predict(X_test)}
    answers["split"] = network.fit(X, labels).predict(X_test)
    lowest, network = X.min(), network.set_params(signed="no")
    for excess in (100, 1000):
        network.set_params(normalization=X.shape[1] + excess).fit(X - lowest, labels)
        answers[f"shifted, A = D + {excess}"] = network.predict(np.maximum(X_test - lowest, 0))
    return {name: 100 * float(np.mean(found != problem.y_test)) for name, found in answers.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=2, help="draws of labels (default: 2)")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    header = ["logistic regression", "split", "shifted, A = D + 100", "shifted, A = D + 1000"]
    print("| data | labels | " + " | ".join(header) + " |\n|" + "---|" * (len(header) + 2))
    for problem in problems():
        draws = [errors(problem, seed) for seed in range(options.draws)]
        means = " | ".join(f"{np.mean([draw[name] for draw in draws]):.1f}" for name in header)
        print(f"| {problem.name} | {problem.labels} | {means} |", flush=True)


if __name__ == "__main__":
    main()
