"""The command lines: `run_experiment.py` and `python -m nesi`. Exit codes: 0 done, 2 mendable, 128 + signal."""

import argparse
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from nesi.config import NETWORKS, ExperimentParameters, changed, load_parameters, parse_assignment
from nesi.errors import NesiError
from nesi.labeling.command import add_label_options, label
from nesi.legacy import commands as legacy_commands

USER_CAN_MEND_IT = 2


class _Parser(argparse.ArgumentParser):
    """argparse, with one sentence instead of the whole usage for a wrong option."""

    def error(self, message: str) -> NoReturn:
        raise NesiError(f"{message}; see {self.prog} --help.")


def run_main(arguments: Sequence[str] | None = None) -> int:
    """run_experiment.py."""
    return _guarded(lambda: _run(run_parser("run_experiment.py").parse_args(arguments)))


def main(arguments: Sequence[str] | None = None) -> int:
    """python -m nesi."""
    parser = _Parser(prog="python -m nesi", description="Neural Simpletrons: run, compare, report, tune, label.")
    commands = parser.add_subparsers(dest="command", required=True, parser_class=_Parser, metavar="COMMAND")
    run_parser("python -m nesi run", commands.add_parser("run", help="the same as run_experiment.py"))
    compare = commands.add_parser("compare", help="ours against the paper, from existing records")
    compare.add_argument("directories", nargs="+", type=Path, metavar="DIR")
    compare.add_argument("--out", type=Path, help="also write summary.json and summary.md to this directory")
    compare.add_argument("--show", nargs="+", default=[], choices=("log_likelihood", "seconds"), help="more columns")
    compare.add_argument("--count", action="store_true", help="only the number of verdicts, table by table")
    report = commands.add_parser("report", help="make summary, figures and report.html again, from existing records")
    report.add_argument("directory", type=Path, metavar="DIR")
    keep = commands.add_parser("keep", help="copy records, summary and figures of an experiment, without the weights")
    keep.add_argument("directory", type=Path, metavar="DIR")
    keep.add_argument("target", type=Path, metavar="TARGET", help="for instance results/mnist")
    keep.add_argument("--figures", nargs="+", metavar="PATTERN", help="names such as 'fields_*.png'")
    quote = commands.add_parser("quote", help="make the tables in documents again, from the records they name")
    quote.add_argument("documents", nargs="+", type=Path, metavar="FILE.md")
    quote.add_argument("--root", type=Path, default=Path(), metavar="DIR", help="where results/ is (default: here)")
    prune = commands.add_parser("prune", help="remove fields that are hardly ever active, error before and after")
    prune.add_argument("directory", type=Path, metavar="DIR")
    prune.add_argument(
        "--below", type=float, default=1.5, metavar="X", help="fields with p(c|R) N < X go (default 1.5)"
    )
    prune.add_argument("--data-dir", type=Path, metavar="DIR")
    correlate = commands.add_parser("correlate", help="likelihood and test error during training: their correlation")
    correlate.add_argument("directories", nargs="+", type=Path, metavar="DIR")
    _tune_options(commands.add_parser("tune", help="search the free parameters with half of the labels (Section 4.1)"))
    legacy_commands.convert_options(
        commands.add_parser("convert-legacy", help="a configuration of the authors' program as a parameter file")
    )
    legacy_commands.export_options(
        commands.add_parser("export-legacy", help="the output tree of the authors' program, from existing records")
    )
    add_label_options(commands.add_parser("label", help="a page on which a person labels fields (Appendix B.3)"))
    actions: dict[str, Callable[[argparse.Namespace], int]] = {
        "run": _run,
        "compare": _compare,
        "report": _report,
        "keep": _keep,
        "quote": _quote,
        "prune": _prune,
        "correlate": _correlate,
        "tune": _tune,
        "convert-legacy": legacy_commands.run_convert,
        "export-legacy": legacy_commands.run_export,
        "label": label,
    }

    def action() -> int:
        options = parser.parse_args(arguments)
        return actions[options.command](options)

    return _guarded(action)


