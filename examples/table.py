"""A table with an id, a few labels and gaps where the label is not known: pandas, validation, a saved model.

    python examples/table.py [FOLDER]

Wines by their chemistry (scikit-learn's data), with 30 labels. Needs pandas.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_wine
from sklearn.model_selection import cross_val_score

from nesi import NeSiClassifier
from nesi.cli import main as nesi
from nesi.model_selection import LabeledKFold


def main(folder: Path) -> float:
    """The share of wines without a label that get the right one."""
    folder.mkdir(parents=True, exist_ok=True)
    wines = load_wine(as_frame=True)
    names = wines.target.map(dict(enumerate(["north", "middle", "south"])))
    known = np.random.default_rng(0).permutation(len(names))[:30]
    y = names.where(names.index.isin(known))  # NaN where the label is not known

    # The columns have very different sizes: each value becomes its place in the range of its column, by itself.
    model = NeSiClassifier(random_state=0)
    scores = cross_val_score(model, wines.data, y, cv=LabeledKFold(3, n_repeats=2, random_state=0))
    print(f"accuracy on held-out labels: {scores.mean():.2f} (6 folds)")
    model.fit(wines.data, y)
    right = float(np.mean(model.predict(wines.data)[y.isna()] == names[y.isna()]))
    print(f"{100 * right:.1f} % of {y.isna().sum()} wines without a label get the right one.")

    # The network as a file, for another program or machine.
    model.save(folder / "wines.npz", wines.data)
    wines.data.to_csv(folder / "new.csv", index=False)
    nesi(["predict", str(folder / "wines.npz"), str(folder / "new.csv"), "--out", str(folder / "predictions.csv")])
    return right


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "example-table"))
