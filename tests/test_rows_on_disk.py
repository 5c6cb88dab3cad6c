"""Data that stays on disk: read in its own type, never copied, learned from as if it were in memory."""

from __future__ import annotations

import pickle
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from command_line import run_here, sentences, write_params
from small_networks import make_data, make_model, make_trainer

from data_tools import DataError, load
from data_tools.rows_on_disk import MappedFile, RowsOnDisk, as_rows_on_disk
from data_tools.signed import settled_pairs
from nesi.errors import NesiError
from nesi.observations import Observations
from nesi.storage.experiment_directory import ExperimentDirectory
from nesi.training.order import in_batches, shuffled_in_blocks

N, D, K = 60, 10, 3


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    X, labels = make_data(N, D, K)
    return X.astype(np.uint8) + np.uint8(1), labels


def saved(path: Path, X: np.ndarray, labels: np.ndarray | None = None) -> Path:
    np.save(path, X)
    if labels is not None:
        np.save(path.with_name(f"{path.stem}.labels.npy"), labels)
    return path


@pytest.fixture
def shards(tmp_path: Path, data: tuple[np.ndarray, np.ndarray]) -> Path:
    """The data in three files of three kinds; the last one without labels."""
    X, labels = data
    folder = tmp_path / "shards"
    folder.mkdir()
    saved(folder / "a.npy", X[:25], labels[:25])
    np.savez(folder / "b.npz", X=X[25:45], y=labels[25:45])
    saved(folder / "c.npy", X[45:])
    return folder


def sparse_shards(folder: Path, X: sp.csr_array, labels: np.ndarray) -> Path:
    folder.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(X.shape[0]), 3)):
        sp.save_npz(folder / f"{number}.npz", sp.csr_matrix(X[rows]))
        np.save(folder / f"{number}.labels.npy", labels[rows])
    return folder


# ---- reading -------------------------------------------------------------------------------------------------------


def test_rows_come_from_any_shard_in_the_order_asked_for(shards: Path, data: tuple[np.ndarray, np.ndarray]) -> None:
    X, labels = data
    loaded = load(shards, test_fraction=0)
    on_disk = loaded.X_train
    assert isinstance(on_disk, RowsOnDisk)
    assert on_disk.dtype == np.uint8
    chosen = np.random.default_rng(0).integers(0, N, 100)
    np.testing.assert_array_equal(on_disk[chosen], X[chosen])
    np.testing.assert_array_equal(on_disk[3:50:7], X[3:50:7])
    np.testing.assert_array_equal(on_disk[labels >= 0], X[labels >= 0])
    np.testing.assert_array_equal(on_disk.selected(chosen)[5:20], X[chosen][5:20])
    np.testing.assert_array_equal(loaded.y_train, np.where(np.arange(N) < 45, labels, -1))
    again = pickle.loads(pickle.dumps(on_disk))
    np.testing.assert_array_equal(again[:], X)
    with pytest.raises(IndexError, match="row 60 is asked for, but there are 60"):
        on_disk[[60]]


def test_sparse_shards_and_parquet_hold_the_same(tmp_path: Path, data: tuple[np.ndarray, np.ndarray]) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    X, labels = data
    scattered = sp.csr_array(X.astype(np.float32) * (X > 2))
    loaded = load(sparse_shards(tmp_path / "sparse", scattered, labels), test_fraction=0)
    assert loaded.X_train.sparse
    np.testing.assert_array_equal(loaded.X_train[::-1].toarray(), scattered.toarray()[::-1])
    folder = tmp_path / "tables"
    folder.mkdir()
    columns = {f"x{d}": X[:, d] for d in range(D)} | {"label": [None if k < 0 else f"k{k}" for k in labels]}
    parquet.write_table(pyarrow.table(columns), folder / "all.parquet", row_group_size=17)
    table = load(folder, test_fraction=0)
    np.testing.assert_array_equal(table.X_train[:], X)
    np.testing.assert_array_equal(table.y_train, labels)
    assert table.class_names == ("k0", "k1", "k2")
    assert list(table.X_train.block_starts) == [0, 17, 34, 51, 60]  # blocks are what is decoded together


