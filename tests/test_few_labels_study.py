"""The study of very few labels: many draws on the same first layers, and that it goes on where it was interrupted."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.usefixtures("one_thread")


def test_every_draw_is_kept_and_none_is_done_twice(tmp_path: Path, monkeypatch, capsys) -> None:
    path = Path(__file__).parent.parent / "studies" / "few_labels.py"
    spec = importlib.util.spec_from_file_location("few_labels", path)
    study = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(study)
    parameters = {"dataset": "digits", "C": 60, "committee": 2, "A": 300, "iterations": 20, "networks": ["ff"]}
    parameters |= {"labels": [10, 30], "greedy": True, "spread": "units", "minibatch_rule": "sequential"}
    (tmp_path / "p.yaml").write_text(yaml.safe_dump(parameters))
    out = tmp_path / "draws.jsonl"

    def run(draws: int) -> list[str]:
        arguments = ["few_labels.py", str(tmp_path / "p.yaml"), "--draws", str(draws), "--out", str(out)]
        monkeypatch.setattr(sys, "argv", arguments)
        study.main()
        return out.read_text().splitlines()

    first = run(2)
    assert [(line["labels"], line["draw"]) for line in map(json.loads, first)] == [(10, 1), (10, 2), (30, 1), (30, 2)]
    assert all(json.loads(line)["test_error"] < 50 for line in first)
    assert "| 30 | 2 |" in capsys.readouterr().out
    again = run(3)
    assert again[:4] == first
    assert len(again) == 6
