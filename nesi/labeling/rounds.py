"""Training goes on with the answers, in the background, while the page shows how far it is."""

from __future__ import annotations

import json
import threading
import traceback
from pathlib import Path
from typing import Any

from nesi.errors import NesiError
from nesi.experiment.likeness import QUANTILES, log_likelihood_quantiles
from nesi.experiment.predictions import about_data
from nesi.fields.labels import Answers
from nesi.labeling.run_to_label import RunToLabel
from nesi.report import weight_figures
from nesi.report.figures import save_figure
from nesi.storage.records import write_text
from nesi.threads import limited_threads
from nesi.trained import TrainedNetwork

RESULT, WEIGHTS, PICTURE = "result.json", "weights.npz", "fields.png"


class TrainingRound:
    """From the answers to the new test error; the files are written when all of it is known."""

    def __init__(self, run: RunToLabel, directory: Path, answers: Answers, given: Answers, digest: str) -> None:
        """`answers` are the person's; `given` says what follows from them for all fields."""
        self._to_label, self._directory, self._digest = run, directory, digest
        self._answers, self._given = answers, given
        self._stop = threading.Event()
        self._progress: dict[str, Any] = {"status": "running", "iteration": 0, "iterations": 0, "self_labeled": 0.0}
        self._thread = threading.Thread(target=self._run, name="training", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End after the current iteration, with the result so far."""
        self._stop.set()

    def wait(self, timeout: float | None = None) -> None:
        self._thread.join(timeout)

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    @property
    def progress(self) -> dict[str, Any]:
        return dict(self._progress)

    def _run(self) -> None:
        try:
            with limited_threads(self._to_label.task.parameters.threads):
                result = self._train()
            self._progress = {"status": "done", **result}
        except NesiError as error:
            self._progress = {"status": "failed", "sentence": str(error)}
        except Exception as error:  # the page has to hear of it; the terminal gets the details
            traceback.print_exc()
            self._progress = {"status": "failed", "sentence": f"Training failed: {type(error).__name__}: {error}"}

    def _train(self) -> dict[str, Any]:
        trainer = self._to_label.trainer(self._given)
        at_once = self._test_error(trainer.trained())
        remaining = trainer.total_iterations
        for info in trainer:
            self._progress = {
                "status": "running",
                "iteration": info.iteration,
                "iterations": remaining,
                "self_labeled": info.self_labeled,
            }
            if self._stop.is_set():
                break
        network = trainer.trained()
        result: dict[str, Any] = {
            "run": self._to_label.name,
            "answers": len(self._answers),
            "answers_sha256": self._digest,
            "test_error_before": self._to_label.record["test_error"],
            "test_error_with_labels": at_once,
            "test_error_after": self._test_error(network),
            "iterations": trainer.iteration,
            "n_test": len(self._to_label.test_set[1]),
        }
        about = {key: result[key] for key in ("run", "answers", "answers_sha256")}
        quantiles = {QUANTILES: log_likelihood_quantiles(network, self._to_label.points)}
        network.save(self._directory / WEIGHTS, {**about, "data": about_data(self._to_label.dataset)}, quantiles)
        self._draw(network)
        predictions = self._to_label.write_predictions()
        result["predictions"] = None if predictions is None else str(predictions)
        write_text(self._directory / RESULT, json.dumps(result, indent=2) + "\n")
        return result

    def _test_error(self, network: TrainedNetwork) -> float | None:
        X, classes = self._to_label.test_set
        return network.percent_error(X, classes) if len(classes) else None

    def _draw(self, network: TrainedNetwork) -> None:
        dataset, names = self._to_label.dataset, [str(name) for name in self._to_label.dataset.class_names]
        title = f"{self._to_label.name} with {len(self._answers)} labeled fields"
        W, R = network.W, network.R
        if dataset.image_shape:
            n_train = int(self._to_label.record["n_train"])
            figure = weight_figures.learned_fields(W, R, dataset.image_shape, names, n_train, title)
        elif dataset.vocabulary is not None:
            figure = weight_figures.strongest_words(W, R, list(dataset.vocabulary), names, title)
        else:
            figure = weight_figures.strongest_inputs(W, R, names, title)
        save_figure(figure, self._directory / PICTURE)


def stored_result(directory: Path) -> dict[str, Any] | None:
    """The result of the last round, if there was one."""
    try:
        content = json.loads((directory / RESULT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) and "answers_sha256" in content else None
