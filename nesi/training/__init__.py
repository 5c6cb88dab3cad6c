"""Learning: settings, learning rates, starts, stopping, the phases of a training, the trainer."""

from typing import TYPE_CHECKING

from nesi.lazy import lazy_attributes

if TYPE_CHECKING:
    from nesi.training.settings import TrainingSettings
    from nesi.training.trainer import IterationInfo, Trainer

__all__ = ["IterationInfo", "Trainer", "TrainingSettings"]
__getattr__ = lazy_attributes(
    __name__,
    {
        "IterationInfo": "nesi.training.trainer",
        "Trainer": "nesi.training.trainer",
        "TrainingSettings": "nesi.training.settings",
    },
)
