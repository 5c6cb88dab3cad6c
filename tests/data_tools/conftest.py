"""Real data by NESI_DATA, a cache of the test's own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from made_files import character_png

_REAL_DATA = os.environ.get("NESI_DATA")


@pytest.fixture(scope="session")
def _session_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("nesi-cache")


@pytest.fixture(autouse=True)
def cache(_session_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test reads or writes the user's own data or cache."""
    monkeypatch.delenv("NESI_DATA", raising=False)
    monkeypatch.setenv("NESI_CACHE", str(_session_cache))
    monkeypatch.setattr("data_tools.locations.SYSTEM_DATA", _session_cache / "nothing-here")
    return _session_cache


@pytest.fixture
def real_data() -> Path:
    if not _REAL_DATA:
        pytest.skip("set NESI_DATA to the folder of the real data sets")
    return Path(_REAL_DATA)


@pytest.fixture
def by_class(tmp_path: Path) -> Callable[..., Path]:
    """Make a by_class tree of digits: 3 training images and 2 of hsf_4 per class, unless told otherwise."""

    def make(folders: dict[str, int] | None = None, classes: str = "0123456789", name: str = "by_class") -> Path:
        root = tmp_path / "nist" / name
        seed = 0
        for character in classes:
            code = f"{ord(character):02x}"
            for writers, count in (folders or {"hsf_0": 2, "hsf_1": 1, "hsf_4": 2}).items():
                writers = writers.replace("<hex>", code)
                folder = root / code / writers
                folder.mkdir(parents=True, exist_ok=True)
                for i in range(count):
                    seed += 1
                    (folder / f"{writers}_{i:05d}.png").write_bytes(character_png(seed))
        return root

    return make
