"""Random streams that depend on what a run is, never on when, where or after which other run it is executed."""

import hashlib

import numpy as np


def random_stream(seed: int, *purpose: str | int) -> np.random.Generator:
    """The generator for one purpose, such as ("labels", dataset, 100, run): same seed and purpose, same numbers.

    The purpose becomes the spawn key of the experiment's one SeedSequence, so that streams are independent.
    """
    text = "\x1f".join(str(part) for part in purpose)
    words = np.frombuffer(hashlib.sha256(text.encode()).digest(), dtype="<u4")
    sequence = np.random.SeedSequence(seed, spawn_key=tuple(int(word) for word in words))
    return np.random.Generator(np.random.PCG64(sequence))
