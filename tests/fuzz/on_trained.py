"""What was trained: files of networks that were altered with care, and hostile new data for good ones."""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from hostile import ODD, Attacker, NotANumber, Rng, mutated, one_of
from on_estimator import check_answers
from on_settings import altered
from PIL import Image
from small_networks import make_data, make_model

from data_tools import Preprocessing
from nesi import NeSiClassifier
from nesi.experiment.predictions import Predictor
from nesi.storage.arrays import load_described_arrays, save_arrays
from nesi.trained import TrainedNetwork


def _odd_array(array: np.ndarray, rng: Rng) -> np.ndarray:
    changed: Any = array.copy()
    kind = int(rng.integers(7))
    if kind == 0 and changed.size and changed.dtype.kind == "f":
        changed.flat[int(rng.integers(changed.size))] = one_of(rng, [np.nan, np.inf, -1.0, 1e30, 0.0])
    elif kind == 1:
        changed = changed[: int(rng.integers(len(changed) + 1))] if changed.ndim else changed
    elif kind == 2:
        changed = changed.reshape(-1)
    elif kind == 3:
        changed = changed.astype(one_of(rng, ["int64", "complex64", "bool", "float16", "<U5", "longdouble"]))
    elif kind == 4:
        changed = changed[None]
    elif kind == 5:
        changed = np.zeros_like(changed)
    else:
        changed = np.zeros((0, 0), changed.dtype)
    return np.asarray(changed)


def model_files(folder: Path) -> Iterator[Attacker]:
    """Whole and with right checksums: what another program, or a person with an editor, might have written."""
    X, labels = make_data()
    good, path = folder / "good.npz", folder / "model.npz"
    make_model(max_iter=2, class_prior=[0.5, 0.3, 0.2]).fit(X, labels).save(good, X)
    arrays, about = load_described_arrays(good)
    about = json.loads(json.dumps(about))

    def attack(rng: Rng) -> None:
        damaged, described = dict(arrays), about
        if rng.random() < 0.5:
            name = one_of(rng, sorted(damaged))
            damaged[name] = _odd_array(damaged[name], rng)
        if rng.random() < 0.7:
            described = altered(about, rng)
        if rng.random() < 0.03:
            described = one_of(rng, ODD)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            save_arrays(path, damaged, described)
            kind = int(rng.integers(3))
            if kind == 0:
                check_answers(NeSiClassifier.load(path), X)
            elif kind == 1:
                _check(TrainedNetwork.load(path).posterior(X))
            else:
                found = Predictor.load(path).predict(X, list(map(str, range(len(X)))))
                _check(found.posterior)
                found.to_csv(), found.summary()

    yield attack


def _check(posterior: np.ndarray) -> None:
    if not np.isfinite(posterior).all() or np.abs(posterior.sum(axis=1) - 1).max(initial=0) > 1e-3:
        raise NotANumber("a posterior")


def _new_files(folder: Path) -> list[tuple[Path, Preprocessing]]:
    import pyarrow as pa
    import pyarrow.feather
    import pyarrow.parquet

    X = np.random.default_rng(0).integers(0, 200, (5, 4))
    names = ("a", "b", "c", "d")
    table = Preprocessing(4, columns=names, label_column="label", ignored_columns=("name",))
    lines = ["name,a,b,c,d,label", *(f"x{n},{','.join(map(str, row))},1" for n, row in enumerate(X))]
    (folder / "new.csv").write_text("\n".join(lines))
    (folder / "bare.tsv").write_text("\n".join("\t".join(map(str, row)) for row in X))
    (folder / "new.svm").write_text("\n".join(f"1 {' '.join(f'{d + 1}:{v}' for d, v in enumerate(row))}" for row in X))
    np.savez(folder / "new.npz", X=X)
    columns = pa.table({"name": ["x"] * 5, **{name: X[:, place] for place, name in enumerate(names)}})
    pyarrow.parquet.write_table(columns, folder / "new.parquet")
    pyarrow.feather.write_feather(columns, folder / "new.feather")
    picture = io.BytesIO()
    Image.fromarray(X[:2, :2].astype(np.uint8)).save(picture, format="PNG")
    (folder / "new.png").write_bytes(picture.getvalue())
    (folder / "text").write_text("one two three two")
    (folder / "new.idx3-ubyte").write_bytes(bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 2]) + bytes(range(8)))
    (folder / "test.data").write_text("1 1 3\n1 4 1\n2 2 5\n")
    words = Preprocessing(4, vocabulary=("one", "two", "three", "four"), idf=(1.0, 0.5, 2.0, 1.0))
    pixels = Preprocessing(4, image_shape=(2, 2), resize=True)
    of_columns = [(name, table) for name in ("new.csv", "new.parquet", "new.feather")]
    plain = [(name, Preprocessing(4)) for name in ("bare.tsv", "new.svm", "new.npz", "new.idx3-ubyte")]
    others = [("new.png", pixels), ("text", words), ("test.data", words)]
    return [(folder / name, how) for name, how in (*of_columns, *plain, *others)]


