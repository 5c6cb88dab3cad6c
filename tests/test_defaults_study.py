"""The study of defaults: its table, and that what was done is not done again."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

STUDY = Path(__file__).parent.parent / "studies" / "defaults.py"


@pytest.fixture(scope="module")
def study() -> ModuleType:
    spec = importlib.util.spec_from_file_location("study_of_defaults", STUDY)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def lines(study: ModuleType, name: str, errors: list[float], draw: int = 1) -> list[dict[str, object]]:
    about = {"set": name, "points": 100, "labels": 3, "draw": draw}
    return [{**about, "method": method, "error": error} for method, error in zip(study.METHODS, errors, strict=True)]


def test_ranks_are_shared_by_equals_and_rows_are_means_of_complete_draws(study: ModuleType) -> None:
    known = lines(study, "iris", [4, 8, 8, 30, 40]) + lines(study, "iris", [6, 10, 8, 30, 40], draw=2)
    known += lines(study, "iris", [99, 1, 1, 1, 1], draw=3)[:4]  # one method is missing
    known += lines(study, "breast cancer", [5, 5, 1, 9, 9])
    rows = study.table(known).splitlines()
    assert rows[2] == "| iris (decided) | 100 | 3 | 2 | **5.0** | 9.0 | 8.0 | 30.0 | 40.0 |"
    assert rows[3] == "| breast cancer | 100 | 3 | 1 | 5.0 | 5.0 | **1.0** | 9.0 | 9.0 |"
    assert rows[4] == "| mean rank, decided | | | 1 rows | 1.00 | 3.00 | 2.00 | 4.00 | 5.00 |"
    assert rows[5] == "| mean rank, confirmed | | | 1 rows | 2.50 | 2.50 | 1.00 | 4.50 | 4.50 |"


def test_a_study_is_continued_where_it_ended(study: ModuleType, tmp_path: Path, monkeypatch, capsys) -> None:
    quick = {name: study.METHODS[name] for name in ("logistic regression", "1-NN")}
    monkeypatch.setattr(study, "METHODS", quick)
    out = tmp_path / "lines.jsonl"
    study.run(["iris"], [1], None, out, None)
    before = out.read_text()
    assert len(before.splitlines()) == 2 * len(study.PER_CLASS)
    assert {json.loads(line)["points"] for line in before.splitlines()} == {100}
    capsys.readouterr()
    study.run(["iris"], [1], None, out, None)
    assert out.read_text() == before
    assert capsys.readouterr().out == ""


def test_the_kept_lines_make_the_table_of_the_document(study: ModuleType) -> None:
    root = STUDY.parent.parent
    table = study.table(study.read_lines(root / "results" / "defaults" / "lines.jsonl"))
    assert table in (root / "docs" / "defaults.md").read_text(encoding="utf-8")
