"""Run every example and keep what it printed and drew: `python docs/site/capture.py` rewrites docs/gallery.md.

A test compares the scripts on that page with those in examples/, so a changed example has to be captured again.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "gallery.md"
PICTURES = ROOT / "docs" / "gallery"
WIDEST = 900  # pixels
TITLES = {
    "images": "Images in folders",
    "texts": "Texts in folders",
    "table": "A table",
    "embeddings": "Embeddings, without any label",
}
HEAD = """\
# Gallery

Each of these scripts is complete: it makes its own files, trains, and classifies what has no label, in a few seconds on
an idle machine. Below each one is what it printed when it was run, and the picture of the result, where it makes one.
`python docs/site/capture.py` runs all of them again and writes this page.
"""


def captured(name: str) -> str:
    """The part of the page about one example, after running it in an empty folder."""
    script = ROOT / "examples" / f"{name}.py"
    source = script.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"}
        run = subprocess.run(
            [sys.executable, str(script)], cwd=folder, capture_output=True, text=True, check=True, env=environment
        )
        pictures = sorted(Path(folder).rglob("fields*.png"))
        picture = _kept(pictures[0], name) if pictures else ""
    return (
        f'## {TITLES[name]}\n\n```python title="examples/{name}.py"\n{source}```\n\n'
        f"It prints:\n\n```text\n{run.stdout.strip()}\n```\n{picture}"
    )


def _kept(drawn: Path, name: str) -> str:
    PICTURES.mkdir(exist_ok=True)
    with Image.open(drawn) as opened:
        small = opened.convert("RGB")
        small.thumbnail((WIDEST, 2 * WIDEST), Image.Resampling.LANCZOS)
        small.quantize(64).save(PICTURES / f"{name}.png", optimize=True)
    return f"\n![What the units have learned](gallery/{name}.png)\n"


if __name__ == "__main__":
    PAGE.write_text("\n".join([HEAD, *map(captured, TITLES)]), encoding="utf-8")