def new_data(folder: Path) -> Iterator[Attacker]:
    """`nesi predict`: damaged files, and files with values and columns that do not fit."""
    rng = np.random.default_rng(0)
    fitted = make_model(max_iter=2).fit(rng.random((20, 4)) + 0.1, np.arange(20) % 3)._network()

    def attacker(path: Path, how: Preprocessing) -> Attacker:
        content = path.read_bytes()
        predictor = Predictor(str(path), fitted, ["0", "1", "2"], how, None)

        def attack(rng: Rng) -> None:
            path.write_bytes(mutated(content, rng))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = predictor.predict_files(path)
            _check(found.posterior)
            found.to_csv(probabilities=True), found.summary()

        return attack

    for path, how in _new_files(folder):
        yield attacker(path, how)


# ---- labels ----------------------------------------------------------------------------------------------------------

_LABELS: list[Any] = [
    0,
    1,
    2,
    -1,
    "cat",
    "dog",
    "",
    " ",
    None,
    float("nan"),
    True,
    np.nan,
    np.int8(1),
    np.float32(2),
    "1",
]
_STRANGE: list[Any] = [
    1j,
    [1],
    {},
    object(),
    b"x",
    np.inf,
    10**400,
    np.datetime64("NaT"),
    "nan",
    1e300,
    (1, 2),
    np.str_("z"),
]


def _as_given(labels: list[Any], rng: Rng) -> Any:
    import pandas as pd

    makers: list[Callable[[Any], Any]] = [
        list,
        tuple,
        np.asarray,
        lambda y: np.asarray(y, dtype=object),
        pd.Series,
        lambda y: pd.Series(y, dtype="category"),
        lambda y: pd.Series(y, dtype="Int64"),
        lambda y: pd.Series(y, dtype="string"),
        lambda y: np.asarray(y)[:, None],
        lambda y: pd.DataFrame({"y": y}),
    ]
    try:
        return one_of(rng, makers)(labels)
    except (TypeError, ValueError, OverflowError):  # NumPy or pandas refuse to hold these
        return labels


def labels_as_given() -> Iterator[Attacker]:
    X = make_data(N=12)[0]

    def attack(rng: Rng) -> None:
        kinds = [one_of(rng, _LABELS) for _ in range(int(rng.integers(1, 4)))]
        labels = [one_of(rng, kinds) for _ in range(12 if rng.random() > 0.05 else 5)]
        if rng.random() < 0.3:
            labels[int(rng.integers(len(labels)))] = one_of(rng, _STRANGE)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            y = _as_given(labels, rng)
            model = make_model(max_iter=1)
            if rng.random() < 0.2:
                model.partial_fit(X, y, classes=one_of(rng, [None, [0, 1, 2], ["cat", "dog"], [1], "ab", 3, y]))
            else:
                model.fit(X, y)
            check_answers(model, X)
            model.score(X, y)

    yield attack
