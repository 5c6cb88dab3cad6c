"""Numbers and lists in words."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache


def duration(seconds: float) -> str:
    """Seconds in words: 42 s, 7 min, 3 h 20 min."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def listed(words: Sequence[object]) -> str:
    """a, b and c."""
    texts = [str(word) for word in words]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}" if texts else ""


def counted(number: int, one: str, many: str | None = None) -> str:
    """1 run, 2 runs."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def span(numbers: Sequence[int]) -> str:
    """20, or 20 to 200."""
    return f"{min(numbers)}" if min(numbers) == max(numbers) else f"{min(numbers)} to {max(numbers)}"


def says_little(word: str) -> bool:
    """Whether it is a stop word of English or a single letter, which tells nothing about a unit."""
    return len(word) < 2 or word.lower() in _stop_words()


@cache
def _stop_words() -> frozenset[str]:
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return frozenset(ENGLISH_STOP_WORDS)
