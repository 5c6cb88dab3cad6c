"""A short slice of the hostile inputs in tests/fuzz; for the long one see `tests/fuzz/campaign.py`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent / "fuzz"))
from campaign import campaign


@pytest.mark.filterwarnings("ignore")  # what a user is warned of is no failure
def test_no_hostile_input_gives_a_traceback_or_a_result_that_is_no_number():
    counts, complaints = campaign(inputs=600, seed=1)
    assert not complaints, complaints[0]
    assert sum(count["inputs"] for count in counts.values()) == 600
    for name, count in counts.items():
        assert count["refused"], name
        assert count["accepted"], name
