"""The directory of one experiment: where each of its files is, and how they are read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nesi.config.parameters import ExperimentParameters
from nesi.config.reading import load_parameters
from nesi.errors import NesiError
from nesi.storage.arrays import Arrays, load_arrays
from nesi.storage.records import RECORDS, Record, make_directory, read_records, write_text

FIRST_LAYER_PREFIX = "first-layer-"
SETTLED_FILES = ("params.yaml", "dataset.json", "checkpoints/.token", "checkpoints/*.lock")  # before the first run


def run_name(network: str, labels: int, run: int) -> str:
    return f"{cell_name(network, labels)}-run{run}"


def cell_name(network: str, labels: int) -> str:
    return f"{network}-L{labels}"


def name_of(record: Record) -> str:
    return run_name(record["network"], record["labels"], record["run"])


@dataclass(frozen=True)
class DatasetDescription:
    """What figures and reports need to know of the data, and a fingerprint to notice when it changes."""

    name: str
    class_names: list[str]
    image_shape: list[int] | None
    n_train: int
    n_test: int
    n_inputs: int
    fingerprint: str
    vocabulary: list[str] | None
    columns: list[str] | None = None  # names of the inputs, if they are the columns of a table


class ExperimentDirectory:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __str__(self) -> str:
        return str(self.path)

    # ---- where things are ------------------------------------------------------------------------------------------

    @property
    def parameters_file(self) -> Path:
        return self.path / "params.yaml"

    @property
    def records_file(self) -> Path:
        return self.path / RECORDS

    @property
    def dataset_file(self) -> Path:
        return self.path / "dataset.json"

    @property
    def report_file(self) -> Path:
        return self.path / "report.html"

    @property
    def predictions_file(self) -> Path:
        return self.path / "predictions.csv"

    @property
    def figures(self) -> Path:
        return self.path / "figures"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def cluster_token_file(self) -> Path:
        return self.checkpoints / ".token"

    def checkpoint_file(self, run: str) -> Path:
        return self.checkpoints / f"{run}.npz"

    def details_file(self, run: str) -> Path:
        return self.path / "details" / f"{run}.npz"

    def weights_file(self, run: str) -> Path:
        return self.path / "weights" / f"{run}.npz"

    def pruned_file(self, run: str) -> Path:
        return self.path / "pruned" / f"{run}.npz"

    def shown_file(self, run: str) -> Path:
        """The points that the report lets a reader look at."""
        return self.path / "shown" / f"{run}.npz"

    def labeling(self, run: str) -> Path:
        return self.path / "labeling" / run

    def has_begun(self) -> bool:
        """Whether there is anything that took time to make."""
        return self.records_file.exists() or any(self.checkpoints.glob("*.npz"))

    def labeled_weights_file(self, run: str) -> Path:
        """Of a network that was trained on after a person had labeled its fields."""
        return self.labeling(run) / "weights.npz"

    def create(self) -> None:
        for folder in ("checkpoints", "details", "weights", "shown"):
            make_directory(self.path / folder)

    # ---- what they hold --------------------------------------------------------------------------------------------

    def records(self) -> list[Record]:
        """The finished runs; a directory that no experiment has written to is refused."""
        if not self.path.is_dir():
            raise NesiError(f"{self.path}: no such directory; give the --out directory of a run_experiment.py call.")
        if not self.records_file.is_file():
            raise NesiError(f"{self.path}: holds no {RECORDS}; give the --out directory of a run_experiment.py call.")
        return read_records(self.path)

    def parameters(self) -> ExperimentParameters:
        return load_parameters(self.parameters_file)

    def has_weights(self, run: str) -> bool:
        return self.weights_file(run).is_file()

    def details(self, run: str) -> Arrays:
        return load_arrays(self.details_file(run))

    def dataset(self) -> DatasetDescription:
        path = self.dataset_file
        try:
            content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return DatasetDescription(**content)
        except (OSError, ValueError, TypeError):
            raise NesiError(
                f"{path}: missing or damaged; it was written with the records. Remove it if you are sure that the "
                "data is still the same, and continue with --resume."
            ) from None

    def write_dataset(self, description: DatasetDescription) -> None:
        write_text(self.dataset_file, json.dumps(asdict(description)) + "\n")

    def remove_checkpoints(self, runs: Iterable[str]) -> None:
        for run in runs:
            self.checkpoint_file(run).unlink(missing_ok=True)

    def remove_first_layers(self) -> None:
        """When all runs are done nobody needs them any more."""
        for path in self.checkpoints.glob(f"{FIRST_LAYER_PREFIX}*"):
            path.unlink(missing_ok=True)
