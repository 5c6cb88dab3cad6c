"""What was kept of a run for looking at it, and how much of that a page shows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nesi.fields.shown import choose_units
from nesi.storage.arrays import Arrays
from nesi.storage.experiment_directory import DatasetDescription
from nesi.storage.records import Record

MANY_SECTIONS = 9  # a page with so many shows less in each, or it would get too large
_SHOWN, _SHOWN_OF_MANY = (100, 6), (40, 2)  # units, and points of each cell of a confusion matrix


@dataclass(frozen=True)
class Look:
    """Of one run."""

    record: Record
    dataset: DatasetDescription
    weights: Arrays | None
    shown: Arrays  # empty for runs of earlier versions
    names: list[str | None]
    texts: list[str | None]  # how they begin
    number: int  # tells the pictures of this section from those of others
    of_many: bool  # sections

    @property
    def waits(self) -> bool:
        """Nobody has said yet what the units stand for."""
        return bool((self.record["settings"].get("field_labels") or {}).get("by") == "person")

    def units(self) -> list[tuple[int, int]]:
        """Places among the units whose points were kept, and the units."""
        if self.weights is None:
            return []
        units = self.shown.get("units")
        if units is None or units.max(initial=0) >= len(self.weights["W"]):
            units = choose_units(self.weights["R"])
        most, _ = _SHOWN_OF_MANY if self.of_many else _SHOWN
        places = np.unique(np.linspace(0, len(units) - 1, min(len(units), most)).astype(int))
        return [(int(place), int(units[place])) for place in places]

    def behind_cells(self) -> dict[tuple[int, int], list[int]]:
        """(true class, answer) -> points."""
        _, most = _SHOWN_OF_MANY if self.of_many else _SHOWN
        behind: dict[tuple[int, int], list[int]] = {}
        for true, answer, place in self.shown.get("confusion_points", ()):
            behind.setdefault((int(true), int(answer)), []).append(int(place))
        return {cell: points[:most] for cell, points in behind.items()}

    def used_points(self) -> list[int]:
        """All that anything on the page shows."""
        shown = self.shown
        lists = [shown.get(name, ()) for name in ("least_certain", "unlike")]
        of_units = [shown["unit_points"][place] for place, _ in self.units()] if "unit_points" in shown else []
        points = [point for some in (*lists, *of_units, *self.behind_cells().values()) for point in some]
        return sorted({int(point) for point in points if point >= 0})
