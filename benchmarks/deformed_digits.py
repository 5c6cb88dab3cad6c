"""Millions of points like MNIST's: real digits, shifted, turned, slanted and scaled a little, on disk as bytes.

    python benchmarks/deformed_digits.py FOLDER --points 4000000

writes shards of 100,000 points, as `dataset: FOLDER` in a parameter file takes them, and the test set of MNIST. The
first 60,000 points are the real digits as they are; labels are those of the digits that points were made from. What is
there already is kept, so that more points can be added, and an interrupted call be repeated.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
from numba import njit

from data_tools import load

SHARD = 100_000  # points
SIDE = 28
SHIFT, ANGLE, SLANT, SCALE = 1.5, np.deg2rad(10), 0.15, 0.1  # at most, in pixels, radians and parts of one


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--points", type=int, default=4_000_000)
    given = parser.parse_args()
    make(given.folder, given.points)


def make(folder: Path, n_points: int) -> None:
    """The first `n_points` are the same whatever else is made."""
    mnist = load("mnist")
    folder.mkdir(parents=True, exist_ok=True)
    save(folder / "test" / "digits.npy", mnist.X_test.reshape(-1, SIDE, SIDE), mnist.y_test)
    for number, first in enumerate(range(0, n_points, SHARD)):
        path = folder / f"digits-{number:04d}.npy"
        count = min(SHARD, n_points - first)
        if path.is_file() and len(np.load(path, mmap_mode="r")) == count:
            continue
        rng = np.random.default_rng(np.random.SeedSequence((number, 19)))
        origin, change = rng.integers(len(mnist.y_train), size=SHARD), rng.uniform(-1, 1, (SHARD, 5))
        if number == 0:  # the real ones
            origin[: len(mnist.y_train)], change[: len(mnist.y_train)] = np.arange(len(mnist.y_train)), 0
        images = np.empty((count, SIDE, SIDE), dtype=np.uint8)
        deform(mnist.X_train.reshape(-1, SIDE, SIDE), origin, change, images)
        save(path, images, mnist.y_train[origin[:count]])
        print(path, flush=True)


def save(path: Path, images: np.ndarray, labels: np.ndarray) -> None:
    """Both, or neither."""
    path.parent.mkdir(exist_ok=True)
    np.save(path.with_name(f"{path.stem}.labels.npy"), labels.astype(np.int8))
    unfinished = path.with_name(f"{path.stem}.unfinished")
    with unfinished.open("wb") as stream:
        np.save(stream, images)
    os.replace(unfinished, path)


@njit
def deform(digits, origin, change, images):  # type: ignore[no-untyped-def]
    """Bilinear interpolation, in `images`."""
    middle = (SIDE - 1) / 2
    for n in range(len(images)):
        digit = digits[origin[n]]
        angle, slant, scale = ANGLE * change[n, 2], SLANT * change[n, 3], 1 + SCALE * change[n, 4]
        cos, sin = np.cos(angle) / scale, np.sin(angle) / scale
        for i in range(SIDE):
            for j in range(SIDE):
                y, x = i - middle - SHIFT * change[n, 0], j - middle - SHIFT * change[n, 1]
                x += slant * y
                v, h = cos * y - sin * x + middle, sin * y + cos * x + middle
                top, left = int(np.floor(v)), int(np.floor(h))
                total = 0.0
                for a in range(2):
                    for b in range(2):
                        if 0 <= top + a < SIDE and 0 <= left + b < SIDE:
                            weight = (1 - abs(v - top - a)) * (1 - abs(h - left - b))
                            total += weight * digit[top + a, left + b]
                images[n, i, j] = np.uint8(total + 0.5)


if __name__ == "__main__":
    main()
