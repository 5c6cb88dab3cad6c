"""Offer hostile inputs to every part of the program, and count what becomes of them.

    python tests/fuzz/campaign.py --inputs 100000 [--seed 0] [--only records]

Input number n of a target depends on the seed and on n alone; `--only TARGET --first N --inputs 1` repeats one.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2]))
from attackers import all_attackers
from hostile import NotANumber

from data_tools.errors import DataError
from nesi.threads import limited_threads

COUNTED = ("inputs", "refused", "accepted", "tracebacks", "not a number")


def campaign(
    inputs: int, seed: int, only: str | None = None, first: int = 0
) -> tuple[dict[str, Counter[str]], list[str]]:
    """Counts by target, and what went wrong."""
    counts: dict[str, Counter[str]] = {}
    complaints: list[str] = []
    with tempfile.TemporaryDirectory() as folder, limited_threads(1):
        for number, (name, (share, attackers)) in enumerate(all_attackers(Path(folder)).items()):
            if only is not None and name != only:
                continue
            counts[name] = Counter()
            for n in range(first, first + (inputs if only is not None else max(round(share * inputs), 1))):
                rng = np.random.default_rng(np.random.SeedSequence([seed, number, n]))
                counts[name]["inputs"] += 1
                try:
                    attackers[n % len(attackers)](rng)
                    counts[name]["accepted"] += 1
                except NotANumber as error:
                    counts[name]["not a number"] += 1
                    complaints.append(f"{name} {n}: not a number: {error}")
                except (ValueError, DataError) as error:
                    good = is_sentence(error)
                    counts[name]["refused" if good else "tracebacks"] += 1
                    if not good:
                        complaints.append(f"{name} {n}: {traceback.format_exc()}")
                except Exception:
                    counts[name]["tracebacks"] += 1
                    complaints.append(f"{name} {n}: {traceback.format_exc()}")
            print(f"{name}: {dict(counts[name])}", file=sys.stderr, flush=True)
    return counts, complaints


def is_sentence(error: Exception) -> bool:
    """Ours, or scikit-learn's own refusal of what is no matrix; a bare ValueError from the depths is none."""
    if type(error).__module__.partition(".")[0] in ("nesi", "data_tools", "hostile"):
        return True
    frames = traceback.extract_tb(error.__traceback__)
    return type(error) is ValueError and "sklearn" in frames[-1].filename and bool(str(error))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", help="attack this target alone")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")  # what a user is warned of is no failure
    started = time.monotonic()
    counts, complaints = campaign(options.inputs, options.seed, options.only, options.first)
    for complaint in complaints[:20]:
        print(complaint, file=sys.stderr)
    print(f"| target | {' | '.join(COUNTED)} |\n|---|{'---|' * len(COUNTED)}")
    total: Counter[str] = Counter()
    for name, count in counts.items():
        total += count
        print(f"| {name} | {' | '.join(str(count[key]) for key in COUNTED)} |")
    print(f"| all | {' | '.join(str(total[key]) for key in COUNTED)} |")
    print(f"\nseed {options.seed}, {time.monotonic() - started:.0f} s")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