def test_columns_of_parquet_files_may_be_in_any_order(tmp_path: Path, data: tuple[np.ndarray, np.ndarray]) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    X, labels = data
    columns = {f"x{d}": X[:, d] for d in range(D)} | {"label": np.where(labels < 0, 0, labels)}
    turned = {name: columns[name] for name in reversed(columns)}
    (tmp_path / "test").mkdir()
    for path, content in (("a", columns), ("b", turned), ("test/c", turned)):
        parquet.write_table(pyarrow.table(content), tmp_path / f"{path}.parquet")
    loaded = load(tmp_path)
    np.testing.assert_array_equal(loaded.X_train[:], np.vstack([X, X]))
    np.testing.assert_array_equal(loaded.X_test[:], X)
    parquet.write_table(
        pyarrow.table({"other" if name == "x3" else name: v for name, v in columns.items()}), tmp_path / "d.parquet"
    )
    with pytest.raises(DataError, match=r"d\.parquet and .*a\.parquet have different columns, such as 'other'"):
        load(tmp_path)


def test_parquet_without_inputs_or_with_two_columns_of_a_name_is_refused(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    column = pyarrow.array([1, 2, 3])
    for names, message in ((["a", "a", "label"], "several columns called 'a'"), (["label"], "has no column of inputs")):
        parquet.write_table(pyarrow.table([column] * len(names), names=names), tmp_path / "a.parquet")
        with pytest.raises(DataError, match=message):
            load(tmp_path)


def test_sparse_rows_are_gone_through_some_megabytes_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X = sp.csr_array(np.ones((40, 50), np.float32))
    on_disk = load(sparse_shards(tmp_path / "sparse", X, np.zeros(40)), test_fraction=0, classes=["0", "1"]).X_train
    monkeypatch.setattr("data_tools.rows_on_disk._CHUNK_BYTES", 50 * 4 * 7)
    assert [rows.shape[0] for _, rows in on_disk.chunks()] == [7, 7, 7, 7, 7, 5]


def test_inputs_that_sparse_rows_give_twice_are_added_up(tmp_path: Path) -> None:
    twice = {"data": np.array([1.0, 2, 4]), "indices": np.array([0, 0, 1]), "indptr": np.array([0, 3])}
    np.savez(tmp_path / "a.npz", shape=np.array([1, 2]), y=np.array([0]), **twice)
    on_disk = load(tmp_path, test_fraction=0, classes=["0", "1"]).X_train
    assert on_disk.sparse
    found = Observations(on_disk, 100).dense_rows(np.array([0]), "float64")
    mean, deviation = Observations(on_disk, 100).moments()
    np.testing.assert_allclose(found, [[1 + 98 * 3 / 7, 1 + 98 * 4 / 7]])
    np.testing.assert_allclose(mean, found[0])
    np.testing.assert_allclose(deviation, 0, atol=1e-6)


def test_a_test_set_and_signs_stay_on_disk_as_well(tmp_path: Path, data: tuple[np.ndarray, np.ndarray]) -> None:
    X, labels = data
    signed = X.astype(np.int16) - 3
    for part, rows in (("train", slice(0, 40)), ("test", slice(40, 60))):
        (tmp_path / part).mkdir()
        saved(tmp_path / part / "points.npy", signed[rows], np.where(labels < 0, 0, labels)[rows])
    with pytest.warns(UserWarning, match="negative values"):
        loaded = load(tmp_path)
    assert isinstance(loaded.X_test, RowsOnDisk)
    expected = np.hstack([np.maximum(signed, 0), np.maximum(-signed, 0)])
    np.testing.assert_array_equal(loaded.X_test[:], expected[40:])
    assert loaded.held_out is None


def test_columns_keep_their_ranges_on_disk(tmp_path: Path) -> None:
    """A table may be learned from in memory, and new rows of it stay on disk."""
    X = np.random.default_rng(0).normal(20, 5, (50, 4)).astype(np.float32)
    pairs = settled_pairs(X, "range")
    assert pairs is not None
    mapped = as_rows_on_disk(np.load(saved(tmp_path / "new.npy", X), mmap_mode="r"))
    found = pairs.of(mapped)
    assert isinstance(found, RowsOnDisk)
    assert (found.shape, found.dtype) == ((50, 8), np.float32)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(found.selected([7, 3])))[:], pairs.of(X)[[7, 3]])