def run_parser(program: str, parser: argparse.ArgumentParser | None = None) -> argparse.ArgumentParser:
    parser = parser or _Parser(prog=program, description="Run an experiment and compare it with the paper.")
    parser.add_argument("params", type=Path, metavar="PARAMS.yaml", nargs="?", help="a parameter file, see params/")
    parser.add_argument("--legacy", metavar="CONFIG", help="instead: a configuration of the authors' Theano program")
    parser.add_argument("--legacy-output", type=Path, metavar="DIR", help="also write the output tree of that program")
    parser.add_argument("--network", nargs="+", choices=NETWORKS, help="only these networks")
    parser.add_argument("--labels", nargs="+", type=_labels, metavar="N", help="only these numbers of labels, or all")
    parser.add_argument("--runs", type=_positive, metavar="N", help="independent runs per cell of the table")
    parser.add_argument("--seed", type=int, metavar="S", help="the same seed gives the same records")
    parser.add_argument("--inference", choices=("exact", "truncated"))
    parser.add_argument("--backend", choices=("numba", "c", "jax"))
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", nargs="+", help="change one parameter"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: runs/<name of the parameter file>")
    parser.add_argument("--resume", action="store_true", help="continue what DIR holds")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--workers", type=_positive, metavar="N", help="so many runs at once on this machine")
    where.add_argument("--scheduler", metavar="ADDRESS", help="run on the Dask cluster of this scheduler")
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="before $NESI_DATA and the user's cache")
    parser.add_argument("--quiet", action="store_true", help="no progress; the table and errors only")
    return parser


def _tune_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("params", type=Path, metavar="PARAMS.yaml")
    parser.add_argument("--labels", type=_positive, metavar="N", help="labels in all; half of them validate")
    parser.add_argument("--seed", type=int, metavar="S")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", nargs="+")
    parser.add_argument("--optuna", type=_positive, metavar="TRIALS", help="search with Optuna instead of the grid")
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: runs/tune-<name of the parameter file>")
    parser.add_argument("--resume", action="store_true", help="keep the trials that DIR already holds")
    parser.add_argument("--data-dir", type=Path, metavar="DIR")
    parser.add_argument("--quiet", action="store_true")


def _run(options: argparse.Namespace) -> int:
    changes: dict[str, Any] = dict(parse_assignment(text) for group in options.set for text in group)
    given = {"networks": options.network, "labels": options.labels, "runs": options.runs, "seed": options.seed}
    given |= {"inference": options.inference, "backend": options.backend}
    changes |= {key: value for key, value in given.items() if value is not None}
    if (options.params is None) == (options.legacy is None):
        raise NesiError("give either a parameter file or --legacy CONFIG; see run_experiment.py --help.")
    if options.legacy is not None:
        converted = legacy_commands.converted_with_warnings(options.legacy)
        parameters = changed(converted.content, changes, converted.name)
        options.params = legacy_commands.default_name(converted)
    else:
        parameters = load_parameters(options.params, changes)
    directory = options.out or _default_directory(options.params, options.resume)
    from nesi.experiment import run_experiment  # after the parameters are known to be right: it is slow to import

    outcome = run_experiment(
        parameters,
        directory,
        resume=options.resume,
        workers=options.workers,
        scheduler=options.scheduler,
        data_dir=options.data_dir,
        quiet=options.quiet,
    )
    if outcome.signal is not None:
        print(
            f"stopped with {len(outcome.records)} runs done and {outcome.missing} to do; continue with: "
            f"{_resume_command(options, directory)}",
            file=sys.stderr,
        )
        return 128 + outcome.signal
    from nesi.report import make_report
    from nesi.tables import terminal_table

    cells = make_report(directory)
    if cells:
        print(terminal_table(cells))
    if not options.quiet:
        print(f"\nreport: {directory / 'report.html'}")
    if options.legacy_output is not None and outcome.records:
        legacy_commands.write_tree(directory, options.legacy_output, options.quiet)
    if outcome.failures:
        more = f" (and {len(outcome.failures) - 1} more)" if len(outcome.failures) > 1 else ""
        raise NesiError(f"{len(outcome.failures)} runs have no result: {outcome.failures[0]}{more}")
    return 0


def _compare(options: argparse.Namespace) -> int:
    from nesi.compare import collect, summarize
    from nesi.records import make_directory
    from nesi.tables import in_columns, terminal_table, verdicts_by_experiment, write_summary

    cells = summarize(collect(options.directories))
    if not cells:
        raise NesiError("there is no finished run to compare yet.")
    if options.count and options.show:
        raise NesiError("--show adds columns to the table of errors, which --count replaces; leave one of the two out.")
    print(in_columns(verdicts_by_experiment(cells)) if options.count else terminal_table(cells, options.show))
    if options.out is not None:
        make_directory(options.out)
        write_summary(options.out, cells)
    return 0


def _report(options: argparse.Namespace) -> int:
    from nesi.report import make_report

    make_report(options.directory)
    print(options.directory / "report.html")
    return 0


def _keep(options: argparse.Namespace) -> int:
    from nesi.results import KEPT_FIGURES, keep_results

    for path in keep_results(options.directory, options.target, options.figures or KEPT_FIGURES):
        print(path)
    return 0


