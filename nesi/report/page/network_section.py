"""One network with one number of labels: its training, its units, its confusions, and the points behind them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nesi.fields.pruning import FORGOTTEN, SINGLE_POINT, unit_usage
from nesi.label_model import label_model
from nesi.posteriors import class_given_unit
from nesi.report.page.look import Look
from nesi.report.page.markup import Sheet, bars, grey, text, words
from nesi.report.wording import counted, says_little

SHOWN_CLASSES = 4  # of a unit's or a point's
MOST_CLASSES = 60  # of a confusion matrix that is shown as a table
WORDS_OF_A_UNIT, INPUTS_OF_A_UNIT = 16, 8  # of texts, and of other points


class NetworkSection:
    """HTML of what can be looked at; `templates` are found by the script when somebody points at something."""

    def __init__(self, look: Look) -> None:
        self._look, self._classes = look, look.dataset.class_names
        self._templates: list[str] = []
        self._sheets: list[Sheet] = []
        self._units, self._behind = look.units(), look.behind_cells()
        used = look.used_points()
        self._number_of = {place: number for number, place in enumerate(used)}
        pictures = look.shown.get("point_pictures")
        self._points = self._sheet("p", None if pictures is None else pictures[used])
        self._cards = [self._card(place) for place in used]

    @property
    def templates(self) -> str:
        """Cards of points, and what is said about each unit and each cell of the confusion matrix."""
        return f"<template>{''.join(self._templates)}</template><template>{''.join(self._cards)}</template>"

    @property
    def style(self) -> str:
        return "".join(sheet.style() for sheet in self._sheets)

    # ---- units -----------------------------------------------------------------------------------------------------

    def units(self) -> str:
        look, weights = self._look, self._look.weights
        if weights is None:
            return ""
        W, R = weights["W"], weights["R"]
        prior = look.record["settings"].get("class_prior")
        relative = None if prior is None else label_model(len(R), np.asarray(prior)).relative_prior
        beliefs = class_given_unit(R, relative)
        usage = unit_usage(R, look.record["n_train"])
        units = [unit for _, unit in self._units]
        fields = self._sheet("f", grey(W[units]))
        tiles = []
        for number, (place, unit) in enumerate(self._units):
            shares = beliefs[:, unit]
            name = "" if look.waits else str(self._classes[int(shares.argmax())])
            content = fields.tile(number, f"unit {unit}") if fields else words(self._strongest(W[unit]))
            kind = "" if look.waits else _use_of(usage[unit])
            said = f"{name} · {100 * shares.max():.0f} %" if name else f"unit {unit}"
            tiles.append(
                f"<button type='button' class='unit {kind}' data-about='u{unit}'>{content}<b>{text(said)}</b></button>"
            )
            self._templates.append(self._about_unit(place, unit, shares, float(usage[unit]), content))
        which = f"All {len(W)} units" if len(units) == len(W) else f"A random {len(units)} of {len(W)} units"
        kind = "words" if fields is None else "pictures"
        caption = f"{which} of run {look.record['run']}, by class. {self._unused(usage)}"
        return (
            f"<h3>Units</h3><p>{text(caption)}Point at one, or tap it: what it stands for is shown.</p>"
            f"<div class='units {kind}'>{''.join(tiles)}</div>"
        )

    def _unused(self, usage: np.ndarray) -> str:
        if self._look.waits:
            return ""
        forgotten, single = np.mean(usage < FORGOTTEN), np.mean((usage >= FORGOTTEN) & (usage < SINGLE_POINT))
        kinds = ((single, "know one point only (red)"), (forgotten, "are not used (blue)"))
        parts = [f"{100 * share:.0f} % {name}" for share, name in kinds if share]
        return f"Of all units, {' and '.join(parts)}. " if parts else ""

    def _about_unit(self, place: int, unit: int, shares: np.ndarray, usage: float, content: str) -> str:
        shown = self._look.shown
        said = []
        if not self._look.waits:
            about = f"{usage:.1f}" if usage < 10 else f"{usage:.0f}"
            said.append(f"Stands for about {about} training points (p(c|R) N).")
        if "unit_won" in shown:
            won, looked_at = int(shown["unit_won"][place]), int(shown["looked_at"][0])
            said.append(f"The most active unit for {won} of {looked_at} training points that were looked at.")
        classes = "" if self._look.waits else f"<h4>Classes</h4>{self._top(shares)}"
        points = [int(point) for point in shown["unit_points"][place] if point >= 0] if "unit_points" in shown else []
        typical = "<h4>Most typical points</h4>" + self._slot(points) if points else ""
        return (
            f"<article data-id='u{unit}'><h3>Unit {unit}</h3><div class='large'>{content}</div>"
            f"<p>{text(' '.join(said))}</p>{classes}{typical}</article>"
        )

    def _strongest(self, row: np.ndarray) -> list[tuple[str, float]]:
        strength = row - row.min()  # without the background
        best = np.argsort(-strength, kind="stable")[: 5 * WORDS_OF_A_UNIT]
        most = INPUTS_OF_A_UNIT
        if self._look.dataset.vocabulary:
            best = np.array([n for n in best if not says_little(self._input_name(int(n)))] or best)
            most = WORDS_OF_A_UNIT
        best = best[:most]
        largest = max(float(strength[best[0]]), 1e-30)
        return [(self._input_name(int(n)), float(strength[n]) / largest) for n in best if strength[n] > 0]

    def _input_name(self, number: int) -> str:
        dataset = self._look.dataset
        names = dataset.vocabulary or dataset.columns
        return names[number] if names and number < len(names) else f"input {number}"

    # ---- confusions ------------------------------------------------------------------------------------------------

    def confusions(self, counts: np.ndarray, runs: int) -> str:
        """Rows: true class; `counts` of several runs together."""
        if not counts.size:
            return ""
        together = "" if runs == 1 else f", {runs} runs together"
        html = "<h3>Confusions</h3><p>Test points by true class (rows) and answer (columns), in % of the true class"
        html += f"{together}. Choose a cell to see points behind it.</p>"
        if len(self._classes) <= MOST_CLASSES:
            html += self._matrix(counts, runs)
        return html + self._most_confused(counts, runs)

    def _matrix(self, counts: np.ndarray, runs: int) -> str:
        percent = _percent(counts)
        head = "".join(f"<th scope='col'><span>{text(name)}</span></th>" for name in self._classes)
        lines = []
        for true, name in enumerate(self._classes):
            cells = []
            for answer in range(len(self._classes)):
                if not counts[true, answer]:
                    cells.append("<td></td>")
                    continue
                self._about_cell(true, answer, counts, runs)
                share = percent[true, answer]
                cells.append(
                    f"<td><button type='button' data-about='c{true}-{answer}' style='--share:{share:.0f}%' "
                    f"class='{'right' if true == answer else 'wrong'}{' much' if share > 55 else ''}' "
                    f"aria-label='{text(name)} taken for {text(self._classes[answer])}: {share:.0f} %'>"
                    f"{f'{share:.0f}' if share >= 0.5 else '·'}</button></td>"
                )
            lines.append(f"<tr><th scope='row'>{text(name)}</th>{''.join(cells)}</tr>")
        long = " long" if max(len(str(name)) for name in self._classes) > 3 else ""
        return (
            f"<div class='scroll'><table class='confusion{long}'><thead><tr><td></td>{head}</tr></thead>"
            f"<tbody>{''.join(lines)}</tbody></table></div>"
        )

    def _most_confused(self, counts: np.ndarray, runs: int) -> str:
        errors, percent = counts - np.diag(np.diag(counts)), _percent(counts)
        order = [divmod(int(place), len(counts)) for place in np.argsort(-errors, axis=None, kind="stable")[:6]]
        items = []
        for true, answer in order:
            if errors[true, answer]:
                if len(self._classes) > MOST_CLASSES:
                    self._about_cell(true, answer, counts, runs)
                said = f"{self._classes[true]} as {self._classes[answer]} ({percent[true, answer]:.0f} %)"
                items.append(f"<button type='button' class='pair' data-about='c{true}-{answer}'>{text(said)}</button>")
        return f"<p class='pairs'>Most often: {' '.join(items)}</p>" if items else "<p>No test point was wrong.</p>"

    def _about_cell(self, true: int, answer: int, counts: np.ndarray, runs: int) -> None:
        number, share = int(counts[true, answer]), _percent(counts)[true, answer]
        names = text(self._classes[true]), text(self._classes[answer])
        title = f"{names[0]}, recognised" if true == answer else f"{names[0]}, taken for {names[1]}"
        together = "" if runs == 1 else f" in {runs} runs"
        points = self._behind.get((true, answer), [])
        which = f"<h4>Of run {self._look.record['run']}, the surest</h4>{self._slot(points)}" if points else ""
        none = "" if points else f" None of run {self._look.record['run']} was kept for this page."
        self._templates.append(
            f"<article data-id='c{true}-{answer}'><h3>{title}</h3>"
            f"<p>{counted(number, 'test point')}{together}, {share:.1f} % of {names[0]}.{none}</p>{which}</article>"
        )

    # ---- lists of points -------------------------------------------------------------------------------------------

    def doubtful(self) -> Iterator[str]:
        """The least certain points, and those most unlike anything seen."""
        shown = self._look.shown
        if "n_unlike" not in shown or not shown["n_unlike"][1]:
            return
        unlike, number = (int(value) for value in shown["n_unlike"])
        whose = f"{counted(number, 'point')} without a label in training"
        if len(shown.get("least_certain", ())):
            yield (
                f"<h3>Least certain</h3><p>Of {whose}, those whose two best classes are closest. Their labels would "
                f"teach the most.</p>{self._gallery(shown['least_certain'])}"
            )
        found = "none is" if not unlike else f"{unlike} {'is' if unlike == 1 else 'are'}"
        yield (
            f"<h3>Most unlike anything seen</h3><p>Of {whose}, {found} far less likely than the training points. "
            f"These are the least likely.</p>{self._gallery(shown['unlike'])}"
        )

    def _gallery(self, places: np.ndarray) -> str:
        return f"<div class='points'>{''.join(self._cards[self._number_of[int(place)]] for place in places)}</div>"

    def _slot(self, places: list[int]) -> str:
        """Where the script puts the cards of these points."""
        numbers = " ".join(str(self._number_of[place]) for place in places)
        return f"<div class='points' data-points='{numbers}'></div>"

    def _card(self, place: int) -> str:
        shown = self._look.shown
        of_test_set, row = bool(shown["point_of_test_set"][place]), int(shown["point_rows"][place])
        name = self._look.names[place] or f"{'test' if of_test_set else 'training'} point {row}"
        content = self._points.tile(self._number_of[place]) if self._points else self._written(place)
        said = ""
        if (shares := shown["point_posterior"][place]).size:
            best = np.argsort(-shares, kind="stable")[:2]
            said = ", ".join(f"{self._classes[n]}: {100 * shares[n]:.0f} %" for n in best if shares[n] >= 0.005)
        label = int(shown["point_labels"][place])
        given = f"<small>labeled {text(self._classes[label])}</small>" if label >= 0 else ""
        odd = "<small class='odd'>unlike the training points</small>" if shown["point_unlike"][place] else ""
        return (
            f"<figure class='point'>{content}<figcaption><i>{text(name)}</i><span>{text(said)}</span>{given}{odd}"
            "</figcaption></figure>"
        )

    def _written(self, place: int) -> str:
        """How a text begins, if it was read from a file; the strongest inputs of other points."""
        if excerpt := self._look.texts[place]:
            return f"<blockquote>{text(excerpt)}</blockquote>"
        return words(self._words_of(place))

    def _words_of(self, place: int) -> list[tuple[str, float]]:
        shown = self._look.shown
        entries = zip(shown["point_inputs"][place], shown["point_strengths"][place], strict=True)
        known = [(int(number), float(strength)) for number, strength in entries if number >= 0]
        largest = max((strength for _, strength in known), default=1.0)
        most = None if self._look.dataset.vocabulary else INPUTS_OF_A_UNIT
        return [(self._input_name(number), strength / largest) for number, strength in known[:most]]

    def _top(self, shares: np.ndarray) -> str:
        best = [int(n) for n in np.argsort(-shares, kind="stable")[:SHOWN_CLASSES] if shares[n] >= 0.005]
        return bars([str(self._classes[n]) for n in best], [float(shares[n]) for n in best])

    def _sheet(self, kind: str, pictures: Any) -> Sheet | None:
        shape = self._look.dataset.image_shape
        if pictures is None or not shape or not len(pictures):
            return None
        sheet = Sheet(f"{kind}{self._look.number}", pictures, (shape[0], shape[1]))
        self._sheets.append(sheet)
        return sheet


def _percent(counts: np.ndarray) -> np.ndarray:
    return np.asarray(100.0 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))


def _use_of(usage: float) -> str:
    return "forgotten" if usage < FORGOTTEN else "single" if usage < SINGLE_POINT else ""
