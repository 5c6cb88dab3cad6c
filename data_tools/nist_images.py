"""From a 128x128 NIST SD19 character to a 28x28 one, as in Section 4.4 of the paper.

Square bounding box of the ink, resized to 20x20, zero-padded to 28x28, centred by pixel mass, inverted
(ink is high, the background 0). Shifts are by whole pixels, so the centre of mass is at most half a pixel off.
"""

from __future__ import annotations

import io

import numpy as np
import numpy.typing as npt
from PIL import Image

RAW_SIDE = 128
SIDE = 28
INK_SIDE = 20
#: The middle of 28 pixels lies between the two central ones.
MIDDLE = (SIDE - 1) / 2


class BadImage(Exception):
    """Why an image cannot be used; the caller knows its name."""


def decode(png: bytes) -> Image.Image:
    """The ink of a 128x128 image: grey, ink 255 and background 0."""
    try:
        with Image.open(io.BytesIO(png)) as opened:
            if opened.size != (RAW_SIDE, RAW_SIDE):
                raise BadImage(f"is {opened.size[0]}x{opened.size[1]} pixels, expected {RAW_SIDE}x{RAW_SIDE}")
            grey = opened.convert("L")
    except BadImage:
        raise
    except Exception as error:  # Pillow raises many types (OSError, SyntaxError, struct.error, ...) on damaged files
        raise BadImage(f"cannot be read as an image ({type(error).__name__})" if png else "is empty") from error
    ink = grey.point(_INVERT)
    if ink.getbbox() is None:
        raise BadImage("is blank")
    return ink


_INVERT = [255 - value for value in range(256)]


def raw_pixels(png: bytes, invert: bool = True) -> npt.NDArray[np.uint8]:
    """All 128x128 pixels; ink is high unless `invert` is false."""
    ink = np.asarray(decode(png), dtype=np.uint8).reshape(-1)
    return ink if invert else 255 - ink


def preprocessed_pixels(png: bytes) -> npt.NDArray[np.uint8]:
    """The 28x28 form of Section 4.4, flat."""
    ink = decode(png)
    left, top, right, bottom = ink.getbbox()  # type: ignore[misc]  # decode() refuses blank images
    side = max(right - left, bottom - top)
    left -= (side - (right - left)) // 2
    top -= (side - (bottom - top)) // 2
    square = ink.crop((left, top, left + side, top + side))  # Pillow fills with 0 beyond the border
    # About 4 in 10,000 characters are so lopsided that centring 20x20 ink would push part of it over the edge.
    # They are drawn slightly smaller instead; at 14x14 every shift fits.
    for ink_side in range(INK_SIDE, SIDE // 2 - 1, -1):
        small = np.asarray(square.resize((ink_side, ink_side), Image.Resampling.BILINEAR), dtype=np.uint8)
        centred = _centred(small)
        if centred is not None:
            return centred.reshape(-1)
    raise BadImage("has hardly any ink")


def _centred(small: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8] | None:
    """`small` on a 28x28 background with its mass in the middle, or None if part of its ink would be lost."""
    rows, columns = small.sum(axis=1, dtype=np.int64), small.sum(axis=0, dtype=np.int64)
    starts = []
    for profile in (rows, columns):
        mass = profile.sum()
        if mass == 0:
            return None
        inked = np.flatnonzero(profile)
        centre = float(profile @ np.arange(len(profile))) / mass
        start = round(MIDDLE - centre)
        if start + inked[0] < 0 or start + inked[-1] >= SIDE:
            return None
        starts.append(start)
    image = np.zeros((SIDE, SIDE), dtype=np.uint8)
    top, left = starts
    target_rows = slice(max(top, 0), min(top + len(rows), SIDE))
    target_columns = slice(max(left, 0), min(left + len(columns), SIDE))
    image[target_rows, target_columns] = small[
        target_rows.start - top : target_rows.stop - top, target_columns.start - left : target_columns.stop - left
    ]
    return image
