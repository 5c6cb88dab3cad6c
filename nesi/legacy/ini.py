"""The syntax of the authors' configuration files: ConfigObj, in which every value is a Python literal.

Values go through `ast.literal_eval`, which builds plain data and calls nothing. ConfigObj itself is what the authors'
program used, so that nested sections, comments and mixed indentation mean what they meant there.
"""

import ast
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nesi.errors import NesiError

LARGEST_FILE = 1_000_000
LONGEST_LINE = 10_000  # of a value; the authors' longest has some 60 characters
SECTION_WIDTH = 4

Section = dict[str, Any]


def read_ini(path: Path) -> Section:
    """The sections and values of a file."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise NesiError(f"{path}: larger than {LARGEST_FILE} bytes, which no configuration needs.")
        text = path.read_bytes().decode("utf-8-sig")
    except NesiError:
        raise
    except FileNotFoundError:
        raise NesiError(f"{path}: no such configuration file; check its name.") from None
    except IsADirectoryError:
        raise NesiError(f"{path}: a directory, but a configuration file was expected.") from None
    except UnicodeDecodeError:
        raise NesiError(f"{path}: not a text file in UTF-8.") from None
    except (OSError, ValueError) as error:
        raise NesiError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error}).") from None
    return parse_ini(text, str(path))


def parse_ini(text: str, origin: str) -> Section:
    """`text` as nested sections of plain values; `origin` names it in errors."""
    try:
        import configobj
    except ImportError:
        raise NesiError("legacy configurations need the package configobj; pip install 'nesi[legacy]'.") from None
    lines = re.split(r"\r\n|\r|\n", text)
    for number, line in enumerate(lines, start=1):
        if len(line) > LONGEST_LINE or "\0" in line:
            raise NesiError(f"{origin}: line {number} is longer than {LONGEST_LINE} characters or holds a null byte.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an unknown escape in a string is no reason to warn
            parsed = configobj.ConfigObj(lines, unrepr=True, interpolation=False, raise_errors=True, list_values=True)
            return _plain(parsed.dict(), origin)
    except NesiError:
        raise
    except configobj.ConfigObjError as error:
        raise NesiError(
            f"{origin}: {_reason(error)}; values must be Python literals such as 3, 'text', True."
        ) from None
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError, AttributeError, IndexError) as error:
        raise NesiError(f"{origin}: not a configuration file ({type(error).__name__}).") from None


def _reason(error: Any) -> str:
    """ConfigObj's own sentence, without the repetition of the line."""
    message = " ".join(str(getattr(error, "msg", None) or error).split())[:150].rstrip(".")
    return message if "line" in message else f"{message} at line {getattr(error, 'line_number', '?')}"


def _plain(section: Mapping[str, Any], origin: str) -> Section:
    """Only what a configuration can mean: numbers, texts, truth values, None, and flat lists of these."""
    checked: Section = {}
    for key, value in section.items():
        if isinstance(value, dict):
            checked[key] = _plain(value, origin)
        elif isinstance(value, (list, tuple)):
            if not all(isinstance(entry, (int, float, str, type(None))) for entry in value):
                raise NesiError(f"{origin}: {key} holds a nested value; numbers and texts were expected.")
            checked[key] = tuple(value)
        elif isinstance(value, (int, float, str, type(None))):
            checked[key] = value
        else:
            raise NesiError(f"{origin}: {key} is a {type(value).__name__}; a number or a text was expected.")
    return checked


def format_ini(section: Mapping[str, Any], depth: int = 0) -> str:
    """The text of a file: values first, then the sections, each a step further to the right."""
    indent = " " * SECTION_WIDTH * depth
    lines = [f"{indent}{key} = {_literal(value)}" for key, value in section.items() if not isinstance(value, dict)]
    for key, value in section.items():
        if isinstance(value, dict):
            brackets = "[" * (depth + 1), "]" * (depth + 1)
            lines.append(f"{indent}{brackets[0]}{key}{brackets[1]}")
            lines.append(format_ini(value, depth + 1).rstrip("\n"))
    return "\n".join(lines) + "\n"


def _literal(value: Any) -> str:
    if isinstance(value, tuple):
        text = ", ".join(repr(entry) for entry in value)
        return text if len(value) != 1 else text + ","
    text = repr(value)
    if ast.literal_eval(text) != value:
        raise ValueError(f"{value!r} has no literal")
    return text
