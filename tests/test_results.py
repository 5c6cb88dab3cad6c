"""What is kept in results/, and the documents that quote it."""

import re
import shutil
from pathlib import Path

import pytest
from command_line import ROOT, nesi, run_here, write_params

from nesi.report.comparison import collect, summarize
from nesi.report.published import published
from nesi.report.quotes import quoted_tables
from nesi.report.tables import markdown
from nesi.storage.records import read_records

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RESULTS = sorted(path.parent for path in (ROOT / "results").rglob("records.jsonl"))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_documents_quote_the_numbers_of_the_records(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    assert quoted_tables(text, ROOT) == text, f"renew it with: python -m nesi quote {document.name}"


@pytest.mark.parametrize("directory", RESULTS, ids=lambda path: path.name)
def test_kept_results_are_whole_and_small(directory: Path) -> None:
    cells = summarize(collect([directory]))
    assert sum(cell.runs for cell in cells) == len(read_records(directory)) > 0  # every run counts, and counts once
    assert (directory / "params.yaml").is_file()
    assert (directory / "summary.md").read_text(encoding="utf-8") == markdown(cells)
    assert not list(directory.rglob("*.npz"))
    assert sum(path.stat().st_size for path in directory.rglob("*")) < 5_000_000


def test_results_are_kept_and_quoted(tmp_path: Path) -> None:
    params = write_params(tmp_path / "params.yaml", networks=["ff"], runs=3)
    assert run_here(params, "--out", tmp_path / "run", "--quiet")[0] == 0
    code, output = nesi("keep", tmp_path / "run", tmp_path / "results" / "digits")
    assert code == 0
    assert "records.jsonl" in output
    kept = {path.name for path in (tmp_path / "results" / "digits").rglob("*") if path.is_file()}
    assert kept >= {"records.jsonl", "params.yaml", "summary.md", "error_by_labels.png", "training_ff-L20.png"}
    assert nesi("keep", tmp_path / "run", tmp_path / "few", "--figures", "fields_ff*.png")[0] == 0
    assert [path.name for path in (tmp_path / "few" / "figures").iterdir()] == ["fields_ff-L20.png"]
    document = tmp_path / "page.md"
    document.write_text("Before\n<!-- nesi compare results/digits -->\nold\n<!-- end -->\nafter\n")
    assert nesi("quote", document, "--root", tmp_path) == (0, f"{document}: updated\n")
    text = document.read_text()
    (cell,) = summarize(collect([tmp_path / "results" / "digits"]))
    assert f"| ff | 20 | {cell.mean:.2f} ± {cell.sem:.2f} (3) |" in text
    assert text.startswith("Before\n")
    assert text.endswith("<!-- end -->\nafter\n")
    assert nesi("quote", document, "--root", tmp_path) == (0, f"{document}: unchanged\n")
    document.write_text(text.replace("results/digits -->", "results/digits network=ff labels=20,30 -->"))
    nesi("quote", document, "--root", tmp_path)
    assert f"| ff | 20 | {cell.mean:.2f} ± {cell.sem:.2f} (3) |" in document.read_text()
    document.write_text(text.replace("results/digits -->", "results/digits show=log_likelihood,seconds -->"))
    nesi("quote", document, "--root", tmp_path)
    shown = (
        f"| ff | 20 | {cell.mean:.2f} ± {cell.sem:.2f} (3) | {cell.mean_log_likelihood:.2f} | {cell.mean_seconds:.0f} |"
    )
    assert shown in document.read_text()
    for mark, words in (
        ("labels=30", "has no finished run"),
        ("label=20", "all that can be asked for"),
        ("show=hours", "show=hours"),
    ):
        document.write_text(text.replace("results/digits -->", f"results/digits {mark} -->"))
        code, output = nesi("quote", document, "--root", tmp_path)
        assert code == 2
        assert words in output
    document.write_text(text)
    shutil.rmtree(tmp_path / "results")
    code, output = nesi("quote", document, "--root", tmp_path)
    assert code == 2
    assert "no such directory" in output


def test_every_published_cell_that_the_data_at_hand_allows_has_a_record() -> None:
    """NIST SD19 is not at hand but for its vowels, which the paper has no numbers for."""
    ours = {
        (cell.experiment, cell.labels, cell.published_table, cell.published_mean)
        for cell in summarize(collect(RESULTS))
        if cell.published_mean is not None
    }
    wanted = {
        (experiment.name, cell.labels, cell.table, cell.mean)
        for experiment in published().experiments.values()
        for cell in experiment.cells
        if not experiment.name.startswith("nist-")
    }
    assert len(wanted) == 68
    assert wanted - ours == set()


def test_verdicts_are_counted_table_by_table(tmp_path: Path) -> None:
    directories = ["results/mnist", "results/newsgroups6", "results/newsgroups6-C6"]
    code, output = nesi("compare", "--count", *(ROOT / name for name in directories))
    assert code == 0
    cells = summarize(collect([ROOT / name for name in directories]))
    better, noise, worse = (sum(c.verdict == verdict for c in cells) for verdict in ("better", "within noise", "worse"))
    last = ["all", "other", "settings", "or", "algorithms", "40", str(better), str(noise), str(worse), "0", "0"]
    assert output.splitlines()[-1].split() == last
    titles = ["20 Newsgroups, 6 topics", "MNIST, permutation invariant", "all"]
    assert [line.split("  ")[0] for line in output.splitlines()[3:]] == [*titles, *titles]  # after a note
    code, output = nesi("compare", "--count", *(ROOT / "results" / f"minibatch-{size}" for size in (1, 10, 100)))
    assert code == 0
    assert output.splitlines()[-3].split()[:4] == ["all", "the", "paper's", "algorithm"]
    assert output.splitlines()[-3].split()[-1] == "0"  # all three were run with the paper's own rule
    assert output.splitlines()[-1].split()[-1] == "3"
    code, output = nesi("compare", "--count", ROOT / "results" / "nist_vowels")
    assert code == 2
    assert "the paper has no numbers for these runs" in output
    code, output = nesi("compare", "--count", ROOT / "results" / "newsgroups20", ROOT / "results" / "newsgroups20-slow")
    assert code == 2
    assert "would count more than once" in output
    code, output = nesi("compare", "--count", "--show", "seconds", "--", ROOT / "results" / "mnist")
    assert code == 2
    assert "leave one of the two out" in output
    document = tmp_path / "page.md"
    document.write_text(f"<!-- nesi compare --count {' '.join(directories)} -->\n<!-- end -->\n")
    assert nesi("quote", document, "--root", ROOT)[0] == 0
    last = f"| all | other settings or algorithms | 40 | {better} | {noise} | {worse} | 0 | 0 |\n\n<!-- end -->"
    assert last in document.read_text()


def test_every_directory_of_results_is_explained() -> None:
    table = (ROOT / "results" / "README.md").read_text(encoding="utf-8")
    explained = re.findall(r"^\| `([^`]+)` \| `([^`]+\.yaml)` \|", table, flags=re.MULTILINE)
    assert sorted(name for name, _ in explained) == [path.relative_to(ROOT / "results").as_posix() for path in RESULTS]
    assert {file for _, file in explained} <= {path.name for path in (ROOT / "params").iterdir()}
