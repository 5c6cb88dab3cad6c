"""Images in folders, some of them sorted by class: train, and sort the others.

    python examples/images.py [FOLDER]

makes small pictures of digits as image files, of which one in eight lies in a folder named after its class.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from nesi.cli import main as nesi

PARAMETERS = """\
dataset: {data}
data: {{test_fraction: 0}}    # few labels: train on all of them
labels: [all]
"""


def main(folder: Path, points: int = 1500) -> float:
    """The share of images that get the right class."""
    pixels, classes = load_digits(return_X_y=True)
    for number in range(points):
        place = folder / "digits" / (f"digit {classes[number]}" if number % 8 == 0 else "unlabeled")
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray((15 * pixels[number].reshape(8, 8)).astype(np.uint8)).save(place / f"{number}.png")
    (folder / "digits.yaml").write_text(PARAMETERS.format(data=folder / "digits"))
    nesi(["run", str(folder / "digits.yaml"), "--out", str(folder / "run")])

    # Whatever was in `unlabeled` has a prediction already. New files get one by: nesi predict run new_files
    with open(folder / "run" / "predictions.csv", encoding="utf-8") as stream:
        found = {int(Path(row["point"]).stem): row["class"] for row in csv.DictReader(stream)}
    right = float(np.mean([name == f"digit {classes[number]}" for number, name in found.items()]))
    print(f"{100 * right:.1f} % of {len(found)} unlabeled images get the right class.")
    print(f"To say what its units have learned, and train on: nesi label {folder / 'run'}")
    return right


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "example-images"))
