"""The parameter files that come with NeSi: `nesi run mnist` finds `mnist.yaml` wherever NeSi is installed."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent.parent


def shipped_files() -> dict[str, Path]:
    """Name -> file. A wheel carries them inside the package; in a source tree they are beside it."""
    for folder in (_PACKAGE / "params", _PACKAGE.parent / "params"):
        if folder.is_dir():
            return {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    return {}


def parameter_file(given: str) -> Path:
    """A file that exists, else the shipped one of that name, else what was given, for a clear error later on."""
    path = Path(given)
    if path.is_file() or path.parent != Path() or path.suffix not in ("", ".yaml"):
        return path
    return shipped_files().get(path.stem, path)
