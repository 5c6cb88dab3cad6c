"""How well the likelihood predicts the test error (Section 4.3.2): their correlation during training."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from nesi.errors import NesiError
from nesi.storage.experiment_directory import ExperimentDirectory, name_of


class Correlation(NamedTuple):
    """Of one run; `ppmcc` is Pearson's product-moment correlation coefficient."""

    run: str
    C: int
    points: int  # iterations at which the test error is known
    ppmcc: float


def likelihood_and_error(directory: Path) -> list[Correlation]:
    """For every run in `directory` that was made with `test_error_every`."""
    place, found = ExperimentDirectory(directory), []
    for record in place.records():
        details = place.details(name_of(record))
        curve = details["test_error_curve"]
        if len(curve) >= 3:
            likelihood = details["log_likelihood"][curve[:, 0].astype(int) - 1]
            ppmcc = float(np.corrcoef(likelihood, curve[:, 1])[0, 1])
            found.append(Correlation(name_of(record), record["settings"]["C"], len(curve), ppmcc))
    if not found:
        raise NesiError(
            f"{directory} holds no curves of the test error; run the experiment with --set test_error_every=10."
        )
    return found
