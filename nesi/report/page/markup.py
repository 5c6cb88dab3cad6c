"""Pieces of HTML. Whatever comes from data (names of classes, files, words) passes through `text`."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence

import numpy as np
from PIL import Image

LARGEST_SIDE = 56  # pixels of a picture on a sheet
_COLUMNS = 20


def text(content: object) -> str:
    return html.escape(str(content), quote=True)


def data_uri(content: bytes, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def table(rows: Sequence[Sequence[str]], links: Sequence[str] = ()) -> str:
    """Header first; `links` lead from the first column of the other rows to sections of the page."""
    head = "".join(f"<th scope='col'>{text(entry)}</th>" for entry in rows[0])
    lines = []
    for number, row in enumerate(rows[1:]):
        cells = [text(entry).replace(" / ", " /<br>") for entry in row]  # two published values
        if links:
            cells[0] = f"<a href='#{text(links[number])}'>{cells[0]}</a>"
        lines.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return f"<div class='scroll'><table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"


def bars(names: Sequence[str], shares: Sequence[float]) -> str:
    """Shares of classes, as bars with their names."""
    lines = (
        f"<li><span>{text(name)}</span><meter value='{share:.3f}'></meter><b>{100 * share:.0f} %</b></li>"
        for name, share in zip(names, shares, strict=True)
    )
    return f"<ul class='bars'>{''.join(lines)}</ul>"


def words(entries: Sequence[tuple[str, float]]) -> str:
    """Words with their strength relative to the strongest: the stronger, the larger."""
    return (
        "<span class='words'>"
        + " ".join(
            f"<span style='font-size:{0.72 + 0.38 * strength:.2f}em'>{text(word)}</span>" for word, strength in entries
        )
        + "</span>"
    )


class Sheet:
    """Small grey pictures in one image, of which each tile of the page shows a part."""

    def __init__(self, name: str, pictures: np.ndarray, shape: tuple[int, int]) -> None:
        """`pictures` are values between 0 and 255, one picture per row; large values are dark."""
        self.name = name
        self._count = len(pictures)
        self._columns = min(_COLUMNS, max(self._count, 1))
        self._lines = -(-self._count // self._columns)
        smaller = min(1.0, LARGEST_SIDE / max(shape))
        self._height, self._width = (max(1, round(side * smaller)) for side in shape)
        self._picture = self._drawn(pictures.reshape(-1, *shape))

    def _drawn(self, pictures: np.ndarray) -> bytes:
        sheet = Image.new("L", (self._columns * self._width, self._lines * self._height), 255)
        for number, values in enumerate(pictures):
            tile = Image.fromarray(np.uint8(255) - values.astype(np.uint8))
            if tile.size != (self._width, self._height):
                tile = tile.resize((self._width, self._height), Image.Resampling.BOX)
            line, column = divmod(number, self._columns)
            sheet.paste(tile, (column * self._width, line * self._height))
        stream = io.BytesIO()
        sheet.save(stream, format="PNG", optimize=True)
        return stream.getvalue()

    def style(self) -> str:
        size = f"{100 * self._columns}% {100 * self._lines}%"
        return (
            f".{self.name}{{background-image:url({data_uri(self._picture, 'image/png')});background-size:{size};"
            f"aspect-ratio:{self._width}/{self._height}}}"
        )

    def tile(self, number: int, label: str = "") -> str:
        line, column = divmod(number, self._columns)
        x = 100 * column / max(self._columns - 1, 1)
        y = 100 * line / max(self._lines - 1, 1)
        named = f" role='img' aria-label='{text(label)}'" if label else ""  # elsewhere the text beside it says it
        return f"<span class='tile {self.name}'{named} style='background-position:{x:.3f}% {y:.3f}%'></span>"


def grey(values: np.ndarray) -> np.ndarray:
    """Each row from its smallest to its largest value, as 0 to 255."""
    low, high = values.min(axis=1, keepdims=True), values.max(axis=1, keepdims=True)
    return np.round(255 * (values - low) / np.where(high > low, high - low, 1)).astype(np.uint8)
