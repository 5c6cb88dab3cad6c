"""Results that are kept in a repository: the small files of an experiment, and the tables that documents quote.

A document marks a table with two comments. What stands between them is made from the records and nothing else, so
that a test can tell when the two no longer agree:

    <!-- nesi compare results/mnist labels=10,100 network=ff+,r+ show=seconds -->
    ...
    <!-- end -->

With the word --count it is the number of verdicts instead, a row for each of the paper's tables.
"""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from nesi.errors import NesiError
from nesi.report.comparison import collect, summarize
from nesi.report.tables import SHOWABLE, in_markdown, markdown_table, verdicts_by_experiment, write_summary
from nesi.storage.experiment_directory import ExperimentDirectory
from nesi.storage.records import make_directory, write_text, write_whole

KEPT_FIGURES = ("error_by_labels.png", "methods.png", "training_*.png")  # those of weights and confusions are large
_QUOTE = re.compile(r"(<!-- nesi compare ([^\n]*?) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def keep_results(directory: Path, target: Path, figures: Sequence[str] = KEPT_FIGURES) -> list[Path]:
    """Copy what is small (records, parameters, figures), leave weights and details behind, and sum up the records."""
    cells = summarize(collect([directory]))  # complains about what is not an experiment
    place = ExperimentDirectory(directory)
    sources = [place.records_file, place.parameters_file]
    sources += [path for pattern in figures for path in sorted(place.figures.glob(pattern))]
    if missing := [source for source in sources if not source.is_file()]:
        raise NesiError(f"{missing[0]}: no such file; give the --out directory of a run_experiment.py call.")
    kept = []
    for source in sources:
        copy = target / source.relative_to(directory)
        make_directory(copy.parent)
        with source.open("rb") as stream:
            write_whole(copy, lambda output, stream=stream: shutil.copyfileobj(stream, output))  # type: ignore[misc]
        kept.append(copy)
    return kept + write_summary(target, cells)


def quoted_tables(text: str, root: Path) -> str:
    """The document with every marked table made again from the records below `root`."""

    def table(match: re.Match[str]) -> str:
        words = match[2].split()
        only_count = "--count" in words
        cells = summarize(collect([root / word for word in words if "=" not in word and word != "--count"]))
        show: list[str] = []
        for name, _, wanted in (word.partition("=") for word in words if "=" in word):
            if name == "show" and set(wanted.split(",")) <= set(SHOWABLE):
                show = wanted.split(",")
            elif name in ("network", "labels", "C"):
                cells = [cell for cell in cells if str(getattr(cell, name)) in wanted.split(",")]
            else:
                raise NesiError(
                    f"a table is marked with '{name}={wanted}', but all that can be asked for is network=, labels=, C= "
                    f"and show={','.join(SHOWABLE)}."
                )
        if not cells:
            raise NesiError(f"the table that is marked '{match[2]}' has no finished run.")
        text = in_markdown(verdicts_by_experiment(cells)) if only_count else markdown_table(cells, show)
        return f"{match[1]}\n{text}\n{match[4]}"

    return _QUOTE.sub(table, text)


def refresh_quotes(document: Path, root: Path) -> bool:
    """Rewrite the tables of a document; whether anything has changed."""
    before = document.read_text(encoding="utf-8")
    after = quoted_tables(before, root)
    if after != before:
        write_text(document, after)
    return after != before
