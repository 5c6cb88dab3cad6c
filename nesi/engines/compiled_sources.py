"""Where PyTensor puts the source of what it compiles: a folder that goes away with the process.

It writes every generated function into a file of its own in the temporary directory and never removes it: some twenty
files for each process that trains.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytensor.link.numba.cache
import pytensor.link.utils

_PREFIX = "nesi-sources-"


def keep_sources_together() -> None:
    """From now on PyTensor writes its sources to our folder."""
    for module in (pytensor.link.numba.cache, pytensor.link.utils):
        if hasattr(module, "NamedTemporaryFile"):
            module.NamedTemporaryFile = _in_our_folder


def _in_our_folder(*arguments: Any, **options: Any) -> Any:
    return tempfile.NamedTemporaryFile(*arguments, **{"dir": _folder(os.getpid()).name, **options})


@cache
def _folder(pid: int) -> tempfile.TemporaryDirectory[str]:
    """Of this process: a child that was forked must not lose its sources when its parent ends."""
    remove_forgotten(Path(tempfile.gettempdir()))
    return tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{pid}-")


def remove_forgotten(place: Path) -> None:
    """Folders of our own processes that were killed before they could remove them."""
    for folder in place.glob(f"{_PREFIX}*"):
        pid = folder.name.removeprefix(_PREFIX).partition("-")[0]
        try:
            if pid.isdigit() and folder.lstat().st_uid == os.getuid() and not _is_alive(int(pid)):
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's
        pass
    return True
