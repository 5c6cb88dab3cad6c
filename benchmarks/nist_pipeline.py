"""How fast NIST SD19 images become 28x28 ones, and how much memory that takes besides the result.

    python benchmarks/nist_pipeline.py [--images N] [--runs N] [--memory N] [--picture docs/nist_pipeline.png]

Takes the real vowels where `$NESI_DATA` has them, else made-up blots. One core and all cores are measured in turn, so
that other load on the machine affects both; the median and the range of the runs are printed. The first number is the
preprocessing alone, the second the whole way from the archive. Memory is that of a process of its own that loads a
.zip of `--memory` images, peak after minus peak before (Linux only).
"""

from __future__ import annotations

import argparse
import io
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
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
    parser.add_argument("--images", type=int, default=10000, help="convert this many (repeated if there are fewer)")
    parser.add_argument("--picture", type=Path, help="also draw some images before and after")
    parser.add_argument("--runs", type=int, default=3, help="how often each speed is measured")
    parser.add_argument("--memory", type=int, default=60000, help="measure memory for this many images; 0: not at all")
    arguments = parser.parse_args()

    archive = Path(os.environ.get("NESI_DATA", "")) / "nist" / VOWELS_FILE
    encoded = list(_real(archive)) if archive.is_file() else list(_made(1000))
    print(f"{len(encoded)} {'real vowels' if archive.is_file() else 'made-up images'}, {arguments.images} conversions")
    if arguments.picture:
        draw(encoded, arguments.picture)

    pixels = np.zeros((arguments.images, SIDE * SIDE), dtype=np.uint8)
    counts = sorted({1, os.cpu_count() or 1})
    alone: dict[int, list[float]] = {workers: [] for workers in counts}
    archived: dict[int, list[float]] = {workers: [] for workers in counts}
    for _, workers in itertools.product(range(arguments.runs), counts):
        again = itertools.islice(itertools.cycle(encoded), arguments.images)
        alone[workers].append(rate(again, pixels, workers))
        if archive.is_file() and arguments.images <= len(encoded):
            archived[workers].append(rate(_real(archive), pixels, workers))
    for workers in counts:
        line = f"{workers} process(es): {_spread(alone[workers])} images/s"
        print(line + (f", from the archive {_spread(archived[workers])}" if archived[workers] else ""))
    most, fastest = counts[-1], statistics.median(alone[counts[-1]])
    print(f"{most} processes are {fastest / statistics.median(alone[1]):.2f} times as fast as one")
    print(f"800,000 images would take {800_000 / fastest / 60:.1f} minutes")
    if arguments.memory:
        for cached in (False, True):
            peak, result = memory(encoded, arguments.memory, cached)
            print(
                f"memory of a load of {arguments.memory} images{' that also writes the cache' if cached else ''}: "
                f"{peak / 1e6:.1f} MB over imports, the result is {result / 1e6:.1f} MB, "
                f"beyond it {(peak - result) / 1e6:.1f} MB"
            )


#: Run in a process of its own, whose peak is that of the load and nothing else.
_LOAD = """
import sys
from pathlib import Path
from data_tools.nist import load_nist

def peak():
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM:"))

before = peak()
data = load_nist(Path(sys.argv[1]), "nist-digits", progress=False)
print(peak() - before, sum(part.nbytes for part in (data.X_train, data.X_test, data.y_train, data.y_test)))
"""


def memory(encoded: list[bytes], images: int, cached: bool) -> tuple[int, int]:
    """Peak bytes beyond the imports when loading a .zip of that many images, all cores, and the bytes of the result."""
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(Path(folder, "by_class.zip"), "w") as archive:
            for i, content in enumerate(itertools.islice(itertools.cycle(encoded), images)):
                archive.writestr(f"by_class/{0x30 + i % 10:02x}/hsf_0/hsf_0_{i // 10:05d}.png", content)
        # A cache that cannot be written is done without; the content then never comes from an earlier run.
        environment = {**os.environ, "NESI_CACHE": str(Path(folder, "cache")) if cached else os.devnull}
        command, root = [sys.executable, "-c", _LOAD, folder], Path(__file__).parents[1]
        answer = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=True)
    peak, result = answer.stdout.split()
    return int(peak), int(result)


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


def _spread(rates: list[float]) -> str:
    return f"{statistics.median(rates):.0f} ({min(rates):.0f} to {max(rates):.0f})"


if __name__ == "__main__":
    main()
