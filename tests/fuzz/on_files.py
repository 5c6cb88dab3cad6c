"""Damaged files: checkpoints, records, and data as people have it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from hostile import Attacker, NotANumber, Rng, mutated

import data_tools
from data_tools.idx import read_idx_file
from nesi.storage.arrays import load_arrays, save_arrays
from nesi.storage.records import append_record, read_records, repair_records


def checkpoints(folder: Path) -> Iterator[Attacker]:
    path = folder / "checkpoint.npz"
    arrays = {"W": np.arange(12.0).reshape(3, 4), "iteration": np.array(7), "history": np.zeros(0)}
    save_arrays(path, arrays, {"run": 1})
    content = path.read_bytes()

    def attack(rng: Rng) -> None:
        path.write_bytes(mutated(content, rng))
        loaded = load_arrays(path, {"run": 1})
        for name, array in arrays.items():
            if not np.array_equal(loaded[name], array):
                raise NotANumber(f"{name} was altered without being noticed")

    yield attack


def record_files(folder: Path) -> Iterator[Attacker]:
    record = {"dataset": "digits", "network": "ff", "labels": 10, "test_error": 3.25, "settings": {"C": 40, "A": None}}
    for run in (1, 2, 3):
        append_record(folder, {**record, "run": run})
    path, written = folder / "records.jsonl", read_records(folder)
    content = path.read_bytes()

    def attack(rng: Rng) -> None:
        path.write_bytes(mutated(content, rng))
        found = repair_records(folder)
        if found != written[: len(found)]:
            raise NotANumber("a record was altered without being noticed")

    yield attack


def data_files(folder: Path) -> Iterator[Attacker]:
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 200, (12, 4)), np.arange(12) % 3
    table = "a,b,c,d,label\n" + "".join(f"{','.join(map(str, row))},{k}\n" for row, k in zip(X, y, strict=True))
    (folder / "own.csv").write_text(table)
    np.savez(folder / "own.npz", X=X, y=y)
    lines = "".join(
        f"{k} " + " ".join(f"{d + 1}:{v}" for d, v in enumerate(row)) + "\n" for row, k in zip(X, y, strict=True)
    )
    (folder / "own.svmlight").write_text(lines)
    (folder / "images.idx").write_bytes(bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3]) + bytes(range(12)))
    readers: dict[str, Callable[[Path], Any]] = dict.fromkeys(("own.csv", "own.npz", "own.svmlight"), data_tools.load)
    readers["images.idx"] = lambda path: read_idx_file(path, 3)

    def attacker(path: Path, read: Callable[[Path], Any]) -> Attacker:
        content = path.read_bytes()

        def attack(rng: Rng) -> None:
            path.write_bytes(mutated(content, rng))
            found = read(path)
            if hasattr(found, "X_train") and not np.isfinite(np.asarray(found.X_train.sum())).all():
                raise NotANumber(path.name)

        return attack

    for name, read in readers.items():
        yield attacker(folder / name, read)
