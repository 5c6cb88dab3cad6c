"""`python -m nesi label RUN_DIR`."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import webbrowser
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import data_tools
from nesi.config.reading import parse_assignment
from nesi.errors import NesiError
from nesi.fields.choice import CHOICES
from nesi.storage.records import locked, make_directory

USUAL_NUMBER_OF_FIELDS = 100


def add_label_options(parser: argparse.ArgumentParser) -> None:
    given = "a directory written by run_experiment.py, or data without labels to train on first"
    parser.add_argument("directory", type=Path, metavar="RUN_DIR|DATA", help=given)
    parser.add_argument(
        "--classes", metavar="A,B,C", help="with DATA: the names of the classes (default: the page asks)"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="with DATA: train here (default: runs/label-<name>)")
    change = "with DATA: change one parameter of the training, or of the data, such as data.resize=[28,28]"
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", nargs="+", help=change)
    parser.add_argument(
        "--run",
        metavar="NAME",
        help="label this run, such as r+-L0-run1 (default: the first with weights)",
    )
    parser.add_argument("--fields", type=int, metavar="N", help="ask about N fields (default: as in RUN_DIR, or 100)")
    parser.add_argument(
        "--choose", choices=CHOICES, default="informative", help="choose fields this way (default: informative)"
    )
    parser.add_argument("--port", type=int, default=0, metavar="N", help="serve on this port (default: any free one)")
    parser.add_argument("--no-browser", action="store_true", help="print the address and open no browser")
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="look for data here first")


def _page_that_leads_to(address: str, path: Path) -> Path:
    """The browser is given a file: other users of the machine can read its command line, but not our files."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(f'<!doctype html><title>NeSi</title><meta http-equiv="refresh" content="0; url={address}">\n')
    return path


def label(options: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C; every answer is on disk before the page shows it."""
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise NesiError("the labeling page needs two more packages: pip install 'nesi[label]'.")
    if not 0 <= options.port <= 65535:
        raise NesiError(f"--port is {options.port}, but must lie between 0 and 65535.")
    if options.fields is not None and options.fields < 1:
        raise NesiError(f"--fields is {options.fields}, but must be an integer of at least 1.")
    from nesi.labeling.naming import Naming
    from nesi.labeling.rounds import stored_result
    from nesi.labeling.run_to_label import run_to_label
    from nesi.labeling.server import Door, labeling_page, naming_page
    from nesi.labeling.session import LabelingSession

    with contextlib.ExitStack() as ends:
        door = ends.enter_context(Door(options.port))
        meanwhile = ends.enter_context(contextlib.ExitStack())  # the page, until the network is trained

        def show(what: str, signpost: Path) -> None:
            print(f"{what}: {door.address}", flush=True)
            print("The address works once. Answers are saved at each click; end with Ctrl-C.", flush=True)
            if not options.no_browser:
                webbrowser.open(_page_that_leads_to(door.address, signpost).as_uri())

        def ask(data: str) -> list[str]:
            naming = Naming(data)
            meanwhile.enter_context(door.serving(naming_page(naming)))
            show(f"{data} has no label; name its classes", Path(ends.enter_context(TemporaryDirectory())) / "open.html")
            asked.append(data)
            return naming.wait()

        asked: list[str] = []
        directory = _directory(options, ask)
        run = run_to_label(directory, options.run, options.data_dir)
        wanted = run.task.parameters.field_labels
        fields = options.fields or (wanted.fields if wanted else USUAL_NUMBER_OF_FIELDS)
        make_directory(run.folder)
        ends.enter_context(locked(run.folder))
        session = LabelingSession(run, min(fields, len(run.W)), options.choose)
        ends.callback(session.end)
        if session.notice is not None:
            print(f"warning: {session.notice}", file=sys.stderr)
        signpost = run.folder.absolute() / "open.html"
        ends.callback(signpost.unlink, missing_ok=True)
        meanwhile.close()
        if asked:
            print(f"labeling {run.name}: the page goes on by itself.", flush=True)
        else:
            show(f"labeling {run.name}", signpost)
        with contextlib.suppress(KeyboardInterrupt):
            door.serve(labeling_page(session))
    print(f"\nanswers: {run.folder}; go on with: nesi label {directory} --run {run.name}")
    result = stored_result(run.folder)
    if result is not None:
        if result.get("predictions"):
            print(f"predictions for unlabeled points: {result['predictions']}")
        print(f"for new data: nesi predict {directory} NEW_DATA --run {run.name}")
    return 0


def _directory(options: argparse.Namespace, ask: Callable[[str], list[str]]) -> Path:
    """Of the run; data is trained on first, after asking for the names of its classes if nobody gave them."""
    from nesi.labeling.from_data import is_run, trained_without_labels

    changes: dict[str, Any] = dict(parse_assignment(text) for group in options.set for text in group)
    path: Path = options.directory
    if not is_run(path) and (path.exists() or str(path) in data_tools.NAMES):
        return trained_without_labels(
            str(path), options.classes, options.out, options.fields, changes, options.data_dir, ask
        )
    if options.classes or options.out or changes:
        raise NesiError(f"{path} is not data, so --classes, --out and --set have no use; leave them out.")
    return path
