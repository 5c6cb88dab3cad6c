"""20 Newsgroups, `bydate` split, Matlab format: 11269 + 7505 documents over 61188 words.

Classes are the 20 newsgroups or the six topics of the paper's Section 4.2.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import sparse

from data_tools.class_choice import with_classes
from data_tools.dataset import Dataset
from data_tools.errors import DataError
from data_tools.preprocessing import Preprocessing
from data_tools.tfidf import inverse_document_frequency, tf_idf
from data_tools.triplets import find_plain_or_gz, read_counts, read_integers, read_text_lines

FILES = ("train.data", "train.label", "train.map", "test.data", "test.label", "vocabulary.txt")
TOPICS = ("comp", "rec", "sci", "forsale", "politics", "religion")
N_WORDS = 61188
N_DOCUMENTS = {"train": 11269, "test": 7505}
N_ENTRIES = {"train": 1467345, "test": 967874}
#: SHA-256 over all documents of a split, independent of their order in the file (see `content_digest`).
CONTENT_DIGESTS = {
    "train": "c34a73271873b7348741738266bc622d9c62b5cf88a8e409509657edd2bbaaf7",
    "test": "edee812ea17de3cb72784f206c21d5256d12ad2f29e0e2d7409b722fe51a005e",
}


def topic_of(group: str) -> str:
    """The topic of a newsgroup, e.g. `religion` for alt.atheism and soc.religion.christian."""
    if group == "alt.atheism":
        return "religion"
    for topic in TOPICS:
        if topic in group.split("."):
            return topic
    raise DataError(f"newsgroup {group} belongs to none of the topics {', '.join(TOPICS)}; correct train.map.")


def is_present(folder: Path) -> bool:
    return all((folder / name).is_file() or (folder / f"{name}.gz").is_file() for name in FILES)


def load_newsgroups20(folder: Path, idf: str = "paper", classes: list[str] | None = None) -> Dataset:
    """All 20 newsgroups as classes, or some of them; `idf` is "paper" or "legacy"."""
    return with_classes(_load(folder, "newsgroups20", idf), classes)


def load_newsgroups6(folder: Path, idf: str = "paper") -> Dataset:
    """The six topics as classes; `idf` is "paper" or "legacy"."""
    return _load(folder, "newsgroups6", idf)


def find_matlab_folder(folder: Path) -> Path | None:
    """The folder with the word counts: `folder`, or the subfolder used by the archive and the authors' program."""
    for inner in ("", "matlab", "20news-bydate/matlab"):
        place = folder / inner
        if all(os.path.isfile(place / name) or os.path.isfile(place / f"{name}.gz") for name in FILES[:-1]):
            return place
    return None


def load_matlab_folder(folder: Path, idf: str = "paper", classes: list[str] | None = None) -> Dataset:
    """Your own texts in the same format; vocabulary.txt may be next to the counts or in the parent folder."""
    return with_classes(_load(find_matlab_folder(folder) or folder, str(folder), idf, folder), classes)


def _load(folder: Path, name: str, idf: str, vocabulary_folder: Path | None = None) -> Dataset:
    places = [place for place in (vocabulary_folder, folder) if place is not None]
    place = next((p for p in places if (p / "vocabulary.txt").is_file() or (p / "vocabulary.txt.gz").is_file()), folder)
    vocabulary = tuple(read_text_lines(find_plain_or_gz(place, "vocabulary.txt")))
    groups = read_map(find_plain_or_gz(folder, "train.map"))
    train_counts, y_train = read_split(folder, "train", len(groups), len(vocabulary))
    test_counts, y_test = read_split(folder, "test", len(groups), len(vocabulary))
    X_train, X_test = tf_idf(train_counts, test_counts, idf)
    weights = tuple(inverse_document_frequency(train_counts, idf).tolist())
    class_names = groups
    if name == "newsgroups6":
        class_names = TOPICS
        topic_index = np.array([TOPICS.index(topic_of(group)) for group in groups], dtype=np.int64)
        y_train, y_test = topic_index[y_train], topic_index[y_test]
    how = Preprocessing(len(vocabulary), vocabulary=vocabulary, idf=weights)
    return Dataset(name, X_train, y_train, X_test, y_test, class_names, vocabulary=vocabulary, preprocessing=how)


def read_split(
    folder: Path, split: str, n_groups: int, n_words: int
) -> tuple[sparse.csr_matrix, npt.NDArray[np.int64]]:
    """Raw counts and labels of one split."""
    label_file = find_plain_or_gz(folder, f"{split}.label")
    labels = read_integers(label_file, per_line=1)[:, 0] - 1
    if labels.min() < 0 or labels.max() >= n_groups:
        raise DataError(
            f"{label_file}: labels run from {labels.min() + 1} to {labels.max() + 1}, expected 1 to {n_groups}; "
            f"download the file again."
        )
    counts = read_counts(find_plain_or_gz(folder, f"{split}.data"), len(labels), n_words)
    return counts, labels


def read_map(path: Path) -> tuple[str, ...]:
    """Newsgroup names in the order of their numbers."""
    names: dict[int, str] = {}
    for line in read_text_lines(path):
        if line.strip():
            fields = line.split()
            if len(fields) != 2 or not (fields[1].isascii() and fields[1].isdigit()) or len(fields[1]) > 6:
                raise DataError(f'{path}: line "{line}" is not "newsgroup number"; download the file again.')
            names[int(fields[1])] = fields[0]
    if not names or sorted(names) != list(range(1, len(names) + 1)):
        raise DataError(f"{path}: the newsgroups are not numbered 1, 2, 3, ...; download the file again.")
    return tuple(names[number] for number in sorted(names))


def content_digest(counts: sparse.csr_matrix, labels: npt.NDArray[np.int64]) -> str:
    """SHA-256 over the documents, independent of their order and of file compression.

    Copies of this data set differ in the order of documents within a class, so file checksums say little.
    """
    documents = []
    for row, label in enumerate(labels):
        entries = slice(counts.indptr[row], counts.indptr[row + 1])
        content = np.stack([counts.indices[entries], counts.data[entries]], axis=1).astype("<i8").tobytes()
        documents.append(hashlib.sha256(int(label).to_bytes(8, "little") + content).digest())
    return hashlib.sha256(b"".join(sorted(documents))).hexdigest()


def check_official(folder: Path) -> bool:
    """Raise unless the counts are the official ones; True if every document also matches the reference copy."""
    n_words = len(read_text_lines(find_plain_or_gz(folder, "vocabulary.txt")))
    n_groups = len(read_map(find_plain_or_gz(folder, "train.map")))
    same = True
    for split in ("train", "test"):
        counts, labels = read_split(folder, split, n_groups, n_words)
        found = (len(labels), n_words, counts.nnz)
        expected = (N_DOCUMENTS[split], N_WORDS, N_ENTRIES[split])
        if found != expected:
            raise DataError(
                f"{folder}: {split} has (documents, words, entries) = {found}, expected {expected}; download it again."
            )
        same &= content_digest(counts, labels) == CONTENT_DIGESTS[split]
    return same
