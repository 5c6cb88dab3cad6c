"""Equations of the pages as MathML, which browsers draw without any script or font from elsewhere.

The Markdown has them as GitHub shows them: blocks fenced by ```math, and $`...`$ inside a line.
"""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

_BLOCK = re.compile(r"^```math\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"\$`([^`\n]+)`\$")


def _mathml(latex: str, display: str) -> str:
    source = " ".join(latex.split())
    return convert(source, display=display).replace("<math ", f'<math title="{html.escape(source)}" ', 1)


def on_page_markdown(markdown: str, **_: Any) -> str:
    markdown = _BLOCK.sub(lambda match: f'<div class="equation">{_mathml(match[1], "block")}</div>', markdown)
    return _INLINE.sub(lambda match: f'<span class="inline-equation">{_mathml(match[1], "inline")}</span>', markdown)
