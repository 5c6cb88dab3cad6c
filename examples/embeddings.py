"""Embeddings without a single label: train, say what the units are, predict.

    python examples/embeddings.py [FOLDER]

Principal components of digits 0 and 1 stand for embeddings. On your own data the person's part happens on a page:

    nesi label embeddings.npz --classes zero,one
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from nesi.cli import main as nesi
from nesi.labeling.from_data import trained_without_labels
from nesi.labeling.run_to_label import run_to_label
from nesi.labeling.session import LabelingSession


def main(folder: Path, questions: int = 8) -> float:
    """The share of embeddings that get the right class."""
    folder.mkdir(parents=True, exist_ok=True)
    pixels, classes = load_digits(return_X_y=True)
    shown = classes < 2
    np.savez(folder / "embeddings.npz", X=PCA(20, random_state=0).fit_transform(pixels[shown]))
    data, run = str(folder / "embeddings.npz"), folder / "run"
    trained_without_labels(data, "zero,one", run, None, {}, None)

    # What the page does with a person. Here somebody answers who knows the points that a unit stands for.
    session = LabelingSession(run_to_label(run, None, None), questions, "informative")
    for _ in range(questions):
        unit = session.state()["current"]["field"]
        ones = np.mean(classes[shown][session.examples(unit)] == 1)
        session.answer(unit, [1.0, 0.0] if ones < 0.5 else [0.0, 1.0])
    session.train()
    session.wait()
    nesi(["predict", str(run), data, "--out", str(folder / "predictions.csv")])
    lines = (folder / "predictions.csv").read_text(encoding="utf-8").splitlines()[1:]
    right = float(
        np.mean([line.split(",")[1] == ("zero", "one")[k] for line, k in zip(lines, classes[shown], strict=True)])
    )
    print(f"{questions} answers, no label: {100 * right:.1f} % of {len(lines)} embeddings get the right class.")
    return right


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "example-embeddings"))
