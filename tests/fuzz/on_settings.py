"""Parameter files and configurations of the authors' program: damaged, and with values that nobody expects."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from command_line import SMALL
from hostile import ODD, Attacker, Rng, mutated, one_of
from legacy_table import MNIST, TABLE, write_row

from nesi.config.parameters import ExperimentParameters
from nesi.config.reading import load_parameters
from nesi.legacy.to_yaml import convert

_RICH = {
    **SMALL,
    "overrides": [{"networks": ["r"], "C": 30}],
    "per_run": {"epsilon_W": [0.1, 0.2]},
}
_ODD_LITERALS = (
    *(
        "None",
        "-1",
        "0",
        "2.5",
        "1e400",
        "-1e-320",
        "nan",
        "True",
        "'abc'",
        "''",
        "()",
        "(1,)",
        "[[1]]",
        "{}",
        "'../x'",
    ),
    *(
        "9" * 400,
        "'a' * 9",
        "__import__('os')",
        "('inc', 1, 2)",
        "('inc', 0, 0, 0)",
        "(1, 'x', 2)",
        "'\\0'",
        "1j",
        "b'x'",
    ),
    *("('N', 5)", "('eps', 'x')", "[" * 200, "'x'*10**9", "1_000", "0x10", "'\\ud800'", "(None, None)", "3, 4, 5"),
)


def _places(content: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where in nested dictionaries and lists there is a value."""
    entries = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    return [place for key, value in entries for place in ((*here, key), *_places(value, (*here, key)))]


def altered(content: Any, rng: Rng, odd: list[Any] = ODD) -> Any:
    """With one to three values replaced, removed or put in a place where there was none."""
    content = copy.deepcopy(content)
    for _ in range(one_of(rng, [1, 1, 2, 3])):
        *above, last = one_of(rng, _places(content) or [("a",)])
        holder = content
        for key in above:
            holder = holder[key]
        if rng.random() < 0.15:
            del holder[last]
        else:
            holder[last] = copy.deepcopy(one_of(rng, odd))
    return content


def parameter_files(folder: Path) -> Iterator[Attacker]:
    path, text = folder / "p.yaml", yaml.safe_dump(_RICH).encode()
    names = list(ExperimentParameters.model_fields)

    def damaged(rng: Rng) -> None:
        path.write_bytes(mutated(text, rng))
        load_parameters(path)

    def odd_values(rng: Rng) -> None:
        content = copy.deepcopy(_RICH)
        if rng.random() < 0.5:
            content = altered(content, rng)
        elif rng.random() < 0.7:
            content[one_of(rng, names)] = one_of(rng, ODD)
        path.write_text(yaml.safe_dump(content))
        load_parameters(path)

    yield from (damaged, odd_values)


def configurations(folder: Path) -> Iterator[Attacker]:
    rows = [row for row in TABLE if row.folder == MNIST][::5]
    mains = [write_row(folder / str(number), row) for number, row in enumerate(rows)]

    def attack(rng: Rng, damage: Any) -> None:
        main = one_of(rng, mains)
        files = [main, *(main.parent / kind / f"{name}.ini" for kind, name in _linked(main))]
        path = one_of(rng, files)
        content = path.read_bytes()
        try:
            path.write_bytes(damage(content, rng))
            convert(str(main))
        finally:
            path.write_bytes(content)

    def odd_value(content: bytes, rng: Rng) -> bytes:
        lines = content.decode().splitlines()
        number = one_of(rng, [number for number, line in enumerate(lines) if "=" in line and not line.startswith("#")])
        key = lines[number].split("=")[0]
        lines[number] = f"{key}= {one_of(rng, _ODD_LITERALS)}"
        return "\n".join(lines).encode("utf-8", "surrogatepass")

    yield lambda rng: attack(rng, mutated)
    yield lambda rng: attack(rng, odd_value)


def _linked(main: Path) -> list[tuple[str, str]]:
    text = main.read_text()
    found = {key: re.search(rf"^{key}\s*=\s*'(.*)'", text, re.M) for key in ("DataSet", "Model", "Output")}
    return [(key.lower(), match[1]) for key, match in found.items() if match]
