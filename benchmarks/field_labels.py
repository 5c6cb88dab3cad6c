"""How much is gained by asking about the right fields: random against informative, with an oracle, on real MNIST.

    python benchmarks/field_labels.py --network ff+ --runs 10
    python benchmarks/field_labels.py --network r+ --runs 3

Every run trains one network without classes; then the oracle labels 20, 50, 100, ... of its fields, chosen in
both ways, and training goes on from there. The truncated engine is used throughout. Test error in percent.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

import data_tools
from nesi.fields.choice import CHOICES, FieldMap
from nesi.fields.labels import class_beliefs, without_classes
from nesi.fields.training import FieldLabelTrainer, OracleSurvey, with_answers
from nesi.networks import get_network
from nesi.seeds import random_stream
from nesi.training.settings import TrainingSettings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", choices=("ff", "ff+", "r+"), default="ff+")
    parser.add_argument("--C", type=int, default=1000)
    parser.add_argument("--fields", type=int, nargs="+", default=[20, 50, 100])
    parser.add_argument("--choose", nargs="+", choices=CHOICES, default=list(CHOICES))
    parser.add_argument("--spread", action="store_true", help="answers count for fields that share points, too")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=40, help="at most this many without classes")
    parser.add_argument("--more-iterations", type=int, default=150, help="at most this many per phase with answers")
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args()
    data = data_tools.load("mnist", data_dir=options.data_dir)
    errors: dict[tuple[int, str], list[float]] = {}
    for run in range(1, options.runs + 1):
        for (fields, choose), error in one_run(options, data, run).items():
            errors.setdefault((fields, choose), []).append(error)
    print(table(errors, options.fields, options.choose))


def one_run(options: argparse.Namespace, data: data_tools.Dataset, run: int) -> dict[tuple[int, str], float]:
    settings = TrainingSettings(
        network=options.network,
        C=options.C,
        A=900,
        iterations=options.iterations,
        inference="truncated",
        greedy=get_network(options.network).self_labeling,
        tolerance=0.005,
    )
    K, X = len(data.class_names), data.X_train
    blind = FieldLabelTrainer(settings, X, K, random_stream(1, "benchmark", run), ask=None)
    for _ in blind:
        pass
    W, R, activities = blind.W, without_classes(blind.R[0], K), blind.activities()
    goes_on = replace(settings, iterations=options.more_iterations)
    errors = {}
    for choose in options.choose:
        survey = OracleSurvey(
            data.y_train, max(options.fields), choose, False, random_stream(1, "benchmark fields", run)
        )
        asked, answers = survey(R, activities)
        for fields in options.fields:
            given = {field: answers[field] for field in asked[:fields].tolist() if field in answers}
            if options.spread:
                given = FieldMap(activities).spread(class_beliefs(R), given)
            trainer = with_answers(goes_on, X, W, R, given, random_stream(1, "benchmark goes on", run))
            for _ in trainer:
                pass
            predicted = np.argmax(trainer.trained().posterior(data.X_test), axis=1)
            errors[fields, choose] = 100 * float(np.mean(predicted != data.y_test))
            print(f"{options.network} run {run}, {fields} fields, {choose}: {errors[fields, choose]:.2f} %", flush=True)
    return errors


def table(errors: dict[tuple[int, str], list[float]], numbers: list[int], choices: list[str]) -> str:
    lines = ["| fields | " + " | ".join(choices) + " |", "|---|" + "---|" * len(choices)]
    lines += [f"| {fields} | " + " | ".join(shown(errors[fields, how]) for how in choices) + " |" for fields in numbers]
    return "\n".join(lines)


def shown(values: list[float]) -> str:
    sem = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{np.mean(values):.2f} ± {sem:.2f}"


if __name__ == "__main__":
    main()
