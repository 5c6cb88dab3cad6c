"""From a file and the options of a command line to checked parameters."""

from pathlib import Path
from typing import Any

from nesi.config.paper_mode import belongs_to_the_section, is_paper_mode, with_the_papers_algorithm
from nesi.config.parameters import ExperimentParameters, validated
from nesi.config.values import shown
from nesi.config.yaml_files import parse_yaml, read_yaml
from nesi.errors import NesiError


def load_parameters(path: Path, changes: dict[str, Any] | None = None) -> ExperimentParameters:
    """Read and validate the parameter file, with `changes` (dotted key -> value) on top."""
    content = read_yaml(path)
    if not isinstance(content, dict):
        raise NesiError(f"{path}: holds {shown(content)}, but lines of the form 'key: value' were expected.")
    return with_changes(content, changes or {}, str(path))


def with_changes(content: dict[Any, Any], changes: dict[str, Any], origin: str) -> ExperimentParameters:
    """`content` as checked parameters, with `changes` (dotted key -> value) on top."""
    changes = dict(changes)
    for key in [key for key in changes if key == "mode" or key.startswith("paper.")]:
        _set_dotted(content, key, changes.pop(key))
    if is_paper_mode(content):
        content = with_the_papers_algorithm(content)
    for key, value in changes.items():
        _set_dotted(content, key, value)
        if is_paper_mode(content) and belongs_to_the_section(key):
            _set_dotted(content, f"paper.{key}", value)
    return validated(content, origin)


def parse_assignment(text: str) -> tuple[str, Any]:
    """'key=value' of the option --set; the value is read as YAML."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise NesiError(f"--set {shown(text)}: expected key=value, for instance --set C=1000.")
    return key.strip(), parse_yaml(value, f"--set {key.strip()[:60]}")


def _set_dotted(content: dict[Any, Any], key: str, value: Any) -> None:
    *parents, last = key.split(".")
    for parent in parents:
        inner = content.setdefault(parent, {})
        if inner is None:
            inner = content[parent] = {}
        if not isinstance(inner, dict):
            raise NesiError(f"--set {key[:60]}: '{parent[:60]}' is not a group of keys.")
        content = inner
    content[last] = value
