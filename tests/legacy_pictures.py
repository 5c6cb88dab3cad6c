"""Made-up pictures in the folders of the authors' program."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent / "data_tools"))
from made_files import write_idx

N_TRAIN, N_TEST = 230, 80


def write_pictures(root: Path, n_classes: int = 10) -> Path:
    """`root`/data-sets/MNIST with 6x6 pictures, in which class k has a bright row or column of its own."""
    folder = root / "data-sets" / "MNIST"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(3)
    for stem, count in (("train", N_TRAIN), ("t10k", N_TEST)):
        labels = np.arange(count) % n_classes
        pictures = rng.integers(0, 140, (count, 6, 6))
        for picture, label in zip(pictures, labels, strict=True):
            picture[label % 6 if label < 6 else slice(None), slice(None) if label < 6 else label - 6] += 90
        write_idx(folder / f"{stem}-images.idx3-ubyte", pictures)
        write_idx(folder / f"{stem}-labels.idx1-ubyte", labels)
    return folder
