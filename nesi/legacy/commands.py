"""What `run_experiment.py --legacy` and the commands `convert-legacy` and `export-legacy` do."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from nesi.config.reading import load_parameters
from nesi.errors import NesiError, one_line
from nesi.legacy.output import write_output_tree
from nesi.legacy.to_ini import configurations_of
from nesi.legacy.to_yaml import Converted, convert
from nesi.storage.records import make_directory, write_text


def warn(sentence: str) -> None:
    print(f"warning: {one_line(sentence)}.", file=sys.stderr)


def converted_with_warnings(given: str) -> Converted:
    converted = convert(given)
    for sentence in converted.warnings:
        warn(sentence)
    return converted


def default_name(converted: Converted) -> Path:
    """MNIST/r+-NeSi-L100 gives runs/MNIST-r+-NeSi-L100."""
    parts = Path(converted.name).parts
    return Path(re.sub(r"[^\w+.-]", "-", "-".join(parts[-2:]).strip("-")) + ".yaml")


def run_convert(options: argparse.Namespace) -> int:
    if options.config.endswith((".yaml", ".yml")):
        return _to_ini(Path(options.config), options.out)
    text = converted_with_warnings(options.config).to_yaml()
    if options.out is None:
        print(text, end="")
    else:
        if options.out.exists():
            raise NesiError(f"{options.out} exists already; choose another --out.")
        make_directory(options.out.parent)
        write_text(options.out, text)
        print(options.out)
    return 0


def _to_ini(path: Path, folder: Path | None) -> int:
    configurations, lost = configurations_of(load_parameters(path))
    if folder is None:
        raise NesiError(f"{path} becomes several ini files; say with --out in which folder their config/ should be.")
    texts: dict[Path, str] = {}
    for configuration in configurations:
        for name, text in configuration.files().items():
            target = folder / "config" / name
            if texts.get(target, text) != text:
                raise NesiError(f"{path}: two of its cells need a different {name}; convert them one at a time.")
            texts[target] = text
    for target in texts:
        if target.exists():
            raise NesiError(f"{target} exists already; choose another --out.")
    for sentence in lost:
        warn(sentence)
    for target, text in texts.items():
        make_directory(target.parent)
        write_text(target, text)
        if target.parent.parent.name == "config":
            print(target)
    return 0


def run_export(options: argparse.Namespace) -> int:
    write_tree(options.directory, options.out)
    return 0


def write_tree(directory: Path, root: Path, quiet: bool = False) -> list[Path]:
    folders = write_output_tree(directory, root, warn)
    if not quiet:
        for folder in folders:
            print(f"legacy output: {folder}")
    return folders
