"""All attackers, by what they attack.

Each makes a hostile input from a random generator and offers it to the program. What the user can fix is refused with a
sentence (`NesiError`, `DataError`, or scikit-learn's ValueError); everything else that is raised is a traceback, and
counts against us, as do results that are not numbers.
"""

from __future__ import annotations

from pathlib import Path

from hostile import Attacker
from on_archives import archives, zipped_arrays
from on_estimator import estimator
from on_files import checkpoints, data_files, record_files
from on_server import labeling_server
from on_settings import configurations, parameter_files
from on_trained import labels_as_given, model_files, new_data


def all_attackers(folder: Path) -> dict[str, tuple[float, list[Attacker]]]:
    """By target: its share of the inputs, and who attacks it."""
    made = {
        "estimator": (0.05, estimator()),
        "labels": (0.05, labels_as_given()),
        "checkpoints": (0.2, checkpoints(_new(folder, "checkpoints"))),
        "records": (0.15, record_files(_new(folder, "records"))),
        "data files": (0.1, data_files(_new(folder, "data"))),
        "archives": (0.06, archives(_new(folder, "archives"))),
        "compressed arrays": (0.06, zipped_arrays(_new(folder, "compressed"))),
        "trained networks": (0.05, model_files(_new(folder, "models"))),
        "new data": (0.08, new_data(_new(folder, "new"))),
        "parameter files": (0.05, parameter_files(_new(folder, "parameters"))),
        "authors' configurations": (0.05, configurations(_new(folder, "configurations"))),
        "labeling server": (0.1, labeling_server(_new(folder, "labeling"))),
    }
    return {name: (share, list(attackers)) for name, (share, attackers) in made.items()}


def _new(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name
