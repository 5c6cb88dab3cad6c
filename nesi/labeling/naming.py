"""The names of the classes, given by the person on the page before anything is trained."""

from __future__ import annotations

import threading
from typing import Any

from nesi.errors import NesiError

_MOST_CLASSES, _LONGEST_NAME = 1000, 100


def checked_names(names: list[str], given: str) -> list[str]:
    """`given` says where they come from."""
    stripped = [name.strip() for name in names]
    if len(stripped) < 2 or not all(stripped) or len(set(stripped)) < len(stripped):
        raise NesiError(f"{given}, but must hold at least two different names, such as cat,dog.")
    return stripped


class Naming:
    """What the page asks before training: once given, the names are settled."""

    def __init__(self, data: str) -> None:
        self._data = data
        self._names: list[str] | None = None
        self._given, self._lock = threading.Event(), threading.Lock()

    def state(self) -> dict[str, Any]:
        return {"data": self._data, "named": self._names}

    def give(self, content: Any) -> None:
        names = content.get("names") if isinstance(content, dict) else None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise NesiError("Names have the form {names: [...]}.")
        if len(names) > _MOST_CLASSES or any(len(name) > _LONGEST_NAME for name in names):
            raise NesiError(f"Give at most {_MOST_CLASSES} names of at most {_LONGEST_NAME} characters.")
        with self._lock:
            if self._names is not None:
                raise NesiError("The classes are named already: training has begun.")
            self._names = checked_names(names, "The list of classes is not complete")
            self._given.set()

    def wait(self) -> list[str]:
        """Until the person has named the classes."""
        self._given.wait()
        assert self._names is not None
        return self._names
