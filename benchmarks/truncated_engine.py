"""Passes over MNIST with the exact and with the truncated engine, side by side, and a whole training.

    NESI_DATA=... python benchmarks/truncated_engine.py [--units 1000 10000 50000] [--no-training] [--quick]

The yardstick is one bare sgemm pass: the product of all points with all weights, the least that a dense E-step costs.
Exact passes are timed on a part of the data and scaled up; truncated ones are whole passes, after the first candidates
have been found. Each number of units has a process of its own, so that its peak memory can be measured.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import data_tools
from nesi.engines.quick_inference import QuickInference
from nesi.observations import Observations
from nesi.training.trainer import Trainer, TrainingSettings

A = 900.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--units", type=int, nargs="+", default=[1000, 10000, 50000])
    parser.add_argument("--no-training", action="store_true", help="do not train a network to convergence")
    parser.add_argument("--quick", action="store_true", help="a tenth of the data")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(one_size(arguments.one, not arguments.no_training, arguments.quick)))
        return
    print("Seconds per pass over MNIST (ff network, first layer, float32); memory of the whole process")
    print(f"{'C':>6} {'sgemm pass':>10} {'exact':>8} {'truncated':>10} {'exact/truncated':>16} {'memory MB':>10}")
    for C in arguments.units:
        options = ["--no-training"] * (arguments.no_training or C != 10000) + ["--quick"] * arguments.quick
        command = [sys.executable, __file__, "--one", str(C), *options]
        result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        bare, exact, truncated, memory = (result[name] for name in ("products", "exact", "truncated", "memory"))
        print(f"{C:>6} {bare:>10.2f} {exact:>8.2f} {truncated:>10.2f} {exact / truncated:>16.1f} {memory:>10.0f}")
        if "training" in result:
            seconds, iterations = result["training"]
            print(
                f"       whole training until converged: {seconds:.0f} s = {seconds / bare:.1f} sgemm passes, ", end=""
            )
            print(f"{iterations} iterations")
            agreement, second_layer, exact_prediction, quick = result["prediction"]
            print(f"       a pass of the second layer alone: {second_layer:.3f} s")
            print(
                f"       prediction of {agreement:.1%} of the test points is the same with truncated posteriors; ",
                end="",
            )
            print(f"{quick:.1f} s with the search for neighbours, {exact_prediction:.1f} s with full posteriors")


def one_size(C: int, whole_training: bool, quick: bool) -> dict[str, object]:
    data = data_tools.load("mnist")
    part_of_data = slice(None, None, 10 if quick else 1)
    X, y_train = data.X_train[part_of_data], data.y_train[part_of_data]
    N = len(X)
    result: dict[str, object] = {}
    settings = TrainingSettings(
        network="ff", C=C, A=A, iterations=200, inference="truncated", greedy=True, tolerance=0.005
    )
    truncated = Trainer(settings, X, y_train, 10, np.random.default_rng(0))  # the first layer sees no label
    started = time.perf_counter()
    passes = [truncated.run_iteration().seconds for _ in range(10)][1:]  # the first one looks for candidates
    if whole_training:
        while truncated.phase == "first":
            truncated.run_iteration()
        result["training"] = (time.perf_counter() - started, truncated.iteration)
    result["memory"] = peak_megabytes()  # before full posteriors need their own
    if whole_training:
        result["prediction"] = prediction(truncated, data.X_test)
    part = X[: max(1000, 10_000_000 // C)]
    exact = Trainer(
        TrainingSettings(network="ff", C=C, A=A, iterations=9),
        part,
        np.full(len(part), -1),
        10,
        np.random.default_rng(0),
    )
    y, log_W = exact._lesson.data.dense_rows(np.arange(min(1000, len(part))), "float32"), np.log(exact.W)
    exact.run_iteration()
    times: dict[str, list[float]] = {"exact": [], "products": []}
    for _ in range(3):
        times["exact"].append(exact.run_iteration().seconds * N / len(part))
        started = time.perf_counter()
        y @ log_W.T
        times["products"].append((time.perf_counter() - started) * N / len(y))
        passes.append(truncated.run_iteration().seconds if truncated.phase == "first" else passes[-1])
    return result | {"truncated": np.median(passes), **{name: np.median(values) for name, values in times.items()}}


def prediction(network: Trainer, X_test: np.ndarray) -> tuple[float, float, float, float]:
    """Agreement of truncated and full posteriors, and seconds: a pass of the second layer, full, truncated."""
    second_layer = np.median([network.run_iteration().seconds for _ in range(30)])

    def truncated_posterior(X: np.ndarray) -> np.ndarray:  # with the search for neighbouring units
        quick = QuickInference(network._spec, network.W, network.R, A, network.settings.truncated.active)
        return quick.posterior(Observations(X, A))[0]

    seconds, predicted = [], []
    for posterior in (network.trained().posterior, truncated_posterior):
        posterior(X_test[:100])  # compiles
        started = time.perf_counter()
        predicted.append(posterior(X_test).argmax(axis=1))
        seconds.append(time.perf_counter() - started)
    return float(np.mean(predicted[0] == predicted[1])), float(second_layer), *seconds


def peak_megabytes() -> float:
    """Of this process alone; getrusage would count the memory of the parent as well."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


if __name__ == "__main__":
    main()