def test_what_is_wrong_with_files_is_one_sentence(tmp_path: Path, data: tuple[np.ndarray, np.ndarray]) -> None:
    X, labels = data
    with pytest.raises(DataError, match=r"has 60 points but 5 labels; give one label per point"):
        load(saved(tmp_path / "few.npy", X, labels[:5]))
    with pytest.raises(DataError, match="has no labeled point; name the classes, or label"):
        load(saved(tmp_path / "none.npy", X))
    with pytest.raises(DataError, match=r"text\.npy holds data of type .*expected numbers"):
        load(saved(tmp_path / "text.npy", X.astype(str), labels))
    (tmp_path / "broken.npy").write_bytes(b"nonsense")
    with pytest.raises(DataError, match=r"broken\.npy cannot be read as an \.npy array"):
        load(tmp_path / "broken.npy")
    np.savez(tmp_path / "zip.npz", y=labels)
    (tmp_path / "zip.npz").rename(saved(tmp_path / "zip.npy", X).with_name("zip.labels.npy"))
    with pytest.raises(DataError, match=r"zip\.labels\.npy holds labels of shape \(\), expected one number or word"):
        load(tmp_path / "zip.npy")
    folder = tmp_path / "mixed"
    folder.mkdir()
    saved(folder / "a.npy", X, labels)
    saved(folder / "b.npy", X[:, :4], labels)
    with pytest.raises(DataError, match="shards of 10 and of 4 inputs"):
        load(folder)
    empty = X.copy()
    empty[7] = 0
    with pytest.raises(NesiError, match="Row 7 of the data is all zero"):
        Observations(RowsOnDisk([MappedFile(saved(tmp_path / "empty.npy", empty))]), 50)
    lost = X.astype(np.float32)
    lost[50, 2] = np.nan
    with pytest.raises(NesiError, match="NaN or infinity"):
        Observations(RowsOnDisk([MappedFile(saved(tmp_path / "nan.npy", lost))]), 50)


def test_extreme_rows_are_scaled_as_in_memory(tmp_path: Path, data: tuple[np.ndarray, np.ndarray]) -> None:
    extreme = data[0].astype(np.float64)
    extreme[3] *= 1e250
    on_disk = Observations(RowsOnDisk([MappedFile(saved(tmp_path / "x.npy", extreme))]), 50)
    np.testing.assert_array_equal(
        on_disk.dense_rows(np.arange(N), "float64"), Observations(extreme, 50).dense_rows(np.arange(N), "float64")
    )


# ---- learning ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"inference": "truncated"}, {"network": "ff+", "greedy": True}])
def test_training_from_disk_is_training_from_memory(
    tmp_path: Path, data: tuple[np.ndarray, np.ndarray], settings: dict[str, object]
) -> None:
    """Number for number, with the same order of points."""
    X, labels = data
    on_disk = as_rows_on_disk(np.load(saved(tmp_path / "x.npy", X), mmap_mode="r"))
    inside, outside = (make_trainer(given, labels, shuffle="blocks", **settings) for given in (X, on_disk))
    by_itself = make_trainer(on_disk, labels, **settings)
    resumed = make_trainer(on_disk, labels, **settings)
    by_itself.run_iteration()
    resumed.restore({name: np.array(values) for name, values in by_itself.state().items()})
    for trainer in (inside, outside, by_itself, resumed):
        for _ in trainer:
            pass
        np.testing.assert_array_equal(trainer.W, inside.W)
        np.testing.assert_array_equal(trainer.R, inside.R)
        assert trainer.history["log_likelihood"] == inside.history["log_likelihood"]
        assert trainer.account()["shuffle"] == "blocks"


