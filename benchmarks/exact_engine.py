"""One training step of the exact engine, side by side with what it could cost at best and with other ways to do it.

    python benchmarks/exact_engine.py [--repeats 7] [--quick]

Flagship size: C = 10000 units, D = 784 inputs, ff network, the paper's summed mini-batches, float32, all cores. The
points are MNIST's, or made-up ones where that is not found. Every step has new points, and weights are at the paper's
start, where all units have a share in all points, or trained, where few have. Every row of the table is measured in
this one run, the competitors in turn, twice, and the median counts, so that ratios mean something on a machine that
others use too. The second table is one step of the size of 20 Newsgroups (C = 20, D = 61188): sparse rows against dense
NumPy, each in a process of its own for the memory.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import nesi  # noqa: F401  # isort: skip  (before NumPy, as it tells thread pools how to wait)
import numpy as np
import scipy.sparse as sp

from data_tools.errors import DataError
from data_tools.loading import load
from nesi.engines.exact import ExactEngine
from nesi.engines.specification import NetworkSpec
from nesi.networks import NETWORKS
from nesi.observations import Observations
from nesi.training.settings import TrainingSettings
from nesi.training.trainer import Trainer

C, D, K, A = 10000, 784, 10, 900.0
EPSILON = 0.0333
Step = Callable[[np.ndarray], object]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="one mini-batch size, few repeats")
    parser.add_argument("--text", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.text:
        return print(json.dumps(text_step(arguments.text[0], int(arguments.text[1]))))
    repeats = 3 if arguments.quick else arguments.repeats
    print(f"One training step, C = {C}, D = {D}, float32; median of {repeats}, milliseconds (times the bare products)")
    X, name = load_points()
    stages = {"start": weights(X, 0), "trained": weights(X, 2 if arguments.quick else 10)}
    print(f"points of {name}")
    print(f"{'weights':>8} {'batch':>6} {'products':>9} {'nesi':>16} {'numpy':>16} {'jax':>16}")
    for stage, W in stages.items():
        for batch in [100] if arguments.quick else [25, 100, 300, 1000]:
            times = image_steps(X, W, batch, repeats)
            bare = times["products"]
            row = "".join(
                f"{times[name]:>9.1f} ({times[name] / bare:4.2f})" for name in ("nesi", "numpy", "jax") if name in times
            )
            print(f"{stage:>8} {batch:>6} {bare:>9.1f} {row}", flush=True)
    print("\nOne step of texts, C = 20, D = 61188, 130 words per text: milliseconds and peak memory of the process")
    print(f"{'batch':>6} {'nesi':>18} {'dense numpy':>18} {'ratio':>7}")
    for batch in [100] if arguments.quick else [10, 100, 1000]:
        results = {}
        for name in ("nesi", "numpy"):
            command = [sys.executable, __file__, "--text", name, str(batch)]
            results[name] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        cells = [f"{result['milliseconds']:8.1f} ({result['megabytes']:4.0f} MB)" for result in results.values()]
        ratio = results["numpy"]["milliseconds"] / results["nesi"]["milliseconds"]
        print(f"{batch:>6} {cells[0]:>18} {cells[1]:>18} {ratio:>7.1f}", flush=True)
    return None


def load_points() -> tuple[np.ndarray, str]:
    """Images to learn from, and where they are from."""
    try:
        return np.asarray(load("mnist").X_train, np.float32), "MNIST"
    except DataError:
        rng = np.random.default_rng(0)
        strokes = rng.random((300, D), dtype=np.float32) * (rng.random((300, D)) < 0.2)
        X = strokes[rng.integers(300, size=20_000)] * rng.random((20_000, D), dtype=np.float32)
        X[:, 0] += 0.01
        return X, "made-up images"


def weights(X: np.ndarray, iterations: int) -> np.ndarray:
    """W at the paper's start, or trained for some iterations (truncated, which is quick)."""
    how = {"inference": "truncated", "iterations": iterations} if iterations else {"iterations": 1}
    settings = TrainingSettings(network="ff", C=C, A=A, **how)
    trainer = Trainer(settings, X, np.full(len(X), -1), K, np.random.default_rng(0))
    if iterations:
        for _ in trainer:
            pass
    return trainer.W


