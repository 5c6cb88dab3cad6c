"""Values that change from run to run: the tuples `inc`, `runs`, `list` and, for learning rates, `factor`."""

from typing import Any, NamedTuple

from nesi.errors import NesiError

KINDS = ("inc", "runs", "list")
# The authors' program would sweep these and no others.
SWEEPABLE = (
    *("mini_batch_size", "training_data_size", "training_label_size", "test_size"),
    *("Iterations", "A", "C", "epsilon"),
)


class Rate(NamedTuple):
    """A learning rate as it is written: a factor (x C/N or x K/L), or the number itself."""

    value: float
    is_factor: bool


def is_sweep(value: Any) -> bool:
    """Whether the value differs between runs."""
    if isinstance(value, tuple) and value[:1] == ("factor",):
        value = value[1:]
    return isinstance(value, tuple) and len(value) > 0 and value[0] in KINDS


def per_run(value: Any, runs: int, where: str) -> list[Any]:
    """The value of every run."""
    if not is_sweep(value):
        return [value] * runs
    kind, *rest = value
    if kind == "inc":
        return _increasing(rest, runs, where)
    if kind == "runs":
        return _repeated(rest, runs, where)
    if len(rest) != runs:
        raise NesiError(f"{where}: 'list' has {len(rest)} values, but Runs is {runs}; give one value per run.")
    return rest


def rates_per_run(value: Any, runs: int, where: str) -> list[Rate]:
    """The learning rate of every run; 'Default' is a factor of 0.5."""
    is_factor = isinstance(value, tuple) and value[:1] == ("factor",)
    if is_factor:
        value = value[1] if isinstance(value, tuple) and len(value) == 2 else value[1:]
        if isinstance(value, tuple) and not is_sweep(value):
            raise NesiError(f"{where}: 'factor' must be followed by one number, or by 'inc', 'runs' or 'list'.")
    rates = []
    for entry in per_run(value, runs, where):
        if entry == "Default":
            rates.append(Rate(0.5, True))
        elif isinstance(entry, bool) or not isinstance(entry, (int, float)) or not 0 <= entry <= 1e6:
            raise NesiError(f"{where} is {entry!r}, but a number >= 0, 'Default' or 'factor', number was expected.")
        else:
            rates.append(Rate(float(entry), is_factor))
    return rates


def _increasing(rest: list[Any], runs: int, where: str) -> list[Any]:
    if len(rest) not in (2, 3) or not all(_is_number(entry) for entry in rest):
        raise NesiError(f"{where}: 'inc' must be followed by start, step and, if wanted, a number of runs per step.")
    start, step, every = rest if len(rest) == 3 else (*rest, 1)
    if not isinstance(every, int) or every < 1:
        raise NesiError(f"{where}: 'inc' has {every!r} runs per step, but an integer of at least 1 was expected.")
    return [start + step * (run // every) for run in range(runs)]


def _repeated(rest: list[Any], runs: int, where: str) -> list[Any]:
    counts = rest[1::2]
    if not rest or len(rest) % 2 or not all(_is_number(count) and isinstance(count, int) for count in counts):
        raise NesiError(f"{where}: 'runs' must be followed by pairs of a value and a number of runs.")
    if min(counts) < 1 or sum(counts) != runs:
        raise NesiError(f"{where}: 'runs' counts {sum(counts)} runs, but Runs is {runs}; the counts must add up to it.")
    return [value for value, count in zip(rest[::2], counts, strict=True) for _ in range(count)]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