def test_sparse_training_from_disk_is_training_from_memory(tmp_path: Path, data: tuple[np.ndarray, np.ndarray]) -> None:
    X, labels = data
    scattered = sp.csr_array(X.astype(np.float32) * (X > 2) + (np.arange(D) == 0))
    on_disk = load(sparse_shards(tmp_path / "sparse", scattered, labels), test_fraction=0).X_train
    for inference in ("exact", "truncated"):
        settings = {"shuffle": False, "inference": inference}
        inside, outside = (make_trainer(given, labels, **settings) for given in (scattered, on_disk))
        for trainer in (inside, outside):
            for _ in trainer:
                pass
        np.testing.assert_array_equal(inside.W, outside.W)
        assert inside.history["log_likelihood"] == outside.history["log_likelihood"]


def test_the_estimator_leaves_a_memory_map_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("nesi.observations._CHUNK_VALUES", "nesi.engines.truncated._INPUTS_AT_ONCE"):
        monkeypatch.setattr(name, 50_000)  # what is 4 to 16 million values otherwise
    monkeypatch.setattr("nesi.engines.inference._VALUES_AT_ONCE", 50_000)
    monkeypatch.setattr("nesi.engines.first_candidates._START_VALUES", 50_000)
    monkeypatch.setattr("data_tools.rows_on_disk._CHUNK_BYTES", 50_000)
    monkeypatch.setattr("nesi.training.order._BYTES_TOGETHER", 50_000)
    rng = np.random.default_rng(0)
    n_points, width = 40_000, 250
    X = rng.integers(0, 200, (n_points, width)).astype(np.uint8)  # 10 MB, 40 MB as float32
    labels = np.where(np.arange(n_points) < 30, np.arange(n_points) % K, -1)
    path, settings = saved(tmp_path / "x.npy", X), {"inference": "truncated", "max_iter": 2, "normalization": 500.0}
    small = np.load(saved(tmp_path / "small.npy", X[:500]), mmap_mode="r")
    make_model(**settings).fit(small, labels[:500]).predict(small)  # compiles
    mapped = np.load(path, mmap_mode="r")
    settings["batch_size"] = 500
    tracemalloc.start()
    model = make_model(**settings).fit(mapped, labels)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3e6 + 100 * n_points  # 7 MB: neither 10 MB of bytes nor 40 MB of floats
    some = slice(0, 300)
    np.testing.assert_array_equal(model.predict(mapped[some]), model.predict(X[some]))
    np.testing.assert_allclose(model.predict_proba(mapped)[some], model.predict_proba(X[some]), rtol=1e-5)


def test_dask_arrays_of_rows(data: tuple[np.ndarray, np.ndarray]) -> None:
    dask_array = pytest.importorskip("dask.array", reason="Dask is an extra: pip install 'nesi[cluster]'")
    X, labels = data
    as_chunks = dask_array.from_array(X, chunks=(17, 4))
    from_blocks = make_model(shuffle=False).fit(as_chunks, labels)
    from_memory = make_model(shuffle=False).fit(X, labels)
    np.testing.assert_array_equal(from_blocks.W_, from_memory.W_)
    np.testing.assert_array_equal(from_blocks.predict(as_chunks), from_memory.predict(X))
    with pytest.raises(DataError, match="compute_chunk_sizes"):
        make_model().fit(as_chunks[as_chunks[:, 0] > 1], labels)


