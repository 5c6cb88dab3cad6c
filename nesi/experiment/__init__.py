"""Experiments: runs, where they are executed, progress, tuning."""

from typing import TYPE_CHECKING

from nesi.lazy import lazy_attributes

if TYPE_CHECKING:
    from nesi.experiment.finished_run import FinishedRun
    from nesi.experiment.running import run_experiment

__all__ = ["FinishedRun", "run_experiment"]
__getattr__ = lazy_attributes(
    __name__, {"FinishedRun": "nesi.experiment.finished_run", "run_experiment": "nesi.experiment.running"}
)
