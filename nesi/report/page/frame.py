"""The whole page: contents at the side, the summary first, one section per network that opens on demand."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from importlib import resources

import yaml

from nesi.config.parameters import ExperimentParameters
from nesi.report import tables
from nesi.report.comparison import Cell, interval_of_the_test
from nesi.report.glossary import GLOSSARY
from nesi.report.page import summary
from nesi.report.page.markup import table, text
from nesi.report.published import published_experiment
from nesi.storage.experiment_directory import DatasetDescription, cell_name
from nesi.storage.records import Record


@dataclass(frozen=True)
class Section:
    """Of one network with one number of labels."""

    anchor: str
    title: str
    in_short: str
    html: str
    style: str


def whole_page(
    parameters: ExperimentParameters,
    dataset: DatasetDescription,
    records: list[Record],
    cells: list[Cell],
    comparison: list[str],
    networks: list[Section],
) -> str:
    """With everything inside: it opens from disk, and asks nobody for anything."""
    experiment = published_experiment(parameters.experiment or parameters.dataset)
    title = experiment.title if experiment else summary.name_of_data(dataset)
    contents = [("summary", "Summary"), *([("errors", _heading(cells))] if cells else [])]
    parts = [_summary(parameters, dataset, records, cells), _errors(cells)]
    if comparison:
        contents.append(("by-labels", "Error against labels"))
        parts.append(f"<section id='by-labels'><h2>Error against labels</h2>{''.join(comparison)}</section>")
    parts.append("<h2 id='networks'>Networks</h2>" if networks else "")
    parts += [_network(section, opened=len(networks) == 1) for section in networks]
    last = [("glossary", "What the words mean"), ("parameters", "Parameters"), ("versions", "Versions")]
    parts += [_glossary(), _parameters(parameters), _versions(records)]
    script = _file("report.js")
    return _FRAME.format(
        title=text(title),
        style=_file("report.css") + "".join(section.style for section in networks),
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii"),
        contents=_contents(contents, networks, last),
        body="\n".join(parts),
    )


def _heading(cells: list[Cell]) -> str:
    return "Ours against the paper" if tables.any_published(cells) else "Test errors"


def _contents(first: list[tuple[str, str]], networks: list[Section], last: list[tuple[str, str]]) -> str:
    def link(anchor: str, name: str) -> str:
        return f"<li><a href='#{text(anchor)}'>{text(name)}</a></li>"

    of_networks = "".join(link(section.anchor, section.title.replace("-NeSi", "")) for section in networks)
    entries = [link(*entry) for entry in first]
    entries += [f"<li><a href='#networks'>Networks</a><ul>{of_networks}</ul></li>"] if networks else []
    return f"<ul>{''.join([*entries, *(link(*entry) for entry in last)])}</ul>"


def _summary(
    parameters: ExperimentParameters, dataset: DatasetDescription, records: list[Record], cells: list[Cell]
) -> str:
    sentences = [
        summary.how_sure(records, cells),
        *[note for note in tables.footnotes(cells) if note.startswith("Of ")],
        summary.about_spreading(records[0]) if records else "",
        summary.about_test_labels(parameters, dataset),
    ]
    rest = "".join(f"<p>{text(sentence)}</p>" for sentence in sentences if sentence)
    return (
        f"<section id='summary'><p>{text(summary.what_was_trained(parameters, dataset, records))}</p>"
        f"<p class='result'>{text(summary.result(dataset, records, cells))}</p>{rest}</section>"
    )


def _errors(cells: list[Cell]) -> str:
    if not cells:
        return ""
    rows = tables.rows(cells)
    if not tables.any_published(cells):
        rows[0] = ["test error [%]" if name == "ours [%]" else name for name in rows[0]]
        rows[0].append("95 % interval")
        for row, cell in zip(rows[1:], cells, strict=True):
            interval = interval_of_the_test(cell)
            row.append("-" if interval is None else f"{interval[0]:.1f} to {interval[1]:.1f}")
    links = [f"cell-{cell_name(cell.network, cell.labels)}" for cell in cells]
    notes = "".join(f"<li>{text(note)}</li>" for note in tables.footnotes(cells, intervals=False))
    return (
        f"<section id='errors'><h2>{_heading(cells)}</h2>{table(rows, links)}"
        "<p class='note'>Mean ± standard error (number of runs). <a href='#glossary'>What ff, r and + mean</a></p>"
        f"<ul class='note'>{notes}</ul></section>"
    )


def _network(section: Section, opened: bool) -> str:
    return (
        f"<details class='network' id='{text(section.anchor)}'{' open' if opened else ''}>"
        f"<summary><b>{text(section.title)}</b> <span>{text(section.in_short)}</span></summary>{section.html}</details>"
    )


def _glossary() -> str:
    terms = "".join(f"<dt>{text(word)}</dt><dd>{text(meaning)}</dd>" for word, meaning in GLOSSARY.items())
    return f"<section id='glossary'><h2>What the words mean</h2><dl>{terms}</dl></section>"


def _parameters(parameters: ExperimentParameters) -> str:
    shown = yaml.safe_dump(parameters.model_dump(mode="json", exclude_none=True), sort_keys=False, width=100)
    chosen = "".join(f"<li>{text(key)} = {text(reason)}</li>" for key, reason in parameters.automatic.items())
    why = f"<p>Chosen from the data, as the file left it open:</p><ul>{chosen}</ul>" if chosen else ""
    return f"<details id='parameters'><summary><b>Parameters</b></summary>{why}<pre>{text(shown)}</pre></details>"


def _versions(records: list[Record]) -> str:
    versions = sorted({json.dumps(record["versions"], sort_keys=True) for record in records})
    tables_of = "".join(table([["package", "version"], *map(list, json.loads(entry).items())]) for entry in versions)
    return f"<details id='versions'><summary><b>Versions</b></summary>{tables_of}</details>"


def _file(name: str) -> str:
    return resources.files("nesi.report.page").joinpath(name).read_text(encoding="utf-8")


# The policy makes the promise checkable: the page cannot load anything from anywhere, nor run any script but ours.
_FRAME = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'; \
script-src 'sha256-{script_hash}'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header><p>Neural Simpletrons</p><h1>{title}</h1></header>
<nav aria-label="contents"><details id="contents" open><summary>Contents</summary>{contents}</details></nav>
<main>
{body}
</main>
<aside id="look" aria-live="polite" aria-label="what you point at" hidden><button type="button" id="close" \
aria-label="close">×</button><div id="looked"></div></aside>
<script>{script}</script>
</body>
</html>
"""
