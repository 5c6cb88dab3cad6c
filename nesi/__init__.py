"""Neural Simpletrons: minimalistic generative networks for learning with few labels."""

__version__ = "0.1.0"

from nesi.errors import NesiError, TrainingFailed
from nesi.estimator import NeSiClassifier

__all__ = ["NeSiClassifier", "NesiError", "TrainingFailed"]
