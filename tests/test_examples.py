"""Every example runs from raw files to predictions, and predicts well."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore:At the end of training the network labels"),
]


@pytest.mark.parametrize(("name", "least"), [("images", 0.8), ("texts", 0.9), ("table", 0.85), ("embeddings", 0.95)])
def test_an_example_runs_and_is_right_most_of_the_time(name, least, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the path of the data is part of the seed
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    assert example.main(Path("folder")) > least
    assert list(Path("folder").rglob("predictions.csv"))


def test_every_example_is_tried():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {"images", "texts", "table", "embeddings"}
