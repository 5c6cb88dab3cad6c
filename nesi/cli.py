"""The command lines `run_experiment.py` and `nesi`. Exit codes: 0 done, 2 an error the user can fix, 128 + signal."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

import nesi
from data_tools.errors import DataError
from nesi import commands
from nesi.config.values import NETWORKS
from nesi.errors import NesiError, one_line
from nesi.labeling.command import add_label_options, label

USER_CAN_FIX_IT = 2


class _Parser(argparse.ArgumentParser):
    """argparse, with one sentence instead of the whole usage for a wrong option."""

    def error(self, message: str) -> NoReturn:
        raise NesiError(f"{message}; see {self.prog} --help.")


def run_main(arguments: Sequence[str] | None = None) -> int:
    """run_experiment.py."""
    parser = _Parser(prog="run_experiment.py", description="Run an experiment and compare it with the paper.")
    _add_version(parser)
    _add_run_options(parser)
    return _guarded(lambda: commands.run(parser.parse_args(arguments)))


def main(arguments: Sequence[str] | None = None) -> int:
    """`nesi`, or `python -m nesi`."""
    parser = main_parser("nesi" if Path(sys.argv[0]).stem == "nesi" else "python -m nesi")

    def action() -> int:
        options = parser.parse_args(arguments)
        return int(options.action(options))

    return _guarded(action)


def main_parser(program: str = "nesi") -> argparse.ArgumentParser:
    parser = _Parser(prog=program, description="Neural Simpletrons: run, predict, compare, report, tune, label.")
    _add_version(parser)
    subparsers = parser.add_subparsers(dest="command", required=True, parser_class=_Parser, metavar="COMMAND")

    def command(name: str, action: Callable[[argparse.Namespace], int], summary: str) -> argparse.ArgumentParser:
        added = subparsers.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        added.set_defaults(action=action)
        return added

    _add_run_options(command("run", commands.run, "run an experiment, as run_experiment.py does"))
    _add_compare_options(command("compare", commands.compare, "compare existing records with the paper"))
    _add_predict_options(
        command("predict", commands.predict, "predict the classes of new files with a trained network")
    )
    onnx = command("export-onnx", commands.export_onnx, "write a trained network as an ONNX graph (needs 'nesi[onnx]')")
    _add_trained(onnx)
    onnx.add_argument("--out", type=Path, required=True, metavar="FILE.onnx", help="the file to write")
    report = command("report", commands.report, "write summary, figures and report.html again from existing records")
    _add_directory(report)
    keep = command("keep", commands.keep, "copy records, summary and figures of an experiment, without the weights")
    _add_directory(keep)
    keep.add_argument("target", type=Path, metavar="TARGET", help="where to copy them, for instance results/mnist")
    keep.add_argument("--figures", nargs="+", metavar="PATTERN", help="copy figures with such names: 'fields_*.png'")
    quote = command("quote", commands.quote, "update the tables in documents from the records they name")
    quote.add_argument("documents", nargs="+", type=Path, metavar="FILE.md", help="documents with marked tables")
    quote.add_argument("--root", type=Path, default=Path(), metavar="DIR", help="where results/ is (default: here)")
    prune = command("prune", commands.prune, "remove units that are hardly ever active; test before and after")
    _add_directory(prune)
    limit = "remove units with p(c|R) N < X (default: 1.5)"
    prune.add_argument("--below", type=float, default=1.5, metavar="X", help=limit)
    _add_data_dir(prune)
    correlate = command("correlate", commands.correlate, "correlate likelihood and test error during training")
    _add_directory(correlate, several=True)
    _add_tune_options(command("tune", commands.tune, "tune the free parameters, half of the labels for validation"))
    convert = command("convert-legacy", commands.convert_legacy, "convert a configuration of the authors' program")
    convert.add_argument("config", metavar="CONFIG", help="a main .ini, a name below config/, or a .yaml to go back")
    convert.add_argument("--out", type=Path, metavar="PATH", help="the .yaml to write, or the folder for ini files")
    export = command("export-legacy", commands.export_legacy, "write the output tree of the authors' program")
    _add_directory(export)
    export.add_argument("--out", type=Path, default=Path("output"), metavar="ROOT", help="default: output")
    add_label_options(command("label", label, "serve a page on which a person labels fields (Appendix B.3)"))
    return parser


def _add_version(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--version", action="version", version=f"nesi {nesi.__version__}", help="show the version")


def _add_directory(parser: argparse.ArgumentParser, several: bool = False) -> None:
    name = "directories" if several else "directory"
    parser.add_argument(
        name, type=Path, metavar="DIR", nargs="+" if several else None, help="written by run_experiment.py"
    )


def _add_data_dir(parser: argparse.ArgumentParser) -> None:
    where = "look for data here first, then in $NESI_DATA and in the user's cache"
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help=where)


def _add_set(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", nargs="+", help="change one parameter"
    )


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(action=commands.run)
    parser.add_argument("params", metavar="PARAMS", nargs="?", help="a parameter file, or the name of one in params/")
    parser.add_argument("--legacy", metavar="CONFIG", help="run a configuration of the authors' Theano program instead")
    parser.add_argument("--legacy-output", type=Path, metavar="DIR", help="also write the output tree of that program")
    own = "use the paper's own algorithm, not our faster one (also: mode: paper in the file)"
    parser.add_argument("--paper", action="store_true", help=own)
    parser.add_argument("--network", nargs="+", choices=NETWORKS, help="run only these networks")
    parser.add_argument("--labels", nargs="+", type=_labels, metavar="N", help="run only these label counts, or all")
    parser.add_argument("--runs", type=_positive, metavar="N", help="make N independent runs per cell of the table")
    parser.add_argument("--seed", type=int, metavar="S", help="set the seed: the same one gives the same records")
    parser.add_argument("--inference", choices=("exact", "truncated"), help="compute all posteriors, or the largest")
    parser.add_argument("--backend", choices=("numba", "c", "jax"), help="compile the graphs for this backend")
    _add_set(parser)
    parser.add_argument("--out", type=Path, metavar="DIR", help="write to DIR (default: runs/<name of the file>)")
    parser.add_argument("--resume", action="store_true", help="continue the experiment in DIR")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--workers", type=_positive, metavar="N", help="execute N runs in parallel on this machine")
    where.add_argument("--scheduler", metavar="ADDRESS", help="run on the Dask cluster of this scheduler")
    _add_data_dir(parser)
    parser.add_argument("--quiet", action="store_true", help="show no progress; print the table and errors only")


def _add_trained(parser: argparse.ArgumentParser) -> None:
    trained = "a directory written by run_experiment.py, or a file with a trained network"
    parser.add_argument("trained", type=Path, metavar="RUN_DIR", help=trained)
    parser.add_argument("--run", metavar="NAME", help="use this run, such as ff+-L100-run1 (default: the first one)")


def _add_predict_options(parser: argparse.ArgumentParser) -> None:
    _add_trained(parser)
    new_data = "new data of the kind that was trained on; labels in it are passed over"
    parser.add_argument("new_data", type=Path, metavar="NEW_DATA", help=new_data)
    parser.add_argument("--out", type=Path, metavar="FILE.csv", help="write to this file (default: standard output)")
    parser.add_argument("--probabilities", action="store_true", help="add a column with the probability of each class")


def _add_compare_options(parser: argparse.ArgumentParser) -> None:
    _add_directory(parser, several=True)
    parser.add_argument("--out", type=Path, metavar="DIR", help="also write summary.json and summary.md to DIR")
    columns = ("log_likelihood", "seconds")
    parser.add_argument("--show", nargs="+", default=[], choices=columns, help="add columns to the table")
    parser.add_argument("--count", action="store_true", help="print only the number of verdicts, table by table")


def _add_tune_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("params", metavar="PARAMS", help="a parameter file, or the name of one in params/")
    parser.add_argument("--labels", type=_positive, metavar="N", help="use N labels in all, half for validation")
    parser.add_argument("--seed", type=int, metavar="S", help="set the seed: the same one gives the same trials")
    _add_set(parser)
    parser.add_argument("--workers", type=_positive, metavar="N", help="make N trials in parallel on this machine")
    parser.add_argument("--optuna", type=_positive, metavar="TRIALS", help="search with Optuna instead of the grid")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write to DIR (default: runs/tune-<name of the file>)")
    parser.add_argument("--resume", action="store_true", help="keep the trials that DIR already holds")
    _add_data_dir(parser)
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def _labels(text: str) -> int | str:
    return "all" if text == "all" else _positive(text)


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 12 or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not an integer of at least 1")
    return int(text)


def _guarded(action: Callable[[], int]) -> int:
    """Turn what the user can fix into one sentence; let bugs keep their traceback."""

    def terminate(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        code = action()
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # our reader has seen enough (`| head`); what is still in the buffer is dropped
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except (NesiError, DataError) as error:
        print(f"error: {one_line(str(error))}", file=sys.stderr)
        return USER_CAN_FIX_IT
    except MemoryError:
        print("error: not enough memory; use a smaller C or batch_size, or fewer --workers.", file=sys.stderr)
        return USER_CAN_FIX_IT
    except KeyboardInterrupt:
        print("interrupted; what is finished is kept: continue with --resume.", file=sys.stderr)
        return 128 + signal.SIGINT
    finally:
        signal.signal(signal.SIGTERM, before)
