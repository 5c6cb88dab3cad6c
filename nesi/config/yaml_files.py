"""Read YAML that a stranger may have written: plain data only, bounded in size, no surprises.

`yaml.safe_load` already refuses tags that build Python objects. Three holes are left: aliases that expand to
gigabytes, nesting deep enough to exhaust the stack, and keys given twice of which the last one wins in silence.
"""

import re
from pathlib import Path
from typing import Any

import yaml

from nesi.config.shipped import shipped_files
from nesi.errors import NesiError

LARGEST_FILE = 1_000_000
DEEPEST_NESTING = 20


class _PlainLoader(yaml.SafeLoader):
    """A safe loader without aliases and without repeated keys, that reads 1e-3 as a number."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            event = self.peek_event()
            raise yaml.composer.ComposerError(None, None, "aliases (*name) are not supported here", event.start_mark)
        self._depth += 1
        if self._depth > DEEPEST_NESTING:
            mark = self.peek_event().start_mark
            raise yaml.composer.ComposerError(None, None, f"nested deeper than {DEEPEST_NESTING} levels", mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen: set[str] = set()
        for key_node, _ in node.value:
            if key_node.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {str(key_node.value)[:40]!r} is given twice", key_node.start_mark
                )
            if isinstance(key_node.value, str):
                seen.add(key_node.value)
        return super().construct_mapping(node, deep)


# YAML 1.1 wants a dot in a float: without this, `epsilon_W: 1e-3` would silently be a string.
_PlainLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)


def parse_yaml(text: str, origin: str) -> Any:
    """The data in `text`; `origin` (a file or an option) starts the sentence when it cannot be read."""
    if len(text) > LARGEST_FILE:
        raise NesiError(f"{origin}: longer than {LARGEST_FILE} characters, which no parameter file needs.")
    try:
        return yaml.load(text, Loader=_PlainLoader)  # a SafeLoader: builds plain data only
    except yaml.YAMLError as error:
        raise NesiError(f"{origin}: not valid YAML: {_one_line(error)}.") from None
    except (ValueError, OverflowError, RecursionError, TypeError, AttributeError) as error:
        # e.g. a date of month 13 or an integer of 5000 digits: PyYAML lets Python's own errors through.
        raise NesiError(f"{origin}: not valid YAML: {_one_line(error)}.") from None


def read_yaml(path: Path) -> Any:
    """The data in the file at `path`."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise NesiError(f"{path}: larger than {LARGEST_FILE} bytes, which no parameter file needs.")
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        names = ", ".join(shipped_files())
        raise NesiError(f"{path}: no such parameter file; those that come with NeSi are {names}.") from None
    except IsADirectoryError:
        raise NesiError(f"{path}: a directory, but a parameter file was expected.") from None
    except UnicodeDecodeError:
        raise NesiError(f"{path}: not a text file in UTF-8.") from None
    except OSError as error:
        raise NesiError(f"{path}: cannot be read ({error.strerror}).") from None
    return parse_yaml(text, str(path))


def _one_line(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem:
        where = f" (line {error.problem_mark.line + 1})" if error.problem_mark else ""
        text = error.problem + where
    else:
        text = str(error) or type(error).__name__
    return " ".join(text.split())[:200].rstrip(".")
