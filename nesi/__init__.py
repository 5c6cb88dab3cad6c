"""Neural Simpletrons: minimalistic generative networks for learning with few labels."""

import nesi.idle_threads  # noqa: F401  # isort: skip  (before anything that imports NumPy)

from typing import TYPE_CHECKING

from nesi.errors import NesiError, TrainingFailed
from nesi.lazy import lazy_attributes

if TYPE_CHECKING:
    from nesi.estimator.classifier import NeSiClassifier
    from nesi.trained import TrainedNetwork

__version__ = "0.2.0"
__all__ = ["NeSiClassifier", "NesiError", "TrainedNetwork", "TrainingFailed"]

# PyTensor takes seconds to import: whoever only reads a parameter file or records does not wait for it.
__getattr__ = lazy_attributes(
    __name__, {"NeSiClassifier": "nesi.estimator.classifier", "TrainedNetwork": "nesi.trained"}
)
