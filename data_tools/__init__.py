"""Public data sets as non-negative arrays, integer labels and class names."""

from data_tools.dataset import UNLABELED, Dataset
from data_tools.errors import DataError
from data_tools.loading import NAMES, load, takes_option
from data_tools.preprocessing import Preprocessing, preprocessing_of

__all__ = ["NAMES", "UNLABELED", "DataError", "Dataset", "Preprocessing", "load", "preprocessing_of", "takes_option"]
