"""20 Newsgroups: the triplet reader, tf-idf, and the paper's fully labeled error from class means."""

from __future__ import annotations

import gzip
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_files import reporting_only_data_errors
from scipy import sparse

from data_tools import DataError, Dataset, load
from data_tools.newsgroups import CONTENT_DIGESTS, content_digest, load_newsgroups20, read_split, topic_of
from data_tools.tfidf import inverse_document_frequency, tf_idf
from data_tools.triplets import read_counts

GROUPS = "alt.atheism 1\ncomp.graphics 2\nmisc.forsale 3\n"


def write_small_set(folder: Path) -> Path:
    """Four training and two test documents over five words."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocabulary.txt").write_text("god\npixel\nsale\nthe\nunseen\n")
    (folder / "train.map").write_text(GROUPS)
    (folder / "train.label").write_text("1\n2\n3\n3\n")
    (folder / "train.data").write_text("1 1 4\n1 4 1\n2 2 2\n2 4 9\n3 3 1\n3 4 1\n4 3 5\n4 4 2\n")
    (folder / "test.label").write_text("1\n3\n")
    (folder / "test.data").write_text("1 1 1\n1 4 2\n2 3 1\n2 5 1\n")
    return folder


def class_mean_error(data: Dataset, A: float) -> float:
    """Test error in percent of W_k = mean of y over class k, with y = (A - D) x / sum(x) + 1, never made dense.

    sum_d y_d log W_kd = sum_d log W_kd + (A - D) x . log W_k
    """
    D = data.X_train.shape[1]

    def normalized(X: sparse.csr_matrix) -> sparse.csr_matrix:
        return sparse.diags(1.0 / np.asarray(X.sum(axis=1), dtype=np.float64).ravel()) @ X.astype(np.float64)

    members = sparse.csr_matrix(np.eye(len(data.class_names))[data.y_train].T)
    means = (members @ normalized(data.X_train)).toarray() / np.bincount(data.y_train)[:, None]
    log_W = np.log((A - D) * means + 1)
    scores = log_W.sum(axis=1) + (A - D) * (normalized(data.X_test) @ log_W.T)
    return 100 * float(np.mean(scores.argmax(axis=1) != data.y_test))


@pytest.mark.real_data
@pytest.mark.parametrize(("idf", "published"), [("legacy", 17.83), ("paper", 17.72)])
def test_class_means_give_the_papers_error(real_data: Path, idf: str, published: float) -> None:
    assert round(class_mean_error(load("newsgroups20", data_dir=real_data, idf=idf), A=90000), 2) == published


@pytest.mark.real_data
def test_the_official_numbers(real_data: Path) -> None:
    for split, documents, entries in (("train", 11269, 1467345), ("test", 7505, 967874)):
        counts, labels = read_split(real_data / "20news", split, 20, 61188)
        assert (counts.shape, counts.nnz, len(labels)) == ((documents, 61188), entries, documents)
        assert content_digest(counts, labels) == CONTENT_DIGESTS[split]
    data = load("newsgroups20", data_dir=real_data)
    assert np.bincount(data.y_train).tolist()[:3] == [480, 581, 572]
    assert data.class_names[0] == "alt.atheism"
    assert data.class_names[-1] == "talk.religion.misc"
    assert data.vocabulary is not None
    assert list(data.vocabulary[:3]) == ["archive", "name", "atheism"]
    assert sparse.issparse(data.X_train)
    assert data.X_train.dtype == np.float32


@pytest.mark.real_data
def test_the_six_topics(real_data: Path) -> None:
    data = load("newsgroups6", data_dir=real_data)
    assert data.class_names == ("comp", "rec", "sci", "forsale", "politics", "religion")
    assert np.bincount(data.y_train).tolist() == [2907, 2380, 2372, 582, 1573, 1455]
    assert np.bincount(data.y_test).tolist() == [1945, 1588, 1573, 382, 1050, 967]


@pytest.mark.real_data
def test_loading_takes_less_than_a_gigabyte(real_data: Path) -> None:
    # The peak of getrusage would contain that of the process which started this one.
    script = (
        "import re, data_tools; data_tools.load('newsgroups20');"
        "print(re.search(r'VmHWM:\\s*(\\d+)', open('/proc/self/status').read())[1])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "NESI_DATA": str(real_data)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(answer.stdout) < 1_000_000  # kilobytes


def test_counts_and_labels_of_a_small_set(tmp_path: Path) -> None:
    counts, labels = read_split(write_small_set(tmp_path), "train", 3, 5)
    assert counts.toarray().tolist() == [[4, 0, 0, 1, 0], [0, 2, 0, 9, 0], [0, 0, 1, 1, 0], [0, 0, 5, 2, 0]]
    assert labels.tolist() == [0, 1, 2, 2]


def test_paper_idf_is_learned_on_the_training_set(tmp_path: Path) -> None:
    data = load_newsgroups20(write_small_set(tmp_path))
    # ln(4/2) for a word of one training document, ln(4/3) for two, 0 for all four, ln(4/1) for none.
    assert data.X_test.toarray() == pytest.approx(
        np.array([[math.log(2), 0, 0, 0, 0], [0, 0, math.log(4 / 3), 0, math.log(4)]]), rel=1e-6
    )


def test_legacy_idf_is_floored_and_of_each_set_by_itself(tmp_path: Path) -> None:
    train, _ = read_split(write_small_set(tmp_path), "train", 3, 5)
    test, _ = read_split(tmp_path, "test", 3, 5)
    X_train, X_test = tf_idf(train, test, "legacy")
    assert X_train.toarray()[0] == pytest.approx([4 * math.log(2), 0, 0, 0, 0], rel=1e-6)
    assert X_train.toarray()[2] == pytest.approx([0, 0, 0, 0, 0])  # floor(4/3) = 1: the word is gone
    assert X_test.nnz == 0  # floor(2/2) = 1 for every word of the test set


def test_a_document_without_words_left_stays_where_it_is(tmp_path: Path) -> None:
    assert load_newsgroups20(write_small_set(tmp_path), idf="legacy").X_train[[2]].nnz == 0


def test_idf_never_falls_below_zero() -> None:
    everywhere = sparse.csr_matrix(np.ones((5, 2), dtype=np.float32))
    for variant in ("paper", "legacy"):
        assert inverse_document_frequency(everywhere, variant).tolist() == [0, 0]


def test_an_unknown_idf_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(DataError, match='did you mean "legacy"'):
        load_newsgroups20(write_small_set(tmp_path), idf="legacey")


def test_topics_of_newsgroups() -> None:
    assert [topic_of(g) for g in ("alt.atheism", "talk.religion.misc", "talk.politics.guns", "misc.forsale")] == [
        "religion",
        "religion",
        "politics",
        "forsale",
    ]
    with pytest.raises(DataError, match="none of the topics"):
        topic_of("alt.swedish.chef")


def test_gzipped_files_are_the_same(tmp_path: Path) -> None:
    plain = load_newsgroups20(write_small_set(tmp_path))
    for path in list(tmp_path.iterdir()):
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    zipped = load_newsgroups20(tmp_path)
    assert (plain.X_train != zipped.X_train).nnz == 0


def test_the_digest_does_not_depend_on_the_order_of_documents(tmp_path: Path) -> None:
    counts, labels = read_split(write_small_set(tmp_path), "train", 3, 5)
    order = np.array([2, 0, 3, 1])
    assert content_digest(counts, labels) == content_digest(counts[order], labels[order])
    assert content_digest(counts, labels) != content_digest(counts, labels[::-1])


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("train.data", "", "0 numbers"),
        ("train.data", "1 1\n", "2 numbers in 1 line, "),
        ("train.data", "1 1 1 1\n1 1\n", "lines of 3|entries occur twice"),
        ("train.data", "1 1 x\n", "characters other than"),
        ("train.data", "9 1 1\n", "document numbers run from 9 to 9, expected 1 to 4"),
        ("train.data", "1 6 1\n", "word numbers"),
        ("train.data", "1 0 1\n", "word numbers"),
        ("train.data", "1 1 99999999999999999999\n", "count numbers|cannot be read"),
        ("train.data", "1 1 1\n1 1 2\n", "occur twice"),
        ("train.label", "1\n2\n3\n4\n", "labels run from 1 to 4, expected 1 to 3"),
        ("train.label", "1\n2\n", "document numbers"),
        ("train.map", "alt.atheism\n", "is not"),
        ("train.map", "alt.atheism 1\ncomp.graphics 3\n", "not numbered"),
        ("train.map", "alt.atheism ²\n", "is not"),
        ("vocabulary.txt", "one\n", "word numbers"),
    ],
)
def test_damage_is_named_with_the_file(tmp_path: Path, file: str, content: str, reason: str) -> None:
    (write_small_set(tmp_path) / file).write_text(content)
    with pytest.raises(DataError, match=reason) as caught:
        load_newsgroups20(tmp_path)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", gzip.compress(b"1 1 1\n" * 99, mtime=0)[:-8]])
def test_bytes_that_are_no_text_are_named(tmp_path: Path, content: bytes) -> None:
    for name in ("train.data", "train.map", "vocabulary.txt", "test.label"):
        (write_small_set(tmp_path) / name).write_bytes(content)
        with pytest.raises(DataError, match=name):
            load_newsgroups20(tmp_path)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(
        st.binary(max_size=60),
        st.text("0123456789 \n-.x", max_size=60).map(str.encode),
        st.lists(st.tuples(*[st.integers(0, 7)] * 3), max_size=8).map(
            lambda rows: "\n".join(" ".join(map(str, row)) for row in rows).encode()
        ),
    )
)
def test_random_triplets_give_a_matrix_or_the_modules_own_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "fuzzed.data"
    path.write_bytes(content)
    with reporting_only_data_errors("fuzzed.data"):
        assert read_counts(path, 4, 5).shape == (4, 5)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_random_damage_to_a_gzipped_set_gives_only_the_modules_own_error(tmp_path: Path, data: st.DataObject) -> None:
    write_small_set(tmp_path)
    name = data.draw(st.sampled_from(["train.data", "train.label", "train.map", "test.data", "vocabulary.txt"]))
    content = bytearray((tmp_path / name).read_bytes())
    if data.draw(st.booleans()):
        content = bytearray(gzip.compress(bytes(content), mtime=0))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / name).write_bytes(bytes(content[: data.draw(st.integers(0, len(content)))]))
    with reporting_only_data_errors(str(tmp_path)):
        load_newsgroups20(tmp_path)
