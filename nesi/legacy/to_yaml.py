"""A configuration of the authors' program as the parameter file that does the same."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from nesi.config.legacy_options import QUIRKS
from nesi.config.parameters import ExperimentParameters, validated
from nesi.legacy.configuration import find_configuration, read_configuration
from nesi.legacy.resolve import READERS, Resolved, RunSettings, resolve

# Which of the paper's tables has the runs of a data set, if all of its points are used.
FULL_SETS = {"mnist": (60000, 10000), "newsgroups20": (11269, 7505)}
# Settings that may change from run to run, and what they are called in a parameter file.
PER_RUN = {
    **{name: name for name in ("train_size", "test_size", "C", "A", "iterations", "batch_size", "labels")},
    "factor_W": "epsilon_W",
    "factor_R": "epsilon_R",
    "iterations_R": "iterations_R",
}


@dataclass(frozen=True)
class Converted:
    parameters: ExperimentParameters
    content: dict[str, Any]  # the keys that are not left at their defaults
    warnings: tuple[str, ...]
    name: str

    def to_yaml(self) -> str:
        text = yaml.safe_dump(self.content, sort_keys=False, default_flow_style=None, width=120, allow_unicode=True)
        return f"# {self.name} of the authors' Theano program\n{text}"


def convert(given: str) -> Converted:
    """The configuration `given` (a path, or a name below config/) with its warnings."""
    resolved = resolve(read_configuration(find_configuration(given)))
    content, warnings = parameters_of(resolved)
    parameters = validated(content, resolved.name)
    return Converted(parameters, content, (*resolved.warnings, *warnings), resolved.name)


def parameters_of(resolved: Resolved) -> tuple[dict[str, Any], list[str]]:
    """The content of the parameter file, and what had to be decided on the way."""
    layers, runs = resolved.layers, resolved.runs
    content, warnings = _data_set(resolved)
    settings, changing = _per_run(runs, layers.greedy)
    labels = sorted({run.labels for run in runs})
    for key in ("C", "A", "epsilon_W", "epsilon_R"):
        content[key] = settings[key]
    if layers.threshold is not None:
        content["threshold"] = layers.threshold
    for key in ("iterations", "iterations_R", "batch_size", "train_size", "test_size"):
        if key in settings:
            content[key] = settings[key]
    if changing:
        content["per_run"] = changing
    content |= {"networks": [layers.network], "labels": labels, "runs": len(runs)}
    content |= {"inference": "exact", "minibatch_rule": "summed", "W_init": layers.W_init, "R_init": layers.R_init}
    if layers.stopping:
        content |= {"stopping": True, "stopping_width": layers.stopping_width}
    if layers.greedy:
        content["greedy"] = True
    output = resolved.output
    content["keep_weights"] = "all" if output.SAVE_WEIGHTS else "first"
    if output.RESULTS_ONLINE_OUTPUT:
        content["test_error_every"] = output.RESULTS_EVERY_N_ITERATIONS
    content["legacy"] = _legacy(resolved)
    return content, warnings


def _legacy(resolved: Resolved) -> dict[str, Any]:
    """All quirks, each of them named, so that it can be switched off where it is read."""
    legacy: dict[str, Any] = dict.fromkeys(QUIRKS, True)
    legacy["chunks"] = resolved.chunk_size or False
    if not resolved.even_labels:
        legacy["even_labels"] = False
    for key in ("index_list", "label_list"):
        if getattr(resolved, key) is not None:
            legacy[key] = getattr(resolved, key)
    if resolved.layers.top_model == "MM-USL":
        legacy["unlabeled_top_layer"] = True
    legacy["output"] = resolved.output.model_dump(exclude_defaults=True)
    return legacy


def _data_set(resolved: Resolved) -> tuple[dict[str, Any], list[str]]:
    """The folder of the configuration if it has the data; else the data set of that name, wherever it is found."""
    name = READERS[resolved.reader][0]
    content: dict[str, Any] = {"dataset": name}
    warnings = []
    folder = _folder_with_data(resolved.data_path, name)
    if folder is not None:
        content["dataset"] = str(folder.resolve())
    else:
        warnings.append(f"{resolved.data_path}: lacks the data files; {name} is looked for where NeSi looks for data")
    if resolved.classes:
        content["data"] = {"classes": list(resolved.classes)}
        return content, warnings
    everything = all((run.train_size, run.test_size) == FULL_SETS[name] for run in resolved.runs)
    if name == "newsgroups20" and resolved.layers.R_init == "delta":
        name = "newsgroups20-full"  # the authors' optimum with all labels, which the paper gives in the text
    if everything:
        content["experiment"] = name
    return content, warnings


def _folder_with_data(path: Path, name: str) -> Path | None:
    from data_tools import mnist, newsgroups

    if name == "mnist":
        return path if mnist.is_present(path) else None
    # The authors' README writes the folder with a space, their program reads it without.
    spellings = (path, path.with_name("20 Newsgroups"))
    return next((place for place in spellings if newsgroups.find_matlab_folder(place) is not None), None)


def _per_run(runs: tuple[RunSettings, ...], greedy: bool) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """The settings of the first run, and lists of those that are not the same in all runs."""
    settings: dict[str, Any] = {}
    changing: dict[str, list[Any]] = {}
    for attribute, key in PER_RUN.items():
        if attribute == "iterations_R" and (not greedy or all(run.iterations_R == run.iterations for run in runs)):
            continue
        values = [getattr(run, attribute) for run in runs]
        settings[key] = values[0]
        if len(set(values)) > 1:
            changing[key] = values
    return settings, changing
