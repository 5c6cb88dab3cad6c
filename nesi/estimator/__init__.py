"""The networks as a scikit-learn estimator: what it is given, how it learns, what it answers, its files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nesi.lazy import lazy_attributes

if TYPE_CHECKING:
    from nesi.estimator.classifier import NeSiClassifier

__all__ = ["NeSiClassifier"]

__getattr__ = lazy_attributes(__name__, {"NeSiClassifier": "nesi.estimator.classifier"})
