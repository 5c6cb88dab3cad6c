"""Neural Simpletrons: minimalistic generative networks for learning with few labels."""

import nesi._waiting  # noqa: F401  # isort: skip  (before anything that imports NumPy)

from nesi.errors import NesiError, TrainingFailed
from nesi.estimator import NeSiClassifier

__version__ = "0.1.0"
__all__ = ["NeSiClassifier", "NesiError", "TrainingFailed"]
