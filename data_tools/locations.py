"""Where data sets are looked for, and where they are put."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pooch

from data_tools.errors import DataError

#: Data sets that the operating system's packages install (Debian: dataset-fashion-mnist).
SYSTEM_DATA = Path("/usr/share/datasets")


def cache_dir() -> Path:
    """The user's cache: `$NESI_CACHE`, else the platform's own place."""
    return Path(os.environ.get("NESI_CACHE") or pooch.os_cache("nesi")).expanduser()


def search_dirs(data_dir: str | os.PathLike[str] | None = None) -> list[Path]:
    """Folders that may hold data sets, in the order in which they are looked at."""
    places = []
    if data_dir is not None:
        if not Path(data_dir).expanduser().is_dir():
            raise DataError(f"the data folder {data_dir} does not exist; create it or correct --data-dir.")
        places.append(Path(data_dir).expanduser())
    if os.environ.get("NESI_DATA"):
        places.append(Path(os.environ["NESI_DATA"]).expanduser())
    return [*places, cache_dir(), SYSTEM_DATA]


def download_dir(data_dir: str | os.PathLike[str] | None = None) -> Path:
    """Where `fetch` puts a data set: the folder that was named, else the cache.

    `$NESI_DATA` is not written to: it often is a shared folder that belongs to somebody else.
    """
    return Path(data_dir).expanduser() if data_dir is not None else cache_dir()


@contextmanager
def atomic_file(target: Path) -> Iterator[Path]:
    """A temporary path beside `target` that takes its name only when the block ends well."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        # mkstemp makes files private; data sets may be shared by the users of a machine.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
