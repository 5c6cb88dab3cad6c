"""What all attackers have in common: damage, odd values, and how the program may answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Rng = np.random.Generator
Attacker = Callable[[Rng], None]  # returns if the input was accepted
#: Values that hardly any entry of a file or argument of a function expects.
ODD: list[Any] = [
    None,
    -1,
    0,
    1,
    2.5,
    1e300,
    10**30,
    "abc",
    "",
    [],
    [1],
    [[1, 2]],
    {},
    {"a": 1},
    True,
    "\0",
    "9" * 500,
    "../x",
]


class NotANumber(Exception):
    """A result that should be a number is none, or something was altered without being noticed."""


class Refused(ValueError):
    """The server has refused a request."""


def one_of(rng: Rng, values: Any) -> Any:
    return values[int(rng.integers(len(values)))]


def mutated(content: bytes, rng: Rng) -> bytes:
    """Flipped bits, cut, doubled or replaced parts."""
    damaged = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        if not damaged:
            break
        place = int(rng.integers(len(damaged)))
        kind = int(rng.integers(6))
        if kind < 3:
            damaged[place] ^= 1 << int(rng.integers(8))
        elif kind == 3:
            del damaged[place : place + int(rng.integers(1, 40))]
        elif kind == 4:
            damaged[place:place] = damaged[place : place + int(rng.integers(1, 40))]
        else:
            odd = [b"9" * 400, b"[" * 300, b"\xff\xfe", b"\x00", b"-1", b"nan", b"1e999", b"\\ud800", b"\r", b'"', b"~"]
            damaged[place : place + 1] = odd[int(rng.integers(len(odd)))]
    return bytes(damaged[: int(rng.integers(len(damaged) + 1))] if rng.random() < 0.1 else damaged)
