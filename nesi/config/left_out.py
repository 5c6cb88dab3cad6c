"""What a parameter file leaves to the program: keys that say `auto`, and those that are not there.

They are chosen as soon as the data is known (`nesi.automatic`). Until then the parameters hold stand-ins, and
`automatic` says which they are; afterwards it has the reason for each choice.
"""

from __future__ import annotations

from typing import Any

AUTO = "auto"
# Without a value of its own elsewhere: `W_init: auto` and `spread: auto` mean something else.
_MAY_SAY_AUTO: tuple[str, ...] = (
    "C",
    "A",
    "networks",
    "epsilon_W",
    "epsilon_R",
    "iterations",
    "batch_size",
    "inference",
    "greedy",
)
_MAY_SAY_AUTO += ("training", "tolerance", "R_init", "runs")
CHOSEN = (*_MAY_SAY_AUTO, "W_init", "spread")
_STAND_INS: dict[str, Any] = {"C": 1, "A": 1.0, "networks": ["ff+"], "runs": 1}


def with_stand_ins(content: dict[Any, Any]) -> dict[Any, Any]:
    """`content` without its `auto`s. Where C is left to the program, everything else that is left out is, too."""
    whole = content.get("C", AUTO) == AUTO
    left = [key for key in _MAY_SAY_AUTO if isinstance(value := content.get(key), str) and value == AUTO]
    left += [key for key in CHOSEN if key not in content and (whole or (key in _STAND_INS and key != "runs"))]
    if not left:
        return content
    kept = {key: value for key, value in content.items() if key not in left}
    stand_ins = {key: value for key, value in _STAND_INS.items() if key in left}
    before = content.get("automatic")
    return {
        **kept,
        **stand_ins,
        "automatic": {**(before if isinstance(before, dict) else {}), **dict.fromkeys(left, "")},
    }
