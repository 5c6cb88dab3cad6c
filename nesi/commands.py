"""What each command does, once its options are read. Slow imports wait until they are needed."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

from nesi.config.backends import with_what_the_backend_has
from nesi.config.parameters import ExperimentParameters
from nesi.config.reading import load_parameters, parse_assignment, with_changes
from nesi.config.shipped import parameter_file
from nesi.errors import NesiError


def run(options: argparse.Namespace) -> int:
    changes: dict[str, Any] = dict(parse_assignment(text) for group in options.set for text in group)
    given = {"networks": options.network, "labels": options.labels, "runs": options.runs, "seed": options.seed}
    given |= {"inference": options.inference, "backend": options.backend}
    given |= {"mode": "paper" if options.paper else None}
    changes |= {key: value for key, value in given.items() if value is not None}
    if (options.params is None) == (options.legacy is None):
        raise NesiError("give either a parameter file or --legacy CONFIG; see run_experiment.py --help.")
    if options.legacy is not None:
        from nesi.legacy.commands import converted_with_warnings, default_name

        converted = converted_with_warnings(options.legacy)
        parameters = with_changes(converted.content, changes, converted.name)
        file = default_name(converted)
    else:
        file = parameter_file(options.params)
        parameters = load_parameters(file, changes)
    parameters = _for_the_backend(parameters)
    if parameters.mode == "paper":
        file = file.with_stem(f"{file.stem.removesuffix('-paper')}-paper")
    directory = options.out or _default_directory(file, options.resume)
    from nesi.experiment.running import run_experiment  # a wrong parameter is noticed before this slow import

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
        done = f"{len(outcome.records)} run{'' if len(outcome.records) == 1 else 's'}"
        print(
            f"stopped with {done} done and {outcome.missing} to do; continue with: "
            f"{_resume_command(options, directory)}",
            file=sys.stderr,
        )
        return 128 + outcome.signal
    from nesi.report.page import make_report
    from nesi.report.tables import terminal_table

    cells = make_report(directory)
    if cells:
        print(terminal_table(cells))
    if not options.quiet:
        print(f"\nreport: {directory / 'report.html'}")
        if outcome.predictions is not None:
            print(f"predictions for unlabeled points: {outcome.predictions}")
    if any((record["settings"].get("field_labels") or {}).get("by") == "person" for record in outcome.records):
        print(f"the fields wait for a person to label them; type: nesi label {directory}")
    if options.legacy_output is not None and outcome.records:
        from nesi.legacy.commands import write_tree

        write_tree(directory, options.legacy_output, options.quiet)
    if outcome.failures:
        more = f" (and {len(outcome.failures) - 1} more)" if len(outcome.failures) > 1 else ""
        count = "1 run has" if len(outcome.failures) == 1 else f"{len(outcome.failures)} runs have"
        raise NesiError(f"{count} no result: {outcome.failures[0]}{more}")
    return 0


def compare(options: argparse.Namespace) -> int:
    from nesi.report.comparison import collect, summarize
    from nesi.report.tables import in_columns, terminal_table, verdicts_by_experiment, write_summary
    from nesi.storage.records import make_directory

    cells = summarize(collect(options.directories))
    if not cells:
        raise NesiError("there is no finished run to compare yet.")
    if options.count and options.show:
        raise NesiError("--show adds columns to the table of errors, which --count replaces; leave one of the two out.")
    _say_what_is_unprotected(options.directories)
    print(in_columns(verdicts_by_experiment(cells)) if options.count else terminal_table(cells, options.show))
    if options.out is not None:
        make_directory(options.out)
        write_summary(options.out, cells)
    return 0


def _say_what_is_unprotected(directories: list[Path]) -> None:
    from nesi.storage.records import about_unprotected

    if (sentence := about_unprotected(directories)) is not None:
        print(f"note: {sentence}", file=sys.stderr)


def report(options: argparse.Namespace) -> int:
    from nesi.report.page import make_report

    make_report(options.directory)
    _say_what_is_unprotected([options.directory])
    print(options.directory / "report.html")
    return 0


def keep(options: argparse.Namespace) -> int:
    from nesi.report.quotes import KEPT_FIGURES, keep_results

    for path in keep_results(options.directory, options.target, options.figures or KEPT_FIGURES):
        print(path)
    return 0


def quote(options: argparse.Namespace) -> int:
    from nesi.report.quotes import refresh_quotes

    for document in options.documents:
        if not document.is_file():
            raise NesiError(f"{document}: no such file; give the documents whose tables should be made again.")
        print(f"{document}: {'updated' if refresh_quotes(document, options.root) else 'unchanged'}")
    return 0


def predict(options: argparse.Namespace) -> int:
    from nesi.experiment.predictions import Predictor
    from nesi.storage.records import write_text

    if options.out is not None and not options.out.parent.is_dir():
        raise NesiError(f"{options.out.parent}: no such directory; choose another --out.")
    predictor = Predictor.load(options.trained, options.run)
    predictions = predictor.predict_files(options.new_data)
    text = predictions.to_csv(options.probabilities)
    if options.out is None:
        print(text, end="")
    else:
        write_text(options.out, text)
    print(f"{predictor.origin}: {predictions.summary()}", file=sys.stderr)
    return 0


def export_onnx(options: argparse.Namespace) -> int:
    import numpy as np

    from nesi.experiment.predictions import Predictor
    from nesi.storage.records import write_bytes

    predictor = Predictor.load(options.trained, options.run)
    content = predictor.network.onnx(np.array(predictor.classes, dtype=object), predictor.preprocessing.pairs)
    write_bytes(options.out, content)
    print(f"{predictor.origin}: {options.out}")
    return 0


def prune(options: argparse.Namespace) -> int:
    from nesi.experiment.pruned_runs import prune_runs
    from nesi.report.published import published

    print(
        f"{'run':<20} {'units':>6} {'forgotten':>10} {'one point':>10} {'kept':>6} {'error [%]':>10} {'pruned [%]':>11}"
    )
    for one in prune_runs(options.directory, options.below, options.data_dir):
        counts = f"{one.units:>6} {one.forgotten:>10} {one.single:>10} {one.kept:>6}"
        print(f"{one.run:<20} {counts} {one.error_before:>10.2f} {one.error_after:>11.2f}")
    paper = published().stated["pruning"]
    print(f"paper: {paper['removed_percent']} % of {paper['units']} units below {paper['below']}, the error unchanged")
    return 0


def correlate(options: argparse.Namespace) -> int:
    import numpy as np

    from nesi.report.correlation import likelihood_and_error
    from nesi.report.published import published

    found = [one for directory in options.directories for one in likelihood_and_error(directory)]
    print(f"{'run':<20} {'C':>6} {'points':>7} {'PPMCC':>7}")
    for one in found:
        print(f"{one.run:<20} {one.C:>6} {one.points:>7} {one.ppmcc:>7.2f}")
    values = [one.ppmcc for one in found]
    spread = f" ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else ""
    runs = "1 run" if len(values) == 1 else f"{len(values)} runs"
    paper = published().stated["likelihood_and_error"]
    print(f"mean of {runs}: {np.mean(values):.2f}{spread} (paper: {paper['ppmcc']} ± {paper['spread']})")
    return 0


def tune(options: argparse.Namespace) -> int:
    changes: dict[str, Any] = dict(parse_assignment(text) for group in options.set for text in group)
    if options.seed is not None:
        changes["seed"] = options.seed
    if options.labels is not None:
        changes["tuning.labels"] = options.labels
    file = parameter_file(options.params)
    parameters = _for_the_backend(load_parameters(file, changes))
    from nesi.experiment.tuning import tune as search

    search(
        parameters,
        options.out or Path("runs") / f"tune-{file.stem}",
        resume=options.resume,
        optuna_trials=options.optuna,
        data_dir=options.data_dir,
        workers=options.workers,
        quiet=options.quiet,
    )
    return 0


def convert_legacy(options: argparse.Namespace) -> int:
    from nesi.legacy.commands import run_convert

    return run_convert(options)


def export_legacy(options: argparse.Namespace) -> int:
    from nesi.legacy.commands import run_export

    return run_export(options)


def _for_the_backend(parameters: ExperimentParameters) -> ExperimentParameters:
    fitting, sentence = with_what_the_backend_has(parameters)
    if sentence is not None:
        print(f"warning: {sentence}", file=sys.stderr)
    return fitting


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
