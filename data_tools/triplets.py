"""The Matlab format of 20 Newsgroups: lines of `document word count`, all numbered from 1."""

from __future__ import annotations

import gzip
import warnings
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import sparse

from data_tools.errors import DataError, counted

#: Far above any real text collection in this format; a damaged number must not allocate memory.
_MOST_COUNTS = 10_000_000


def find_plain_or_gz(folder: Path, name: str) -> Path:
    """`name` or `name.gz` in `folder`."""
    for candidate in (folder / name, folder / f"{name}.gz"):
        if candidate.is_file():
            return candidate
    raise DataError(
        f'{folder} lacks {name} (or {name}.gz); run "python -m data_tools fetch newsgroups" or put the file there.'
    )


def read_bytes(path: Path) -> bytes:
    """The content of a file, unzipped if it is gzipped (detected by content, not by name)."""
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path} is a damaged gzip file ({error}); download it again.") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error}); check the file and its permissions.") from error


def read_text_lines(path: Path) -> list[str]:
    try:
        return read_bytes(path).decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not text ({error}); download it again.") from error


def read_integers(path: Path, per_line: int) -> npt.NDArray[np.int64]:
    """Integers, `per_line` in every line, as an array with that many columns."""
    content = read_bytes(path)
    expected = f"expected lines of {counted(per_line, 'integer')}"
    if content.translate(None, b"0123456789 \t\r\n"):
        raise DataError(f"{path} holds characters other than digits and whitespace, {expected}; download it again.")
    try:
        with warnings.catch_warnings():
            # Older NumPy warns where newer NumPy raises.
            warnings.simplefilter("error")
            numbers = np.fromstring(content, dtype=np.int64, sep=" ")
    except (ValueError, DeprecationWarning) as error:
        raise DataError(f"{path} cannot be read as numbers ({error}), {expected}; download it again.") from error
    n_lines = sum(1 for line in content.splitlines() if line.strip()) if len(content) < 1 << 16 else _count(content)
    if numbers.size == 0 or numbers.size != per_line * n_lines:
        raise DataError(
            f"{path} holds {numbers.size} numbers in {counted(n_lines, 'line')}, {expected}; it is damaged or empty."
        )
    return numbers.reshape(-1, per_line)


def _count(content: bytes) -> int:
    return content.count(b"\n") + (not content.endswith(b"\n"))


def read_counts(path: Path, n_documents: int, n_words: int) -> sparse.csr_matrix:
    """Word counts as float32 CSR of shape (documents, words)."""
    triplets = read_integers(path, per_line=3)
    for column, (what, most) in enumerate((("document", n_documents), ("word", n_words), ("count", _MOST_COUNTS))):
        lowest, highest = triplets[:, column].min(), triplets[:, column].max()
        if lowest < 1 or highest > most:
            raise DataError(
                f"{path}: {what} numbers run from {lowest} to {highest}, expected 1 to {most}; "
                f"the file is damaged or does not belong to this label or vocabulary file."
            )
    documents, words, counts = triplets[:, 0] - 1, triplets[:, 1] - 1, triplets[:, 2]
    matrix = sparse.csr_matrix((counts.astype(np.float32), (documents, words)), shape=(n_documents, n_words))
    if matrix.nnz != len(triplets):
        raise DataError(f"{path}: {len(triplets) - matrix.nnz} entries occur twice; download the file again.")
    matrix.sort_indices()
    return matrix
