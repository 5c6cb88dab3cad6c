"""Public data sets as non-negative arrays, integer labels and class names."""

from data_tools.dataset import UNLABELED, Dataset
from data_tools.errors import DataError
from data_tools.loading import NAMES, load, takes_option

__all__ = ["NAMES", "UNLABELED", "DataError", "Dataset", "load", "takes_option"]
