"""How fast NIST SD19 images become 28x28 ones, and how much memory that takes besides the result.

    python benchmarks/nist_pipeline.py [--images N] [--picture docs/nist_pipeline.png]

Takes the real vowels where `$NESI_DATA` has them, else made-up blots. One core and all cores are measured side by
side in one run; the first column is the preprocessing alone, the second the whole way from the archive.
"""

from __future__ import annotations

import argparse
import io
import itertools
import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from data_tools.archives import read_members
from data_tools.image_pipeline import convert_images
from data_tools.nist import VOWELS_FILE
from data_tools.nist_images import RAW_SIDE, SIDE, preprocessed_pixels, raw_pixels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=10000, help="how many (the same ones again if there are fewer)")
    parser.add_argument("--picture", type=Path, help="also draw some images before and after")
    arguments = parser.parse_args()

    archive = Path(os.environ.get("NESI_DATA", "")) / "nist" / VOWELS_FILE
    encoded = list(_real(archive)) if archive.is_file() else list(_made(1000))
    print(f"{len(encoded)} {'real vowels' if archive.is_file() else 'made-up images'}, {arguments.images} conversions")
    if arguments.picture:
        draw(encoded, arguments.picture)

    before = _peak_megabytes()
    pixels = np.zeros((arguments.images, SIDE * SIDE), dtype=np.uint8)
    rates = {}
    for workers in sorted({1, os.cpu_count() or 1}):
        rates[workers] = rate(itertools.islice(itertools.cycle(encoded), arguments.images), pixels, workers)
        line = f"{workers} process(es): {rates[workers]:8.0f} images/s"
        if archive.is_file() and arguments.images <= len(encoded):
            line += f", from the archive {rate(_real(archive), pixels, workers):8.0f} images/s"
        print(line)
    most = max(rates)
    print(f"{most} processes are {rates[most] / rates[1]:.2f} times as fast as one")
    print(f"800,000 images would take {800_000 / rates[most] / 60:.1f} minutes")
    used = _peak_megabytes() - before
    print(f"memory: {used:.0f} MB more than before, of which the result is {pixels.nbytes / 1e6:.0f} MB")


def rate(encoded: Iterator[bytes], pixels: np.ndarray, workers: int) -> float:
    """Images per second, the start of the worker processes included."""
    started = time.perf_counter()
    numbered = zip(range(len(pixels)), encoded, strict=False)
    bad = convert_images(numbered, preprocessed_pixels, pixels, workers, progress=False)
    if bad:
        raise SystemExit(f"{len(bad)} images could not be read")
    return len(pixels) / (time.perf_counter() - started)


def draw(encoded: list[bytes], target: Path, columns: int = 10) -> None:
    """One column per class, three writers each: above as scanned, below as the networks see it."""
    gap, large, per_class = 4, 56, len(encoded) // columns
    rows = [(i, side) for i in (0, 1, 2) for side in ("scanned", "prepared")]
    height = gap + len(rows) * (large + gap)
    canvas = Image.new("L", (gap + columns * (large + gap), height), 128)
    for column in range(columns):
        for line, (i, side) in enumerate(rows):
            png = encoded[column * per_class + 17 * (i + 1)]
            pixels = raw_pixels(png, invert=False) if side == "scanned" else preprocessed_pixels(png)
            length = RAW_SIDE if side == "scanned" else SIDE
            tile = Image.fromarray(pixels.reshape(length, length)).resize((large, large), Image.Resampling.BOX)
            canvas.paste(tile, (gap + column * (large + gap), gap + line * (large + gap)))
    canvas.save(target, optimize=True)
    print(f"{target}: scanned and prepared images in turn")


def _real(archive: Path) -> Iterator[bytes]:
    for _, content in read_members(archive, lambda name: name.endswith(".png")):
        yield content


def _made(n: int) -> Iterator[bytes]:
    rng = np.random.default_rng(np.random.SeedSequence(0))
    for _ in range(n):
        pixels = np.full((RAW_SIDE, RAW_SIDE), 255, dtype=np.uint8)
        top, left, height, width = rng.integers(10, 60, 4)
        pixels[top : top + height, left : left + width][rng.random((height, width)) < 0.5] = 0
        pixels[top, left] = 0
        stream = io.BytesIO()
        Image.fromarray(pixels).save(stream, format="PNG")
        yield stream.getvalue()


def _peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


if __name__ == "__main__":
    main()
