"""What is chosen where the user says nothing: units, normalisation, rates, length, start, and how labels spread.

A choice depends on what is known before training: how many points, inputs, classes and labels there are, and what kind
of data it is. So it costs nothing, needs no label for validation, and is the same for `NeSiClassifier()` and for a
parameter file with a data set and labels. Every choice has its reason. How well this does, and on which data sets it
was decided, is in docs/defaults.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from data_tools.rows_on_disk import RowsOnDisk
from nesi.observations import suggested_normalization

_MOST_UNITS = 10_000
_LARGEST_W = 250_000_000  # numbers, 1 GB in float32
_ENOUGH_TO_TRUNCATE = 200  # units; full posteriors of fewer cost next to nothing
_MOSTLY_ZERO = {"dense": 0.95, "sparse": 0.85}  # share of zeros above which data is taken for counts of words
_MASS_OF_TEXTS = 20_000.0  # A - D
_MASS_OF_A_COLUMN, _MASS_OF_COLUMNS = 50.0, 600.0  # A - D of measurements
_FEW = {"points": 4, "units": 10}  # labels per class up to which they travel over a graph
_MANY_CLASSES, _FEW_OF_MANY = 20, 20  # of more classes than that, up to 20 labels per class are few
_MOST_CLASSES = 150  # of which parts are searched; with more it would take longer than training
_ALL_PAIRS = 20_000  # points up to which each is compared with all others
_SMALL_TABLE = 500  # points
_LOOKED_AT = 1000  # points of data on disk, to see what kind it is


class Choice(NamedTuple):
    value: Any
    reason: str


@dataclass(frozen=True)
class Facts:
    """All that a choice depends on. `inputs` are those of the network, two per column of measurements."""

    points: int
    inputs: int
    classes: int
    labels: int
    every_class: bool  # has a labeled point, and its name is certain
    counts: bool  # nearly all inputs of a point are zero, as in texts
    measurements: bool  # columns were made pairs of inputs, by their place in the range of the column
    on_disk: bool = False

    @classmethod
    def of(cls, X: Any, classes: int, labels: int, every_class: bool, measurements: bool) -> Facts:
        """`X`: inputs of the network; `measurements`: whether these are pairs made of ranges."""
        on_disk = isinstance(X, RowsOnDisk)
        some = X[np.unique(np.linspace(0, X.shape[0] - 1, _LOOKED_AT).astype(np.int64))] if on_disk else X
        filled = some.nnz if sparse.issparse(some) else np.count_nonzero(some)
        limit = _MOSTLY_ZERO["sparse" if sparse.issparse(some) else "dense"]
        counts = filled < (1 - limit) * some.shape[0] * some.shape[1]
        return cls(X.shape[0], X.shape[1], classes, labels, every_class, bool(counts), measurements, on_disk)


def choices(facts: Facts, given: Mapping[str, Any]) -> dict[str, Choice]:
    """A value and a reason for everything that is not `given`; all under the names of parameter files."""
    chosen = {**_common(facts, given), **_of_this_kind(facts, given)}
    return {name: choice for name, choice in chosen.items() if name not in given}


def kind_of(facts: Facts) -> str:
    """As it is called in reasons."""
    return "texts or other counts" if facts.counts else "measurements" if facts.measurements else "images or amounts"


def _of_this_kind(facts: Facts, given: Mapping[str, Any]) -> dict[str, Choice]:
    """Texts with labels have a unit per class and learn by EM; everything else has many units, layer by layer."""
    could_be_em = given.get("network", "r") == "r" and given.get("training", "em") == "em"
    could_be_em &= not given.get("greedy") and given.get("inference", "exact") == "exact"
    could_be_em &= given.get("distribute") != "data"
    could_be_em &= given.get("committee", 1) == 1 and not {"W_init", "R_init", "stopping"} & {*given}
    if could_be_em and facts.every_class:
        if facts.counts:
            return _one_unit_per_class(facts)
        if facts.measurements and facts.points < _SMALL_TABLE and not _few(facts, "points") and not _all_labeled(facts):
            return _small_table(facts)
    return _layers(facts, given)


def _common(facts: Facts, given: Mapping[str, Any]) -> dict[str, Choice]:
    return {
        "epsilon_W": Choice(
            0.2, "the paper's, relative to C/N: a unit forgets after five times the points it stands for"
        ),
        "batch_size": Choice(None, "as many points as the learning rates allow"),
        "n_init": Choice(1, "one start: with many units, or a start from labels, starts hardly differ"),
    }


def _one_unit_per_class(facts: Facts) -> dict[str, Choice]:
    """The complete setting of the paper, learned as the generative model that it is."""
    chosen = {
        "C": Choice(facts.classes, "one unit per class: more explain texts better, but classes worse"),
        "A": Choice(facts.inputs + _MASS_OF_TEXTS, "20000 above the number of inputs, as was found for tf-idf of news"),
        "network": Choice("r", "the generative model itself, for units that belong to classes"),
        "training": Choice("em", "converges in some passes, and given labels are kept"),
        "inference": Choice("exact", "few units"),
        "greedy": Choice(False, "both layers learn together in EM"),
        "epsilon_R": Choice(0.2, "not used by EM"),
        "iterations": Choice(30, "at most; EM converges in about ten"),
        "tolerance": Choice(0.05, "ends when the likelihood hardly rises"),
        "spread": Choice(None, f"{facts.labels} labels are enough, or there are too many points to compare"),
        "W_init": Choice(None, "all points, with the classes that have reached them"),
        "R_init": Choice(None, "one unit per class"),
    }
    if not _all_labeled(facts) and _comparable(facts) and facts.classes <= _MOST_CLASSES:
        why = "labels travel over neighbouring texts first, and the network starts from all texts"
        return chosen | {"spread": Choice("points", why)}
    starts = {
        "W_init": Choice("class_means", "the mean of the labeled points"),
        "R_init": Choice("delta", "one unit per class"),
    }
    return chosen | starts


def _small_table(facts: Facts) -> dict[str, Choice]:
    """Some labels per class, and few points to learn from: a few units per class, and all labels count at once."""
    spread = Choice("points", "labels travel over neighbouring points first, and the network starts from all points")
    few = Choice(min(3 * facts.classes, facts.points), "a table of few points: three units per class")
    return _one_unit_per_class(facts) | {"C": few, "A": _normalization(facts), "spread": spread}


def _layers(facts: Facts, given: Mapping[str, Any]) -> dict[str, Choice]:
    """A rich first layer that needs no label, then the second, with self-labeling or from labels that have spread."""
    C = given["C"] if isinstance(given.get("C"), int) else _units(facts)
    return {
        "C": Choice(C, f"{kind_of(facts)}: {_why_units(facts)}"),
        "A": _normalization(facts),
        "network": Choice("ff+", "labels few points and lets the network label the others"),
        "training": Choice("online", "as in the paper"),
        "inference": _inference(C, given),
        "greedy": Choice(True, "the first layer needs no label: trained first, it can be rich"),
        "epsilon_R": Choice(1.0, "as fast as is stable, so that self-labeling sets in with any number of units"),
        "iterations": Choice(200, "at most, for each layer; the first ends when its likelihood has converged"),
        "tolerance": Choice(0.005, "the first layer ends when the likelihood per point rises by less"),
        "spread": _spread(facts, given),
        "W_init": Choice(None, "points, or their mean with noise"),
        "R_init": Choice(None, "even"),
    }


def _units(facts: Facts) -> int:
    affordable = max(1, _LARGEST_W // max(facts.inputs, 1))
    return max(facts.classes, min(facts.points // _points_per_unit(facts), _MOST_UNITS, affordable), 1)


def _points_per_unit(facts: Facts) -> int:
    """Units of single points cut columns of measurements too finely."""
    return 6 if facts.measurements and facts.points < _SMALL_TABLE else 2


def _few(facts: Facts, graph: str) -> bool:
    """Where there are many classes, self-labeling mixes them up sooner than spreading does."""
    per_class = max(_FEW[graph], _FEW_OF_MANY if facts.classes > _MANY_CLASSES else 0)
    return facts.labels <= per_class * facts.classes


def _comparable(facts: Facts) -> bool:
    """Each point with all others."""
    return facts.points <= _ALL_PAIRS and not facts.on_disk


def _all_labeled(facts: Facts) -> bool:
    return facts.labels == facts.points


def _why_units(facts: Facts) -> str:
    C = _units(facts)
    if facts.points // _points_per_unit(facts) == C:
        return f"a unit for every {_points_per_unit(facts)} points"
    if C == _MOST_UNITS:
        return "as many as pay off, as in the paper"
    return "a unit for every class" if facts.classes == C else "as many as 1 GB holds"


def _normalization(facts: Facts) -> Choice:
    if facts.measurements:
        columns = facts.inputs // 2
        mass = max(min(_MASS_OF_A_COLUMN * columns, _MASS_OF_COLUMNS), 0.15 * facts.inputs)
        return Choice(facts.inputs + mass, "50 counts per column, but about 600 in all: fine steps, no single point")
    return Choice(suggested_normalization(facts.inputs), "15 % above the number of inputs, and at least 100")


def _inference(C: int, given: Mapping[str, Any]) -> Choice:
    if C < _ENOUGH_TO_TRUNCATE:
        return Choice("exact", "few units")
    if given.get("backend", "numba") != "numba":
        return Choice("exact", "only the backend numba truncates")
    return Choice("truncated", "many units, of which few matter to a point")


def _spread(facts: Facts, given: Mapping[str, Any]) -> Choice:
    if not facts.every_class or _all_labeled(facts) or {"W_init", "R_init"} & {*given}:
        return Choice(None, "every class needs a label, and some points must have none")
    if given.get("distribute") == "data":
        return Choice(None, "labels do not spread where workers have parts of the data")
    if facts.classes > _MOST_CLASSES:
        return Choice(None, f"the search for parts takes too long with more than {_MOST_CLASSES} classes")
    graph = "points" if _comparable(facts) else "units"
    if not _few(facts, graph):
        return Choice(None, f"{facts.labels} labels are enough for self-labeling")
    if graph == "units" and not given.get("greedy", True):
        return Choice(None, "too many points to compare each with all others")
    over = "neighbouring points" if graph == "points" else "points that share units"
    return Choice(graph, f"few labels: they travel over {over} first")
