"""Summary, figures and one self-contained page, made from the files of an experiment's directory alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from nesi.config.parameters import ExperimentParameters
from nesi.errors import NesiError
from nesi.networks import NETWORKS, get_network
from nesi.report import comparison as compare
from nesi.report import comparison_figures, figures, tables, weight_figures
from nesi.report.comparison import Cell
from nesi.report.page.explanations import about_the_network, why_the_likelihood_falls
from nesi.report.page.frame import Section, whole_page
from nesi.report.page.look import MANY_SECTIONS, Look
from nesi.report.page.markup import data_uri, text
from nesi.report.page.network_section import NetworkSection
from nesi.report.page.summary import about_spreading
from nesi.report.published import CompetingMethod, PublishedExperiment, published, published_experiment
from nesi.report.wording import counted
from nesi.storage.arrays import Arrays, load_arrays, load_described_arrays
from nesi.storage.experiment_directory import DatasetDescription, ExperimentDirectory, cell_name, name_of
from nesi.storage.records import Record, make_directory, write_text

_NARROW = 5.6  # inches: what is drawn for the page can be read on a phone
_MOST_CURVES = 20


def make_report(directory: Path) -> list[Cell]:
    """(Re)make summary.json, summary.md, figures/*.png and report.html; returns the cells of the table."""
    place = ExperimentDirectory(directory)
    records = compare.collect([directory])
    cells = compare.summarize(records)
    tables.write_summary(directory, cells)
    parameters, dataset = place.parameters(), place.dataset()
    make_directory(place.figures)
    comparison = list(_compared(place, parameters, cells))
    networks = list(_networks(place, dataset, records, cells))
    write_text(place.report_file, whole_page(parameters, dataset, records, cells, comparison, networks))
    return cells


def competing_with(experiment: str, dataset: str) -> list[CompetingMethod]:
    """Methods to draw beside ours; those with a fixed number of units belong to the bio-inspired comparison."""
    bio = experiment == "bio-inspired"
    return [
        entry
        for entry in published().competing
        if entry.dataset == dataset and (entry.units is not None) == bio and entry.labels > 0
    ]


def _compared(place: ExperimentDirectory, parameters: ExperimentParameters, cells: list[Cell]) -> list[str]:
    """Ours against the paper and others, as figures: files of their own, and HTML for the page."""
    by_labels = [cell for cell in cells if cell.labels > 0]  # the axis is logarithmic, and fields are no points
    if not by_labels:
        return []
    name = parameters.experiment or parameters.dataset
    experiment = published_experiment(name)
    title = experiment.title if experiment else Path(parameters.dataset).name
    whole_set = parameters.train_size is None  # as the others had
    competing = competing_with(name, experiment.dataset) if experiment and whole_set else []
    figure = comparison_figures.error_by_labels(by_labels, experiment, competing, title)
    figures.save_figure(figure, place.figures / "error_by_labels.png")
    tunable = published().tunable_parameters if parameters.dataset == "mnist" else ()  # the paper's table of them
    bars = comparison_figures.methods_as_bars(by_labels, competing, tunable, title)
    if name == "bio-inspired":  # there, what is compared are networks of one size at a time
        bars = None
    if bars is not None:
        figures.save_figure(bars, place.figures / "methods.png")
    found = []
    if len({cell.labels for cell in by_labels}) > 1 or experiment is not None:  # one point is no curve
        drawn = comparison_figures.error_by_labels(by_labels, experiment, competing, title, narrow=True)
        found.append(_figure(figures.as_svg(drawn), _about_errors(experiment, len(figure.axes) > 1)))
    if bars is not None:
        caption = "Ours (in colour) among other methods."
        if all(entry.tuning_labels for entry in competing) and experiment and experiment.tuning_labels:
            caption += f" These saw further labels for tuning; ours only {experiment.tuning_labels}."
        drawn_bars = comparison_figures.methods_as_bars(by_labels, competing, tunable, title, narrow=True)
        assert drawn_bars is not None
        found.append(_figure(figures.as_svg(drawn_bars), caption))
    return found


def _about_errors(experiment: PublishedExperiment | None, two_panels: bool) -> str:
    caption = "Test error against the number of labels. Error bars and bands: standard error of the mean."
    if experiment is None:
        return caption
    caption += " Open symbols: the paper. Grey: other methods, with numbers from the paper or those it cites."
    if experiment.another_part_of is not None:
        caption += " These were made with the paper's data, of which ours is another and smaller part."
    if two_panels and experiment.tuning_labels:
        caption += (
            f" Below: the same by all labels seen; the parameters were tuned with {experiment.tuning_labels},"
            " so settings with fewer labels are left out."
        )
    return caption


def _networks(
    place: ExperimentDirectory, dataset: DatasetDescription, records: list[Record], cells: list[Cell]
) -> list[Section]:
    """A section for each network with each number of labels."""
    groups: dict[tuple[str, int], list[Record]] = {}
    order = list(NETWORKS)
    for record in sorted(records, key=lambda record: (record["labels"], order.index(record["network"]), record["run"])):
        groups.setdefault((record["network"], record["labels"]), []).append(record)
    results = {(cell.network, cell.labels): cell for cell in cells}
    return [
        _network(place, dataset, group, results.get(key), number, len(groups) >= MANY_SECTIONS)
        for number, (key, group) in enumerate(groups.items())
    ]


def _network(
    place: ExperimentDirectory,
    dataset: DatasetDescription,
    group: list[Record],
    cell: Cell | None,
    number: int,
    of_many: bool,
) -> Section:
    network, labels = group[0]["network"], group[0]["labels"]
    title, file = f"{network}-NeSi, {counted(labels, 'label')}", cell_name(network, labels)
    details = [(record, _load(place.details_file(name_of(record)))) for record in group]
    known = [(record, arrays) for record, arrays in details if arrays is not None][:_MOST_CURVES]
    html = [f"<p>{text(about_the_network(network))} {text(about_spreading(group[0]))}</p>"]
    html += _training(place, title, file, known)
    kept, weights = next(
        ((record, arrays) for record in group if (arrays := _load(place.weights_file(name_of(record)))) is not None),
        (group[0], None),
    )
    if weights is not None:
        _draw_weights(place, dataset, file, f"{title}, run {kept['run']}", kept, weights)
    shown, about = _shown(place.shown_file(name_of(kept)))
    look = Look(kept, dataset, weights, shown, about["names"], about["texts"], number, of_many)
    looking = NetworkSection(look)
    html.append(looking.units())
    counts = [arrays["confusion"] for _, arrays in known if arrays["confusion"].size]
    if counts:
        total = np.sum(counts, axis=0)
        matrix = figures.confusion_matrix(total, dataset.class_names, title)
        figures.save_figure(matrix, place.figures / f"confusion_{file}.png")
        html.append(looking.confusions(total, len(counts)))
    html += looking.doubtful()
    return Section(f"cell-{file}", title, _in_short(cell, len(group)), "".join(html) + looking.templates, looking.style)


def _in_short(cell: Cell | None, runs: int) -> str:
    if cell is None:
        return f"{counted(runs, 'run')}, no test error"
    error = f"{cell.mean:.2f} %" if cell.sem is None else f"{cell.mean:.2f} ± {cell.sem:.2f} %"
    paper = "" if cell.published_mean is None else f", paper {cell.published_mean:.2f} %"
    return f"{error} ({counted(cell.runs, 'run')}{paper})"


def _training(place: ExperimentDirectory, title: str, file: str, known: list[tuple[Record, Arrays]]) -> list[str]:
    if not known:
        return []
    stops = [record["stopped_at"] for record, _ in known]
    histories = [arrays for _, arrays in known]
    self_labeling = get_network(known[0][0]["network"]).self_labeling
    curves = figures.training_curves(histories, stops, title, self_labeling)
    figures.save_figure(curves, place.figures / f"training_{file}.png")
    caption = f"Training of {title}: one line per run."
    if any(stop is not None for stop in stops):
        caption += " Vertical lines: the iteration whose weights were kept."
    if why := why_the_likelihood_falls(known[0][0], histories):
        caption += f" {why}"
    drawn = figures.training_curves(histories, stops, "", self_labeling, _NARROW)
    return ["<h3>Training</h3>", _figure(figures.as_svg(drawn), caption)]


def _draw_weights(
    place: ExperimentDirectory, dataset: DatasetDescription, cell: str, title: str, record: Record, weights: Arrays
) -> None:
    """As a file of its own; on the page, units are no figure but something to point at."""
    W, R, names = weights["W"], weights["R"], dataset.class_names
    if dataset.image_shape:
        rows, columns = dataset.image_shape
        figure = weight_figures.learned_fields(W, R, (rows, columns), names, record["n_train"], title)
        file = f"fields_{cell}.png"
    elif dataset.vocabulary:
        figure = weight_figures.strongest_words(W, R, dataset.vocabulary, names, title)
        file = f"words_{cell}.png"
    else:
        figure = weight_figures.strongest_inputs(W, R, names, title)
        file = f"inputs_{cell}.png"
    figures.save_figure(figure, place.figures / file)


def _figure(svg: bytes, caption: str) -> str:
    return (
        f"<figure><img alt='{text(caption)}' src='{data_uri(svg, 'image/svg+xml')}'>"
        f"<figcaption>{text(caption)}</figcaption></figure>"
    )


def _load(path: Path) -> Arrays | None:
    """A missing or damaged file costs a picture, not the report."""
    try:
        return load_arrays(path)
    except NesiError:
        return None


def _shown(path: Path) -> tuple[Arrays, dict[str, Any]]:
    """The points to look at, their names and texts; runs of earlier versions have none."""
    try:
        arrays, about = load_described_arrays(path)
        return arrays, {key: about[key] for key in ("names", "texts")}
    except (NesiError, KeyError):
        return {}, {"names": [], "texts": []}
