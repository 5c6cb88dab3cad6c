"""Reading single keys of a configuration: the right type, or one sentence that says what was expected."""

import math
from collections.abc import Callable, Iterable
from typing import Any

from nesi.config.explanation import nearest_key
from nesi.errors import NesiError
from nesi.legacy.ini import Section
from nesi.legacy.sweeps import per_run

Warn = Callable[[str], None]
_REQUIRED = object()
LARGEST_COUNT = 10_000_000


def shown(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


class Keys:
    """One section of one file. `warn` is told about everything that is not honoured."""

    def __init__(self, section: Section, origin: str, warn: Warn, known: Iterable[str]) -> None:
        self._section, self.origin, self.warn = section, origin, warn
        for key, value in section.items():
            if not isinstance(value, dict) and key not in known:
                near = nearest_key(key, list(known))
                hint = f"; did you mean {near}?" if near else ""
                warn(f"{origin}: the key {shown(key)[1:-1]} is unknown and has no effect{hint}")

    def where(self, key: str) -> str:
        return f"{self.origin}: {key}"

    def __contains__(self, key: str) -> bool:
        return key in self._section

    def given(self, key: str, default: Any = _REQUIRED) -> Any:
        value = self._section.get(key, default)
        if value is _REQUIRED:
            raise NesiError(f"{self.origin}: the key {key} is missing.")
        if isinstance(value, dict):
            raise NesiError(f"{self.where(key)} is a section, but a value was expected.")
        return value

    def text(self, key: str, default: Any = _REQUIRED) -> str:
        value = self.given(key, default)
        if not isinstance(value, str) or not value:
            raise self._wrong(key, value, "a text in quotes")
        return value

    def truth(self, key: str, default: bool) -> bool:
        value = self.given(key, default)
        if not isinstance(value, bool):
            raise self._wrong(key, value, "True or False")
        return value

    def whole(self, key: str, default: Any = _REQUIRED) -> int:
        return as_whole(self.given(key, default), self.where(key))

    def wholes(self, key: str, runs: int, words: dict[str, int] | None = None) -> list[int]:
        """A whole number for every run; `words` such as 'Default' stand for numbers."""
        values = per_run(self.given(key), runs, self.where(key))
        return [as_whole((words or {}).get(value, value), self.where(key), words or ()) for value in values]

    def numbers(self, key: str, runs: int) -> list[float]:
        return [as_number(value, self.where(key)) for value in per_run(self.given(key), runs, self.where(key))]

    def _wrong(self, key: str, value: Any, expected: str) -> NesiError:
        return NesiError(f"{self.where(key)} is {shown(value)}, but {expected} was expected.")


def as_whole(value: Any, where: str, words: Iterable[str] = ()) -> int:
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST_COUNT:
        others = "".join(f" or {word!r}" for word in words)
        raise NesiError(
            f"{where} is {shown(value)}, but an integer from 1 to {LARGEST_COUNT}{others} was expected "
            "(or a sweep: 'inc', 'runs' or 'list')."
        )
    return value


def as_number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1e12:
        raise NesiError(f"{where} is {shown(value)}, but a positive number was expected.")
    return float(value)
