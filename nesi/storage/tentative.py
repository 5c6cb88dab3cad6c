"""A directory that is not there when everything was refused before anything had begun."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from nesi.storage.records import locked, make_directory


@contextlib.contextmanager
def tentative(directory: Path, ours: Sequence[str], begun: Callable[[], bool]) -> Iterator[None]:
    """Make and lock the directory; if an error comes before anything has begun, remove what was made of it.

    `ours`: patterns of the files that are written beforehand. What was there before stays.
    """
    made = [path for path in (directory, *directory.parents) if not path.exists()]
    before = set(directory.rglob("*")) if directory.is_dir() else set()
    make_directory(directory)
    with locked(directory):
        try:
            yield
        except Exception:
            if not begun():
                _remove(directory, ours, before, made)
            raise


def _remove(directory: Path, ours: Sequence[str], before: set[Path], made: list[Path]) -> None:
    with contextlib.suppress(OSError):  # nobody is hurt by what can't be removed
        for path in {path for pattern in (*ours, ".lock") for path in directory.glob(pattern)} - before:
            path.unlink(missing_ok=True)
        folders = {path for path in directory.rglob("*") if path.is_dir()} - before
        for folder in [*sorted(folders, key=lambda path: -len(path.parts)), *made]:
            folder.rmdir()
