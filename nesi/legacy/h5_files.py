"""The h5 files of the authors' program: weights of a run, and the points that it used."""

import io
from pathlib import Path
from typing import Any

import numpy as np

from nesi.errors import NesiError
from nesi.experiment.point_choice import PointList
from nesi.storage.records import write_whole

MOST_VALUES = 2**31  # 8 GB of float32: a damaged file must not ask for more


def weight_file_name(run: int, multilayer: int, layer: int) -> str:
    return f"Run{run}M{multilayer}L{layer}.h5"


def index_file_name(run: int) -> str:
    return f"Run{run}Data.h5"


def find_weights(place: str, run: int, multilayer: int, layer: int) -> Path:
    """`place` is a file, or a folder with one file per run and layer."""
    path = Path(place).expanduser()
    return path / weight_file_name(run, multilayer, layer) if path.is_dir() else path


def read_weights(path: Path, shape: tuple[int, int]) -> np.ndarray:
    """The data set `W`, of which only the first slice counts if there are several."""
    array = _read(path, ["W"])["W"]
    if array.ndim == 3 and len(array):
        array = array[0]
    if array.shape != shape:
        raise NesiError(f"{path}: holds weights of the shape {array.shape}, but this network needs {shape}.")
    if array.dtype.kind not in "fiu" or not np.isfinite(array).all() or array.min(initial=0) < 0:
        raise NesiError(f"{path}: holds weights that are not finite and non-negative; they cannot be learned from.")
    return array


def write_weights(path: Path, weights: np.ndarray) -> None:
    _write(path, {"W": np.asarray(weights, dtype=np.float32)})


def find_point_list(place: str, run: int) -> Path:
    """`place` is a file, or what comes before Run<r>Data.h5."""
    path = Path(place).expanduser()
    if path.is_file():
        return path
    return path / index_file_name(run) if path.is_dir() else Path(place + index_file_name(run)).expanduser()


def read_point_list(path: Path, n_train: int, n_test: int) -> PointList:
    names = ("train/labeled", "train/unlabeled", "test")
    arrays = _read(path, names)
    for name, size in zip(names, (n_train, n_train, n_test), strict=True):
        array = arrays[name]
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            raise NesiError(f"{path}: {name} is not a vector of integers.")
        if array.size and (array.min() < 0 or array.max() >= size):
            raise NesiError(f"{path}: {name} names the point {int(array.max())}, but the data has {size} of that kind.")
    labeled, unlabeled, test = (np.asarray(arrays[name], dtype=np.int64) for name in names)
    if len(np.unique(np.concatenate([labeled, unlabeled]))) != len(labeled) + len(unlabeled):
        raise NesiError(f"{path}: names a training point twice.")
    return PointList(np.sort(labeled), np.sort(unlabeled), np.sort(test))


def write_point_list(path: Path, points: PointList) -> None:
    named = {"train/labeled": points.labeled, "train/unlabeled": points.unlabeled, "test": points.test}
    _write(path, {name: np.asarray(array, dtype=np.int64) for name, array in named.items()})


def _h5py() -> Any:
    try:
        import h5py
    except ImportError:
        raise NesiError("h5 files need the package h5py; pip install 'nesi[legacy]'.") from None
    return h5py


def _read(path: Path, names: Any) -> dict[str, np.ndarray]:
    h5py = _h5py()
    if not path.is_file():
        raise NesiError(f"{path}: no such h5 file.")
    arrays = {}
    try:
        with h5py.File(path, "r") as file:
            for name in names:
                if not isinstance(file.get(name), h5py.Dataset):
                    raise NesiError(f"{path}: lacks the data set {name}; it is not a file of the authors' program.")
                if file[name].size is None or file[name].size > MOST_VALUES:
                    raise NesiError(f"{path}: {name} says it has the shape {file[name].shape}; the file is damaged.")
                arrays[name] = np.asarray(file[name][()])
    except NesiError:
        raise
    except (OSError, KeyError, ValueError, RuntimeError, TypeError) as error:
        raise NesiError(f"{path}: damaged or not an h5 file ({type(error).__name__}).") from None
    return arrays


def _write(path: Path, arrays: dict[str, np.ndarray]) -> None:
    h5py = _h5py()

    def write(stream: Any) -> None:
        content = io.BytesIO()  # h5py wants to read what it has written; `stream` can only be written
        with h5py.File(content, "w") as file:
            for name, array in arrays.items():
                file[name] = array
        stream.write(content.getbuffer())

    write_whole(path, write)
