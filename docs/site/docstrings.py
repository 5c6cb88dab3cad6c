"""Docstrings for the API page: what stands as `name : text` below "Parameters" and the like becomes a list."""

from __future__ import annotations

import re
from typing import Any

import griffe

_TITLE = re.compile(r"^(\w[\w ]*)\n-{3,}$", re.MULTILINE)
_ITEM = re.compile(r"^(\w[\w, *]*) : ", re.MULTILINE)


def as_markdown(docstring: str) -> str:
    parts = _TITLE.split(docstring)
    text = [parts[0]]
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        text.append(f"**{title}**\n\n{_ITEM.sub(lambda item: f'- `{item[1]}`: ', body.strip())}\n\n")
    return "".join(text)


class PlainDocstrings(griffe.Extension):
    """The project writes docstrings for people who read the source, in none of the usual dialects."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
