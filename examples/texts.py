"""Texts in folders, few of them sorted: train on words, and sort new texts.

    python examples/texts.py [FOLDER]

writes short made-up texts about three subjects. Each uses a few words of its subject among many that say nothing.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np

from nesi.cli import main as nesi

SUBJECTS = {
    "cooking": "soup pan salt oven butter onion taste boil spoon recipe flour pepper kitchen",
    "sailing": "wind sail harbour anchor rope mast wave tide deck storm captain coast keel",
    "music": "violin chord melody rhythm concert piano song choir tune tempo flute orchestra drum",
}
FILLING = [f"word{number}" for number in range(200)]
PARAMETERS = """\
dataset: {data}
data: {{test_fraction: 0}}    # few labels: train on all of them
labels: [all]
"""


def text(rng: np.random.Generator, subject: str) -> str:
    return " ".join([*rng.choice(SUBJECTS[subject].split(), 8), *rng.choice(FILLING, 20)])


def main(folder: Path) -> float:
    """The share of new texts that get the right subject."""
    rng = np.random.default_rng(0)
    for number in range(300):
        subject = list(SUBJECTS)[number % 3]
        place = folder / "texts" / (subject if number < 30 else "unlabeled")
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number}.txt").write_text(text(rng, subject), encoding="utf-8")
    (folder / "new").mkdir(exist_ok=True)
    for number in range(60):
        (folder / "new" / f"{list(SUBJECTS)[number % 3]} {number}.txt").write_text(
            text(rng, list(SUBJECTS)[number % 3])
        )
    (folder / "new" / "unheard.txt").write_text("nothing known in here")
    (folder / "texts.yaml").write_text(PARAMETERS.format(data=folder / "texts"))
    nesi(["run", str(folder / "texts.yaml"), "--out", str(folder / "run")])
    nesi(["predict", str(folder / "run"), str(folder / "new"), "--out", str(folder / "predictions.csv")])
    with open(folder / "predictions.csv", encoding="utf-8") as stream:
        rows = [row for row in csv.DictReader(stream) if row["unlike_training"] != "no content"]
    right = float(np.mean([row["point"].startswith(row["class"]) for row in rows]))
    print(f"{100 * right:.1f} % of {len(rows)} new texts get the right subject.")
    return right


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "example-texts"))
