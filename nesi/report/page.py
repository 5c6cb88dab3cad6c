"""Summary, figures and one self-contained page, made from the files of an experiment's directory alone."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import yaml

from nesi.config.parameters import ExperimentParameters
from nesi.errors import NesiError
from nesi.networks import get_network
from nesi.report import comparison as compare
from nesi.report import comparison_figures, figures, tables, weight_figures
from nesi.report.comparison import Cell
from nesi.report.glossary import GLOSSARY
from nesi.report.published import CompetingMethod, published, published_experiment
from nesi.storage.arrays import Arrays, load_arrays
from nesi.storage.experiment_directory import DatasetDescription, ExperimentDirectory, cell_name, name_of
from nesi.storage.records import Record, make_directory, write_text

Picture = tuple[str, str]  # file name, caption


def make_report(directory: Path) -> list[Cell]:
    """(Re)make summary.json, summary.md, figures/*.png and report.html; returns the cells of the table."""
    place = ExperimentDirectory(directory)
    records = compare.collect([directory])
    cells = compare.summarize(records)
    tables.write_summary(directory, cells)
    parameters, dataset = place.parameters(), place.dataset()
    make_directory(place.figures)
    pictures = list(_draw_all(place, parameters, dataset, records, cells))
    write_text(place.report_file, page(place, parameters, dataset, records, cells, pictures))
    return cells


def competing_with(experiment: str, dataset: str) -> list[CompetingMethod]:
    """Methods to draw beside ours; those with a fixed number of units belong to the bio-inspired comparison."""
    bio = experiment == "bio-inspired"
    return [
        entry
        for entry in published().competing
        if entry.dataset == dataset and (entry.units is not None) == bio and entry.labels > 0
    ]


def _draw_all(
    directory: ExperimentDirectory,
    parameters: ExperimentParameters,
    dataset: DatasetDescription,
    records: list[Record],
    cells: list[Cell],
) -> Iterator[tuple[str, list[Picture]]]:
    """Section titles with their pictures, in the order of the page."""
    name = parameters.experiment or parameters.dataset
    experiment = published_experiment(name)
    title = experiment.title if experiment else parameters.dataset
    by_labels = [cell for cell in cells if cell.labels > 0]  # the axis is logarithmic, and fields are no points
    if by_labels:
        whole_set = parameters.train_size is None  # as the others had
        competing = competing_with(name, experiment.dataset) if experiment and whole_set else []
        figure = comparison_figures.error_by_labels(by_labels, experiment, competing, title)
        figures.save_figure(figure, directory.figures / "error_by_labels.png")
        caption = "Test error against the number of labels. Error bars and bands: standard error of the mean."
        if experiment:
            caption += " Open symbols: the paper. Grey: other methods, with numbers from the paper or those it cites."
            if experiment.another_part_of is not None:
                caption += " These were made with the paper's data, of which ours is another and smaller part."
            if len(figure.axes) > 1 and experiment.tuning_labels:
                caption += (
                    f" Right: the same by all labels seen; the parameters were tuned with {experiment.tuning_labels},"
                    " so settings with fewer labels are left out."
                )
        pictures = [("error_by_labels.png", caption)]
        tunable = published().tunable_parameters if parameters.dataset == "mnist" else ()  # the paper's table of them
        bars = comparison_figures.methods_as_bars(by_labels, competing, tunable, title)
        if bars is not None and name != "bio-inspired":  # there, what is compared are networks of one size at a time
            figures.save_figure(bars, directory.figures / "methods.png")
            caption = "Ours (in colour) among other methods."
            if all(entry.tuning_labels for entry in competing) and experiment and experiment.tuning_labels:
                caption += f" These saw further labels for tuning; ours only {experiment.tuning_labels}."
            pictures.append(("methods.png", caption))
        yield "Error against labels", pictures
    groups: dict[tuple[str, int], list[Record]] = {}
    for record in sorted(records, key=lambda record: (record["labels"], record["network"], record["run"])):
        groups.setdefault((record["network"], record["labels"]), []).append(record)
    for (network, labels), group in groups.items():
        yield f"{network}-NeSi, {labels} labels", list(_draw_cell(directory, dataset, network, labels, group))


def _draw_cell(
    directory: ExperimentDirectory, dataset: DatasetDescription, network: str, labels: int, group: list[Record]
) -> Iterator[Picture]:
    cell = cell_name(network, labels)
    title = f"{network}-NeSi, {labels} labels"
    details = [(record, _load(directory.details_file(name_of(record)))) for record in group]
    known = [(record, arrays) for record, arrays in details if arrays is not None][:20]
    if known:
        stops = [record["stopped_at"] for record, _ in known]
        self_labeling = get_network(network).self_labeling
        curves = figures.training_curves([arrays for _, arrays in known], stops, title, self_labeling)
        figures.save_figure(curves, directory.figures / f"training_{cell}.png")
        caption = f"Training of {title}: one line per run."
        if any(stop is not None for stop in stops):
            caption += " Vertical lines: the iteration whose weights were kept."
        yield f"training_{cell}.png", caption
        counts = [arrays["confusion"] for _, arrays in known if arrays["confusion"].size]
        if counts:
            total = np.sum(counts, axis=0)
            matrix = figures.confusion_matrix(total, dataset.class_names, title)
            figures.save_figure(matrix, directory.figures / f"confusion_{cell}.png")
            caption = f"Confusion on the test set, {len(counts)} runs together."
            if pairs := figures.most_confused(total, dataset.class_names):
                caption += f" Most often: {pairs}."
            yield f"confusion_{cell}.png", caption
    for record in group:
        weights = _load(directory.weights_file(name_of(record)))
        if weights is not None:
            yield _draw_weights(directory, dataset, cell, f"{title}, run {record['run']}", record, weights)
            return


def _draw_weights(
    directory: ExperimentDirectory, dataset: DatasetDescription, cell: str, title: str, record: Record, weights: Arrays
) -> Picture:
    W, R, names = weights["W"], weights["R"], dataset.class_names
    if dataset.image_shape:
        rows, columns = dataset.image_shape
        figure = weight_figures.learned_fields(W, R, (rows, columns), names, record["n_train"], title)
        file, caption = f"fields_{cell}.png", "Learned fields (a random choice), with their classes as columns."
    elif dataset.vocabulary:
        figure = weight_figures.strongest_words(W, R, dataset.vocabulary, names, title)
        file, caption = f"words_{cell}.png", "The strongest words of each unit; the column beside it shows its classes."
    else:
        figure = weight_figures.strongest_inputs(W, R, names, title)
        file, caption = f"inputs_{cell}.png", "The strongest inputs of each unit."
    figures.save_figure(figure, directory.figures / file)
    return file, caption


def page(
    directory: ExperimentDirectory,
    parameters: ExperimentParameters,
    dataset: DatasetDescription,
    records: list[Record],
    cells: list[Cell],
    sections: list[tuple[str, list[Picture]]],
) -> str:
    """The page, with every picture inside: it opens from disk, without a network."""
    name = parameters.experiment or parameters.dataset
    experiment = published_experiment(name)
    title = experiment.title if experiment else parameters.dataset
    body = [
        f"<h1>Neural Simpletrons: {_text(title)}</h1>",
        f"<p class='lead'>{_text(_lead(dataset, records, parameters))} <a href='#glossary'>What the words mean</a></p>",
    ]
    body.append("<h2>Ours against the paper</h2>")
    body.append(_table(tables.rows(cells)) if cells else "<p>No run is finished yet.</p>")
    body += [f"<p class='note'>{_text(note)}</p>" for note in tables.footnotes(cells)]
    for heading, pictures in sections:
        body.append(f"<h2>{_text(heading)}</h2>")
        body += [_picture(directory.figures / file, caption) for file, caption in pictures]
    terms = "".join(f"<dt>{_text(word)}</dt><dd>{_text(meaning)}</dd>" for word, meaning in GLOSSARY.items())
    body.append(f"<h2 id='glossary'>Glossary</h2><dl>{terms}</dl>")
    body.append("<h2>Parameters</h2>")
    shown = yaml.safe_dump(parameters.model_dump(mode="json", exclude_none=True), sort_keys=False, width=100)
    body.append(f"<pre>{_text(shown)}</pre>")
    body.append("<h2>Versions</h2>")
    versions = sorted({json.dumps(record["versions"], sort_keys=True) for record in records})
    for entry in versions:
        body.append(_table([["package", "version"], *([key, value] for key, value in json.loads(entry).items())]))
    return _FRAME.format(title=_text(title), style=_STYLE, body="\n".join(body))


def _lead(dataset: DatasetDescription, records: list[Record], parameters: ExperimentParameters) -> str:
    seconds = sum(float(record["seconds"]) for record in records)
    runs = f"{len(records)} run{'' if len(records) == 1 else 's'}"
    asked = " and, as asked for, for the test-error curve" if parameters.test_error_every else ""
    return (
        f"{dataset.n_train} training points, {dataset.n_test} test points, {dataset.n_inputs} inputs, "
        f"{len(dataset.class_names)} classes; {runs}, {seconds / 3600:.2f} hours of training. "
        f"Test labels were used for the final test error only{asked}."
    )


def _table(rows: list[list[str]]) -> str:
    head = "".join(f"<th>{_text(text)}</th>" for text in rows[0])
    lines = "".join("<tr>" + "".join(f"<td>{_text(text)}</td>" for text in row) + "</tr>" for row in rows[1:])
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"


def _picture(path: Path, caption: str) -> str:
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    return (
        f"<figure><img alt='{_text(caption)}' src='data:image/png;base64,{data}'>"
        f"<figcaption>{_text(caption)}</figcaption></figure>"
    )


def _text(text: object) -> str:
    return html.escape(str(text), quote=True)


def _load(path: Path) -> Arrays | None:
    """A missing or damaged file costs a picture, not the report."""
    try:
        return load_arrays(path)
    except NesiError:
        return None


_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem;
       color: #222; background: #fff; }
h1 { font-size: 1.7rem; margin-bottom: 0.3rem; }
h2 { font-size: 1.2rem; margin-top: 2.2rem; border-bottom: 1px solid #ddd; }
.lead, .note, figcaption { color: #555; }
.note, figcaption { font-size: 0.85rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; display: block; overflow-x: auto; }
th, td { padding: 0.25rem 0.8rem; text-align: left; border-bottom: 1px solid #e5e5e5; white-space: nowrap; }
figure { margin: 1rem 0; }
dt { font-weight: 600; }
img { max-width: 100%; height: auto; }
pre { background: #f6f6f6; padding: 1rem; overflow-x: auto; font-size: 0.85rem; }
"""

# The policy makes the promise checkable: the page cannot load anything from anywhere, nor run a script.
_FRAME = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}
</body>
</html>
"""
