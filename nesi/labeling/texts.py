"""The texts behind a field: the words that say something, and the training texts as they were written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from scipy import sparse

from data_tools.errors import DataError
from data_tools.own_folders import read_text
from nesi.report.wording import says_little as is_common

LONGEST_TEXT = 20_000  # characters that are sent to the page
_IN_TOO_MANY = 0.5  # of the texts: such a word tells nothing about one field
_FEWEST_TEXTS = 20  # before the share of texts that hold a word is trusted


class Document(TypedDict):
    name: str
    text: str
    whole: bool  # as it was written; else the words that were counted, or only the beginning


def says_little(X: Any, vocabulary: Sequence[str]) -> np.ndarray:
    """Which words are not shown: the usual stop words of English, single letters, and what is in most of the texts."""
    common = np.array([is_common(word) for word in vocabulary])
    if X.shape[0] >= _FEWEST_TEXTS:
        common |= _share_of_texts(X) > _IN_TOO_MANY
    return common


def _share_of_texts(X: Any) -> np.ndarray:
    counts = sparse.csr_array(X)
    return np.bincount(counts.indices[counts.data != 0], minlength=X.shape[1]) / X.shape[0]


def document(
    file: Path | None, row: np.ndarray, vocabulary: Sequence[str], hidden: np.ndarray, number: int
) -> Document:
    """The text of the file. Where there are only counts, or the file is gone: all its words, the strongest first."""
    if file is not None and file.is_file():
        try:
            text = read_text(file).strip()
        except DataError:
            pass
        else:
            return {"name": file.name, "text": text[:LONGEST_TEXT], "whole": len(text) <= LONGEST_TEXT}
    shown = [int(index) for index in np.argsort(-row, kind="stable") if row[index] > 0 and not hidden[index]]
    text = " ".join(str(vocabulary[index]) for index in shown)
    return {"name": f"text {number}", "text": text[:LONGEST_TEXT], "whole": False}
