"""`load`: a public data set by name, or your own data by path."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from data_tools.dataset import Dataset
from data_tools.errors import DataError, nearest
from data_tools.locations import download_dir, search_dirs

#: Data sets in files: folder, module, loader, and options fixed by the name.
_IN_FILES: dict[str, tuple[str, str, str, dict[str, str]]] = {
    "mnist": ("mnist", "mnist", "load_mnist", {}),
    "fashion-mnist": ("fashion-mnist", "mnist", "load_fashion_mnist", {}),
    "newsgroups20": ("20news", "newsgroups", "load_newsgroups20", {}),
    "newsgroups6": ("20news", "newsgroups", "load_newsgroups6", {}),
    "nist-digits": ("nist", "nist", "load_nist", {"name": "nist-digits"}),
    "nist-letters": ("nist", "nist", "load_nist", {"name": "nist-letters"}),
    "nist-vowels": ("nist", "nist", "load_nist", {"name": "nist-vowels"}),
    "ocr-letters": ("nist", "ocr_letters", "load_ocr_letters", {}),
    **{
        f"emnist-{split}": ("emnist", "emnist", "load_emnist", {"split": split})
        for split in ("byclass", "bymerge", "balanced", "digits", "letters", "mnist")
    },
    "emnist-part-digits": ("emnist-part", "emnist_part", "load_digits", {}),
    "emnist-part-letters": ("emnist-part", "emnist_part", "load_letters", {}),
}
#: Data sets that cannot be fetched, and the files they consist of.
_WITHOUT_SOURCE = {
    "nist-vowels": "sd19-vowels-128x128-png.tar.xz",
    "ocr-letters": "ocr-letters-16x8.npz",
    "emnist-part-digits": "digits-{train,test}-{images-idx3,labels-idx1}-ubyte.gz",
    "emnist-part-letters": "letters-{train,test}-{images-idx3,labels-idx1}-ubyte.gz",
}
#: Data sets that need no file.
_EMBEDDED = {"digits": ("digits", "load_digits"), "generated": ("generated", "generate")}
#: Own data, by file extension.
_BY_ENDING = {
    ".npz": ("own_arrays", "load_npz"),
    ".npy": ("own_shards", "load_npy"),
    ".csv": ("own_tables", "load_table"),
    ".tsv": ("own_tables", "load_table"),
    ".parquet": ("own_tables", "load_table"),
    ".feather": ("own_tables", "load_table"),
    ".arrow": ("own_tables", "load_table"),
    ".svmlight": ("own_arrays", "load_svmlight"),
    ".svm": ("own_arrays", "load_svmlight"),
    ".libsvm": ("own_arrays", "load_svmlight"),
}
NAMES = (*_IN_FILES, *_EMBEDDED)

Loader = Callable[..., Dataset]


def load(
    name_or_path: str | os.PathLike[str],
    data_dir: str | os.PathLike[str] | None = None,
    fetch: bool = True,
    **options: Any,
) -> Dataset:
    """Load a data set by name (see `NAMES`), or your own .npy, .npz, table, .svmlight or folder by path.

    Named data sets are looked up in `data_dir`, then `$NESI_DATA`, then the user's cache, and small ones are
    fetched if they are missing and `fetch` is true. Options belong to the data set, e.g. `idf="legacy"`.
    """
    name = os.fspath(name_or_path)
    if name in _EMBEDDED:
        return _call(name, _loader(*_EMBEDDED[name]), (), options)
    if name in _IN_FILES:
        folder_name, module, function, fixed = _IN_FILES[name]
        folder = _find(name, folder_name, data_dir) or _get(name, folder_name, data_dir, fetch)
        return _call(name, partial(_loader(module, function), **fixed), (folder,), options, hidden=tuple(fixed))
    return _load_own(Path(name).expanduser(), options)


def takes_option(name_or_path: str, option: str) -> bool:
    """Whether the data set has this option."""
    if name_or_path in _EMBEDDED:
        loader = _loader(*_EMBEDDED[name_or_path])
    elif name_or_path in _IN_FILES:
        loader = _loader(*_IN_FILES[name_or_path][1:3])
    elif (path := Path(name_or_path).expanduser()).is_dir():
        loader = _folder_loader(path)
    elif path.suffix.lower() in _BY_ENDING:
        loader = _loader(*_BY_ENDING[path.suffix.lower()])
    else:
        return False
    return option in inspect.signature(loader).parameters


def _folder_loader(path: Path) -> Loader:
    """Files of MNIST and 20 Newsgroups are recognised by name, shards by their endings; anything else is one folder per
    class."""
    if import_module("data_tools.mnist").is_present(path):
        return _loader("mnist", "load_idx_folder")
    if import_module("data_tools.newsgroups").find_matlab_folder(path) is not None:
        return _loader("newsgroups", "load_matlab_folder")
    if import_module("data_tools.own_shards").is_present(path):
        return _loader("own_shards", "load_shards")
    return _loader("own_folders", "load_folder")


def _load_own(path: Path, options: dict[str, Any]) -> Dataset:
    if path.is_dir():
        return _call(str(path), _folder_loader(path), (path,), options)
    if path.suffix.lower() in _BY_ENDING and path.is_file():
        return _call(str(path), _loader(*_BY_ENDING[path.suffix.lower()]), (path,), options)
    if path.is_file():
        raise DataError(f"{path} has an unknown file extension; use {', '.join(_BY_ENDING)} or one folder per class.")
    if path.suffix.lower() in _BY_ENDING or len(path.parts) > 1:
        raise DataError(f"{path} does not exist; correct the path to your data.")
    raise DataError(
        f'there is no data set "{path}"{nearest(str(path), NAMES)}; use one of {", ".join(NAMES)}, '
        f"or the path to your own data."
    )


def _loader(module: str, function: str) -> Loader:
    """Import modules only when needed: Pillow or scikit-learn should not slow down the others."""
    loader: Loader = getattr(import_module(f"data_tools.{module}"), function)
    return loader


def _call(
    name: str, loader: Loader, arguments: tuple[Any, ...], options: dict[str, Any], hidden: tuple[str, ...] = ()
) -> Dataset:
    known = [option for option in inspect.signature(loader).parameters if option not in hidden][len(arguments) :]
    for option in options:
        if option not in known:
            raise DataError(
                f'{name} has no option "{option}"{nearest(option, known)}; '
                f"its options are: {', '.join(known) if known else 'none'}."
            )
    try:
        return loader(*arguments, **options)
    except DataError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        if not options:
            raise
        given = ", ".join(f"{option}={value!r}" for option, value in options.items())
        raise DataError(f"{name}: an option has a wrong value ({given}: {error}); correct it.") from error


def _find(name: str, folder_name: str, data_dir: str | os.PathLike[str] | None) -> Path | None:
    """The first folder that holds all files of the data set."""
    for place in search_dirs(data_dir):
        if _is_present(name, place / folder_name):
            return place / folder_name
    return None


def _is_present(name: str, folder: Path) -> bool:
    if not folder.is_dir():
        return False
    module = import_module(f"data_tools.{_IN_FILES[name][1]}")
    if name.startswith("nist-"):
        return module.find_source(folder, name) is not None
    return bool(module.is_present(folder))


def _get(name: str, folder_name: str, data_dir: str | os.PathLike[str] | None, fetch: bool) -> Path:
    """Fetch missing files, or say in one sentence how to get them and where to put them."""
    from data_tools.fetch import fetch as fetch_files
    from data_tools.fetch import source_of
    from data_tools.sources import SOURCES

    looked_in = ", ".join(str(place) for place in search_dirs(data_dir)[:-1])
    target = download_dir(data_dir) / folder_name
    if name in _WITHOUT_SOURCE:
        files = _WITHOUT_SOURCE[name]
        raise DataError(f"{name} was not found in {looked_in} and has no public source; put {files} into {target}.")
    source = source_of(name)
    command = next(key for key, candidate in SOURCES.items() if candidate is source)
    if fetch and source.automatic:
        return fetch_files(command, data_dir)
    raise DataError(
        f'{name} was not found in {looked_in}; run "python -m data_tools fetch {command}" '
        f"(about {source.megabytes} MB), or put its files into {target}."
    )