def image_steps(X: np.ndarray, W: np.ndarray, batch: int, repeats: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    R = np.full((K, C), 1 / C, dtype=np.float32)
    spec = NetworkSpec(NETWORKS["ff"], "summed", "float32", "numba", sparse=False)
    engine = ExactEngine(spec, W, R, A, threshold=0.6)
    rate = min(EPSILON, 1 / batch)  # beyond it the summed rule would overshoot
    rates = np.full(batch, rate)
    batches = [X[rng.choice(len(X), batch)] for _ in range(16)]
    y = ((A - D) * batches[0] / batches[0].sum(axis=1, keepdims=True) + 1).astype(np.float32)
    labels = np.where(rng.random(batch) < 0.1, rng.integers(K, size=batch), -1)
    log_W, activity = np.log(W), rng.random((batch, C), dtype=np.float32)

    def bare_products(x: np.ndarray) -> None:
        y @ log_W.T
        activity.T @ y

    competitors: dict[str, Step] = {
        "products": bare_products,
        "nesi": lambda x: engine.step(x, labels, rates, rates),
        "numpy": numpy_step(W.copy(), R.copy(), labels, rate),
    }
    if (jax := jax_step(W, R, labels, rate)) is not None:
        competitors["jax"] = jax
    samples: dict[str, list[float]] = {name: [] for name in competitors}
    for _ in range(2):  # two rounds: a disturbance should hit all of them
        for name, step in competitors.items():
            step(batches[-1])  # compiles and warms up
            for number in range(repeats):
                started = time.perf_counter()
                step(batches[number % len(batches)])
                samples[name].append(1000 * (time.perf_counter() - started))
    return {name: float(np.median(values)) for name, values in samples.items()}


def numpy_step(W: np.ndarray, R: np.ndarray, labels: np.ndarray, rate: float) -> Step:
    """The same step as one would write it down with NumPy."""
    labeled = labels >= 0
    t = np.where(labeled[:, None], labels[:, None] == np.arange(K), 0).astype(np.float32)

    def step(x: np.ndarray) -> None:
        nonlocal W, R
        y = (A - D) * x / x.sum(axis=1, keepdims=True) + 1
        drive = y @ np.log(W).T
        s = np.exp(drive - drive.max(axis=1, keepdims=True))
        s /= s.sum(axis=1, keepdims=True)
        joint = drive - W.sum(axis=1) + np.log(np.where(labeled[:, None], R[labels], R.mean(axis=0)))
        largest = joint.max(axis=1, keepdims=True)
        (np.log(np.exp(joint - largest).sum(axis=1)) + largest[:, 0]).sum()
        gains_W, gains_R = np.float32(rate) * s, np.float32(rate) * t
        W = W + (gains_W.T @ y - gains_W.sum(axis=0)[:, None] * W)
        R = R + (gains_R.T @ s - gains_R.sum(axis=0)[:, None] * R)

    return step


def jax_step(W: np.ndarray, R: np.ndarray, labels: np.ndarray, rate: float) -> Step | None:
    """The same step in plain JAX, jitted, weights donated."""
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        return None
    labeled = jnp.asarray(labels >= 0)
    t = jnp.where(labeled[:, None], labels[:, None] == jnp.arange(K), 0).astype(jnp.float32)

    def one(W, R, x):  # type: ignore[no-untyped-def]
        y = (A - D) * x / x.sum(axis=1, keepdims=True) + 1
        drive = y @ jnp.log(W).T
        s = jax.nn.softmax(drive, axis=1)
        prior = jnp.log(jnp.where(labeled[:, None], R[labels], R.mean(axis=0)))
        likelihood = jax.scipy.special.logsumexp(drive - W.sum(axis=1) + prior, axis=1).sum()
        gains_W, gains_R = jnp.float32(rate) * s, jnp.float32(rate) * t
        new_W = W + (gains_W.T @ y - gains_W.sum(axis=0)[:, None] * W)
        new_R = R + (gains_R.T @ s - gains_R.sum(axis=0)[:, None] * R)
        return new_W, new_R, likelihood

    compiled = jax.jit(one, donate_argnums=(0, 1))
    state = [jnp.asarray(W), jnp.asarray(R)]

    def step(x: np.ndarray) -> None:
        state[0], state[1], likelihood = compiled(*state, x)
        likelihood.block_until_ready()
        state[0].block_until_ready()

    return step


def text_step(name: str, batch: int) -> dict[str, float]:
    """Some texts of 130 words each, by our engine or by dense NumPy; time and memory of this process."""
    units, words, classes, A_text = 20, 61188, 20, 80000.0
    rng = np.random.default_rng(0)
    columns = np.concatenate([rng.choice(words, 130, replace=False) for _ in range(batch)])
    starts = np.arange(0, 130 * batch + 1, 130)
    X = sp.csr_array((rng.random(130 * batch), columns, starts), shape=(batch, words))
    labels = rng.integers(-1, classes, size=batch)
    W, R = rng.random((units, words), dtype=np.float32) + 1, np.full((classes, units), 1 / units, dtype=np.float32)
    if name == "nesi":
        data = Observations(X, A_text)
        spec = NetworkSpec(NETWORKS["r"], "sequential", "float32", "numba", sparse=True)
        engine = ExactEngine(spec, W, R, A_text, 0.6)
        points, rates = data.take(np.arange(batch), "float32"), np.full(batch, 0.0089)
        step: Callable[[], object] = lambda: engine.step(points, labels, rates, rates)  # noqa: E731
    else:
        step = dense_text_step(X.toarray().astype(np.float32), labels, W, R, A_text)
    step()
    samples = []
    for _ in range(10):
        started = time.perf_counter()
        step()
        samples.append(1000 * (time.perf_counter() - started))
    return {"milliseconds": float(np.median(samples)), "megabytes": peak_megabytes()}


def peak_megabytes() -> float:
    """Of this process alone; getrusage would count the memory of the parent as well."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def dense_text_step(
    x: np.ndarray, labels: np.ndarray, W: np.ndarray, R: np.ndarray, A_text: float
) -> Callable[[], object]:
    words = x.shape[1]

    def step() -> None:
        nonlocal W, R
        y = (A_text - words) * x / x.sum(axis=1, keepdims=True) + 1
        drive = y @ np.log(W).T + np.log(np.where(labels[:, None] >= 0, R[labels], R.mean(axis=0)))
        s = np.exp(drive - drive.max(axis=1, keepdims=True))
        s /= s.sum(axis=1, keepdims=True)
        W = W + 0.0089 * (s.T @ y - s.sum(axis=0)[:, None] * W)
        t = (labels[:, None] == np.arange(len(R))).astype(np.float32)
        R = R + 0.0089 * (t.T @ s - t.sum(axis=0)[:, None] * R)

    return step


if __name__ == "__main__":
    main()