def _quote(options: argparse.Namespace) -> int:
    from nesi.results import refresh_quotes

    for document in options.documents:
        if not document.is_file():
            raise NesiError(f"{document}: no such file; give the documents whose tables should be made again.")
        print(f"{document}: {'renewed' if refresh_quotes(document, options.root) else 'unchanged'}")
    return 0


def _prune(options: argparse.Namespace) -> int:
    from nesi.pruning import prune_runs

    print(
        f"{'run':<20} {'units':>6} {'forgotten':>10} {'one point':>10} {'kept':>6} {'error [%]':>10} {'pruned [%]':>11}"
    )
    for one in prune_runs(options.directory, options.below, options.data_dir):
        counts = f"{one.units:>6} {one.forgotten:>10} {one.single:>10} {one.kept:>6}"
        print(f"{one.run:<20} {counts} {one.error_before:>10.2f} {one.error_after:>11.2f}")
    return 0


def _correlate(options: argparse.Namespace) -> int:
    import numpy as np

    from nesi.correlation import likelihood_and_error

    found = [one for directory in options.directories for one in likelihood_and_error(directory)]
    print(f"{'run':<20} {'C':>6} {'points':>7} {'PPMCC':>7}")
    for one in found:
        print(f"{one.run:<20} {one.C:>6} {one.points:>7} {one.ppmcc:>7.2f}")
    values = [one.ppmcc for one in found]
    spread = f" ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else ""
    print(f"mean of {len(values)} runs: {np.mean(values):.2f}{spread} (paper: -0.85 ± 0.1)")
    return 0


def _tune(options: argparse.Namespace) -> int:
    changes: dict[str, Any] = dict(parse_assignment(text) for group in options.set for text in group)
    if options.seed is not None:
        changes["seed"] = options.seed
    if options.labels is not None:
        changes["tuning.labels"] = options.labels
    parameters: ExperimentParameters = load_parameters(options.params, changes)
    from nesi.tuning import tune

    tune(
        parameters,
        options.out or Path("runs") / f"tune-{options.params.stem}",
        resume=options.resume,
        optuna_trials=options.optuna,
        data_dir=options.data_dir,
        quiet=options.quiet,
    )
    return 0


def _guarded(action: Callable[[], int]) -> int:
    """Turn what the user can mend into one sentence; let bugs keep their traceback."""
    from data_tools.errors import DataError

    def terminate(number: int, _frame: Any) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        code = action()
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # who reads our output has seen enough (`| head`); what is still in the buffer goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except (NesiError, DataError) as error:
        print(f"error: {one_line(str(error))}", file=sys.stderr)
        return USER_CAN_MEND_IT
    except MemoryError:
        print("error: not enough memory; use a smaller C or batch_size, or fewer --workers.", file=sys.stderr)
        return USER_CAN_MEND_IT
    except KeyboardInterrupt:
        print("interrupted; what is finished is kept: continue with --resume.", file=sys.stderr)
        return 128 + signal.SIGINT
    finally:
        signal.signal(signal.SIGTERM, before)


def one_line(text: str) -> str:
    """Names from a file may hold anything: control characters must not reach the terminal."""
    return "".join(character if character.isprintable() else "?" for character in " ".join(text.split()))


def _default_directory(params: Path, resume: bool) -> Path:
    """runs/<name>, or the next free runs/<name>-2, -3, ...; with --resume the latest of them."""
    base = Path("runs") / params.stem
    taken = [
        int(match[1] or 1)
        for path in (base.parent.glob(f"{params.stem}*") if base.parent.is_dir() else [])
        if (match := re.fullmatch(re.escape(params.stem) + r"(?:-(\d+))?", path.name))
        and (path / "params.yaml").exists()
    ]
    number = max(taken, default=1) if resume else max(taken, default=0) + 1
    return base if number == 1 else base.with_name(f"{params.stem}-{number}")


def _resume_command(options: argparse.Namespace, directory: Path) -> str:
    where = f" --workers {options.workers}" if options.workers else ""
    where += f" --scheduler {options.scheduler}" if options.scheduler else ""
    where += f" --data-dir {options.data_dir}" if options.data_dir else ""
    where += f" --legacy-output {options.legacy_output}" if options.legacy_output else ""
    return f"python run_experiment.py {directory / 'params.yaml'} --out {directory} --resume{where}"


def _labels(text: str) -> int | str:
    return "all" if text == "all" else _positive(text)


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 12 or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number from 1 on")
    return int(text)
