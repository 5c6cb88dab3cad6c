"""Where data sets are looked for and stored."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pooch

from data_tools.errors import DataError

#: Data sets installed by operating system packages (Debian: dataset-fashion-mnist).
SYSTEM_DATA = Path("/usr/share/datasets")


def cache_dir() -> Path:
    """The user's cache: `$NESI_CACHE`, else the platform's default."""
    return Path(os.environ.get("NESI_CACHE") or pooch.os_cache("nesi")).expanduser()


def search_dirs(data_dir: str | os.PathLike[str] | None = None) -> list[Path]:
    """Folders that may hold data sets, in search order."""
    places = []
    if data_dir is not None:
        if not Path(data_dir).expanduser().is_dir():
            raise DataError(f"the data folder {data_dir} does not exist; create it or correct --data-dir.")
        places.append(Path(data_dir).expanduser())
    if os.environ.get("NESI_DATA"):
        places.append(Path(os.environ["NESI_DATA"]).expanduser())
    return [*places, cache_dir(), SYSTEM_DATA]


def download_dir(data_dir: str | os.PathLike[str] | None = None) -> Path:
    """Where `fetch` puts a data set: the given folder, else the cache.

    It never writes to `$NESI_DATA`, which is often a shared folder that belongs to somebody else.
    """
    return Path(data_dir).expanduser() if data_dir is not None else cache_dir()


@contextmanager
def atomic_file(target: Path) -> Iterator[Path]:
    """A temporary path next to `target` that is renamed to it only if the block succeeds."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        # mkstemp creates private files, but data sets may be shared by the users of a machine.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
