"""The page in a few sentences: what was trained on what, what came out, and how sure that is."""

from __future__ import annotations

from pathlib import Path

from nesi.config.parameters import ExperimentParameters
from nesi.networks import NETWORKS
from nesi.report.comparison import FEWEST_RUNS, Cell, interval_of_the_test
from nesi.report.wording import counted, duration, listed, span
from nesi.storage.experiment_directory import DatasetDescription
from nesi.storage.records import Record


def name_of_data(dataset: DatasetDescription) -> str:
    """Own data is called by its file or folder, wherever that is."""
    return Path(dataset.name).name or dataset.name


def what_was_trained(parameters: ExperimentParameters, dataset: DatasetDescription, records: list[Record]) -> str:
    points = f"{counted(dataset.n_train, 'training point')}, {counted(dataset.n_inputs, 'input')}"
    about = f"{name_of_data(dataset)}: {points}, {counted(len(dataset.class_names), 'class', 'classes')}"
    if not records:
        return f"Nothing has been trained yet on {about}."
    trained = {record["network"] for record in records}
    networks = [name for name in NETWORKS if name in trained]
    units = span([int(record["settings"].get("C") or parameters.C) for record in records])
    kinds = f"Network{'s' if len(networks) > 1 else ''} {listed(networks)} with {units} units"
    seconds = sum(float(record["seconds"]) for record in records)
    runs = f"{counted(len(records), 'run')}, {duration(seconds)} of training"
    return f"{kinds} learned from {about}. {_taught(records)} ({runs})."


def _taught(records: list[Record]) -> str:
    fields = sorted({(record["settings"].get("field_labels") or {}).get("fields") or 0 for record in records})
    if any(fields):
        by = {(record["settings"].get("field_labels") or {}).get("by") for record in records}
        whom = "a person" if "person" in by else "an oracle"
        return f"No point had a label; {listed(fields)} units were to be labeled by {whom}"
    numbers = sorted({record["labels"] for record in records})
    if numbers == [min(record["n_train"] for record in records)]:
        return "All points had labels"
    if numbers == [0]:
        return "No point had a label"
    chosen = numbers if len(numbers) <= 6 else [numbers[0], numbers[1], "...", numbers[-1]]
    return f"{listed(chosen)} of the points had labels, the others had none"


def result(dataset: DatasetDescription, records: list[Record], cells: list[Cell]) -> str:
    """In one sentence."""
    if not records:
        return "No run is finished yet."
    if not cells:
        waiting = any((record["settings"].get("field_labels") or {}).get("by") == "person" for record in records)
        if waiting:
            return "There is no test error yet: the units wait for a person to label them."
        return "There is no test error: no labeled points were held out for testing."
    groups: dict[tuple[int, int], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.labels, cell.fields or 0), []).append(cell)
    chosen = sorted(groups) if len(groups) <= 3 else [min(groups), max(groups)]
    parts = [_of_group(groups[key], number == 0) for number, key in enumerate(reversed(chosen))]
    return f"{'; '.join(parts)}.".replace("with", "With", 1)


def _of_group(cells: list[Cell], first_of_all: bool) -> str:
    first = cells[0]
    given = f"{first.fields} labeled units" if first.fields else counted(first.labels, "label")
    low, high = min(cells, key=lambda cell: cell.mean), max(cells, key=lambda cell: cell.mean)
    if len(cells) == 1:
        return f"with {given}, {low.network} gets {low.mean:.2f} % of the test points wrong"
    what = "the test error is" if first_of_all else "it is"
    return f"with {given}, {what} between {low.mean:.2f} % ({low.network}) and {high.mean:.2f} % ({high.network})"


def how_sure(records: list[Record], cells: list[Cell]) -> str:
    if not records:
        return ""
    if not cells:
        return "How often it is wrong is not known. The points that it is least sure of are listed below."
    words = []
    fewest, most = min(cell.runs for cell in cells), max(cell.runs for cell in cells)
    if most < FEWEST_RUNS:
        words.append(
            f"With {'one run' if most == 1 else f'{most} runs of each'}, it is hardly known how much chance matters, "
            "which draws the labels and the start; more runs tell."
        )
    else:
        words.append(f"± is the standard error over {span([fewest, most])} runs, each with its own labels and start.")
    tested = [(cell, interval) for cell in cells if (interval := interval_of_the_test(cell)) is not None]
    if tested:
        cell, (low, high) = max(tested, key=lambda pair: (pair[0].labels, -pair[0].mean))
        which = "" if len(cells) == 1 else f" of {cell.network} with {counted(cell.labels, 'label')}"
        words.append(
            f"Tested on {counted(cell.n_test or 0, 'point')}: for points like these, the error{which} is "
            f"{low:.1f} to {high:.1f} % (95 % interval)."
        )
    return " ".join(words)


def about_test_labels(parameters: ExperimentParameters, dataset: DatasetDescription) -> str:
    if not dataset.n_test:
        return ""
    asked = " and, as asked for, for the test-error curve" if parameters.test_error_every else ""
    return f"Test labels were used for the final test error only{asked}."


def about_spreading(record: Record) -> str:
    """How far labels that were spread can be trusted, in words; empty if they were not."""
    about = (record.get("resolved") or {}).get("spread")
    if not about:
        return ""
    over = {"points": "neighbouring training points", "units": "similar units"}.get(about["over"], about["over"])
    words = [f"The labels were first spread over {over}."]
    way = about.get("way")
    found = (about.get("found_again") or {}).get(way, (about.get("found_again") or {}).get("parts"))
    if found is not None:
        words.append(f"Of labels that were hidden for a trial, {100 * found:.0f} % were found again.")
    if way == "parts" and about.get("agreement") is not None:
        words.append(f"Searches for groups without any label agreed on {100 * about['agreement']:.0f} % of the points.")
    return " ".join(words)
