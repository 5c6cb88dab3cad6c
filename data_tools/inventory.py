"""`list`: which data sets are there, where, and whether their checksums match."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from data_tools import emnist, emnist_part, mnist, newsgroups, nist
from data_tools.download import content_sha256
from data_tools.errors import DataError
from data_tools.fetch import file_hash, recorded_checksums
from data_tools.locations import search_dirs
from data_tools.sources import EMNIST_FILES, OTHER_FILES, SOURCES


@dataclass(frozen=True)
class Finding:
    """One copy of a data set; `state` is `ok`, `unchecked` or `WRONG`."""

    name: str
    place: Path
    state: str
    detail: str


def inventory(data_dir: str | os.PathLike[str] | None = None) -> list[Finding]:
    """All copies in all folders that are searched, in that order."""
    findings: list[Finding] = []
    for place in search_dirs(data_dir):
        for name in ("mnist", "fashion-mnist"):
            findings += _idx_set(name, place / SOURCES[name].folder)
        findings += _newsgroups(place / "20news")
        findings += _single_files(place)
        findings += _nist_folder(place / "nist")
        findings += _emnist_files(place / "emnist")
        findings += _emnist_part(place / emnist_part.FOLDER)
    return findings


def _idx_set(name: str, folder: Path) -> list[Finding]:
    files = mnist.find_parts(folder)
    if not files:
        return []
    checksums = {remote.name.removesuffix(".gz"): remote.content_sha256 for remote in SOURCES[name].files}
    problems = [f"{part} is missing" for part in mnist.PARTS if part not in files]
    for part, path in files.items():
        try:
            if content_sha256(path) != checksums[f"{part}-{mnist.PARTS[part]}"]:
                problems.append(f"{path.name} has a different SHA-256")
        except DataError:
            problems.append(f"{path.name} is damaged")
    return [Finding(name, folder, "WRONG" if problems else "ok", "; ".join(problems) or "4 files, SHA-256 matches")]


def _newsgroups(folder: Path) -> list[Finding]:
    if not newsgroups.is_present(folder):
        return []
    try:
        same = newsgroups.check_official(folder)
    except DataError as error:
        return [Finding("newsgroups", folder, "WRONG", str(error))]
    changed = _changed_since_fetch(folder, newsgroups.FILES)
    if changed:
        return [Finding("newsgroups", folder, "WRONG", f"{changed} changed since it was fetched")]
    if same:
        return [Finding("newsgroups", folder, "ok", "all documents match the reference copy")]
    return [
        Finding("newsgroups", folder, "unchecked", "official numbers, but documents differ from the reference copy")
    ]


def _changed_since_fetch(folder: Path, names: tuple[str, ...]) -> str | None:
    recorded = recorded_checksums(folder)
    for name in names:
        path = folder / name
        if name in recorded and path.is_file() and file_hash(path) != recorded[name]:
            return name
    return None


def _single_files(place: Path) -> list[Finding]:
    """Single files with a known checksum: the official archives and the extra NIST sets."""
    known = [(name, file, "sha256", checksum) for name, (file, checksum) in OTHER_FILES.items()]
    for name, source in SOURCES.items():
        for remote in source.files:
            if remote.archive_hash is not None:
                algorithm, checksum = remote.archive_hash.split(":")
                known.append((name, f"{source.folder}/{remote.name}", algorithm, checksum))
    findings = []
    for name, file, algorithm, checksum in known:
        path = place / file
        if path.is_file():
            matches = file_hash(path, algorithm) == checksum
            label = algorithm.upper().replace("SHA256", "SHA-256")
            detail = f"{path.name}, {label} {'matches' if matches else 'differs'}"
            findings.append(Finding(name, path.parent, "ok" if matches else "WRONG", detail))
    return findings


def _nist_folder(folder: Path) -> list[Finding]:
    source = nist.find_source(folder, "nist-digits") if folder.is_dir() else None
    if source is None or source.name == "by_class.zip":
        return []
    return [Finding("nist", folder, "unchecked", f"{source.name}; there is no checksum for this format")]


def _emnist_files(folder: Path) -> list[Finding]:
    if (folder / emnist.ARCHIVE).is_file() or not emnist.is_present(folder):
        return []
    official = [name for name in EMNIST_FILES if _is_official(folder / name)]
    detail = "single files; " + (
        f"the SHA-256 of {' and '.join(official)} matches, others are not known"
        if official
        else "those found have no known checksum"
    )
    return [Finding("emnist", folder, "unchecked", detail)]


def _is_official(path: Path) -> bool:
    """Packed in another way it may still be the same: a difference means nothing."""
    size, beginning = EMNIST_FILES[path.name]
    return path.is_file() and path.stat().st_size == size and file_hash(path).startswith(beginning)


def _emnist_part(folder: Path) -> list[Finding]:
    if not emnist_part.is_present(folder):
        return []
    problems, found = [], 0
    for stem, checksum in emnist_part.CHECKSUMS.items():
        path = emnist_part.find_file(folder, stem)
        if path is None:
            problems.append(f"{stem} is missing")
            continue
        found += 1
        try:
            if content_sha256(path) != checksum:
                problems.append(f"{path.name} has a different SHA-256")
        except DataError:
            problems.append(f"{path.name} is damaged")
    detail = "; ".join(problems) or f"{found} files, SHA-256 matches"
    return [Finding(emnist_part.FOLDER, folder, "WRONG" if problems else "ok", detail)]
