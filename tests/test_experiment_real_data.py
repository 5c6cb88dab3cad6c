"""The real 20 Newsgroups through the command line: a short run, compared with the paper."""

from pathlib import Path

import pytest
from command_line import ROOT, records, run_here, sentences


@pytest.mark.real_data
def test_newsgroups_end_to_end(real_data: Path, tmp_path: Path) -> None:
    code, output, errors = run_here(
        ROOT / "params" / "newsgroups20.yaml",
        *("--network", "r", "--labels", 800, "--runs", 1, "--set", "iterations=3", "--data-dir", real_data),
        *("--out", tmp_path / "out", "--quiet"),
    )
    assert (code, sentences(errors)) == (0, [])
    assert "27.20 ± 0.07 (100)" in output
    assert "too few runs to say, other algorithm (a)" in output
    assert "(a) sequential mini-batches of 1000 (paper: 10); iterations = 3 (paper: 200)." in output
    assert records(tmp_path / "out")["r", 800, 1]["test_error"] < 40
    assert (tmp_path / "out" / "figures" / "words_r-L800.png").stat().st_size > 50_000