def test_candidates_in_a_file_change_nothing(data: tuple[np.ndarray, np.ndarray]) -> None:
    X, labels = data
    kept = [
        make_trainer(X, labels, network="ff+", inference="truncated", greedy=True, candidates_in=place)
        for place in ("memory", "file")
    ]
    for trainer in kept:
        trainer.run_iteration()
    state = kept[1].state()
    assert isinstance(state["search.units"], np.memmap)
    kept[1].restore({name: np.array(values) for name, values in state.items()})
    for trainer in kept:
        for _ in trainer:
            pass
    np.testing.assert_array_equal(kept[0].W, kept[1].W)
    np.testing.assert_array_equal(kept[0].R, kept[1].R)


# ---- the order of points -------------------------------------------------------------------------------------------


def test_every_point_comes_once_and_neighbours_come_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nesi.observations._BLOCK_BYTES", 50)
    monkeypatch.setattr("nesi.training.order._BYTES_TOGETHER", 2000)
    observed = Observations(np.ones((1003, 5), dtype=np.uint8), 50)
    batches = list(in_batches(shuffled_in_blocks(observed, np.random.default_rng(0)), 30))
    assert [len(batch) for batch in batches] == [30] * 33 + [13]
    order = np.concatenate(batches)
    assert sorted(order) == list(range(1003))
    assert len(np.unique(batches[0] // 10)) > 15  # of the forty blocks that are shuffled together
    assert np.abs(np.diff(order) == 1).mean() < 0.05
    other = np.concatenate(list(in_batches(shuffled_in_blocks(observed, np.random.default_rng(1)), 30)))
    assert (order != other).mean() > 0.9


# ---- the walk to the first candidates ------------------------------------------------------------------------------


def test_a_walk_finds_what_looking_at_all_units_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 60 units on a ring; the walk starts from 12 of them."""
    monkeypatch.setattr("nesi.engines.first_candidates.SAMPLE", 12)
    rng = np.random.default_rng(3)
    place = np.arange(60)[:, None] - np.arange(60)[None, :]
    rings = 1 + 40 * np.exp(-(np.minimum(np.abs(place), 60 - np.abs(place)) ** 2) / 8)
    X = rng.poisson(rings[rng.integers(60, size=2000)])
    labels = np.where(np.arange(2000) < 6, np.arange(2000) % K, -1)
    found = {}
    for way in ("all", "walk"):
        trainer = make_trainer(
            X, labels, C=60, A=600.0, inference="truncated", W_init=rings * 600 / rings.sum(axis=1, keepdims=True),
            truncated={"start": way},
        )  # fmt: skip
        found[way] = trainer.state()["search.units"]
    assert (found["all"][:, 0] == found["walk"][:, 0]).mean() > 0.99
    shared = [len(np.intersect1d(a, b)) for a, b in zip(found["all"], found["walk"], strict=True)]
    assert np.mean(shared) > 9.5
    with pytest.raises(NesiError, match=r"truncated\.start is 'walk', which is for a single network"):
        make_trainer(X, labels, truncated={"start": "walk"}, committee=2)


# ---- experiments ---------------------------------------------------------------------------------------------------


def test_an_experiment_on_shards_trains_and_predicts(tmp_path: Path, shards: Path) -> None:
    params = write_params(
        tmp_path / "p.yaml", dataset=str(shards), C=6, A=60.0, networks=["ff+"], labels=["all"], runs=1, iterations=6,
        inference="truncated", checkpoint_seconds=0.0, data={"test_fraction": 0.2},
    )  # fmt: skip
    assert run_here(params, "--out", tmp_path / "out", "--quiet")[0] == 0
    (record,) = ExperimentDirectory(tmp_path / "out").records()
    assert record["resolved"]["shuffle"] == "blocks"
    assert (tmp_path / "out" / "predictions.csv").read_text().count("\n") == record["n_train"] - record["labels"] + 1
    code, _, errors = run_here(params, "--out", tmp_path / "out2", "--set", "data.labels=none.npy")
    assert code == 2
    assert 'has no option "labels"' in sentences(errors)[-1]
