"""A parameter file as configurations of the authors' program: four ini files for every network and number of labels."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nesi.config.legacy_options import LegacyOptions, LegacyOutput
from nesi.config.parameters import ExperimentParameters
from nesi.config.values import WeightFile
from nesi.errors import NesiError
from nesi.legacy.ini import Section, format_ini
from nesi.legacy.layers import R_STARTS, W_STARTS
from nesi.legacy.to_yaml import FULL_SETS
from nesi.networks import get_network

W_NAMES = {ours: theirs for theirs, ours in W_STARTS.items()}
R_NAMES = {ours: theirs for theirs, ours in R_STARTS.items()}
K_OF = {"mnist": 10, "newsgroups20": 20}
FOLDERS = {"mnist": "MNIST", "newsgroups20": "20 Newsgroups"}
BATCH_SIZES = {"mnist": 25, "newsgroups20": 10}  # those of the authors

# Keys that nothing in a configuration corresponds to; they are named if they are not left at their defaults.
WITHOUT_COUNTERPART = (*("seed", "backend", "dtype", "shuffle", "tolerance", "inference", "minibatch_rule", "tuning"),)
THEIR_WAY = {"inference": "exact", "minibatch_rule": "summed"}


@dataclass(frozen=True)
class IniFiles:
    """One configuration: the four files as nested sections, and where they go below `config/`."""

    folder: str
    name: str
    main: Section
    dataset: Section
    model: Section
    output: Section

    def files(self) -> dict[str, str]:
        """Path below config/ -> text."""
        linked = {"dataset": self.dataset, "model": self.model, "output": self.output}
        names = {"dataset": self.main["DataSet"], "model": self.main["Model"], "output": self.main["Output"]}
        texts = {f"{self.folder}/{kind}/{names[kind]}.ini": format_ini(linked[kind]) for kind in linked}
        return {f"{self.folder}/{self.name}.ini": format_ini(self.main), **texts}


def configurations_of(
    parameters: ExperimentParameters, sizes: tuple[int, int] | None = None
) -> tuple[list[IniFiles], list[str]]:
    """One configuration per network and number of labels, and what is lost.

    `sizes` are the numbers of training and test points if all of them are used; by default those of the real data.
    """
    kind = data_kind(parameters)
    n_train, n_test = sizes or FULL_SETS[kind]
    filled = {"train_size": parameters.train_size or n_train, "test_size": parameters.test_size or n_test}
    parameters = parameters.model_copy(update=filled)
    warnings: list[str] = []
    _name_what_is_lost(parameters, warnings.append)
    n_train = filled["train_size"]
    swept_labels = parameters.per_run is not None and parameters.per_run.labels is not None
    numbers = [parameters.labels[0]] if swept_labels else parameters.labels
    cells = []
    for network in parameters.networks:
        for entry in numbers:
            labels = n_train if entry == "all" else entry
            cell = parameters.for_cell(network, labels, n_train)
            cells.append(_configuration(cell, kind, network, labels, warnings.append))
    return cells, list(dict.fromkeys(warnings))


def data_kind(parameters: ExperimentParameters) -> str:
    """mnist or newsgroups20, by name or by what is in the folder."""
    if parameters.dataset in FULL_SETS:
        return parameters.dataset
    from data_tools import mnist, newsgroups

    path = Path(parameters.dataset).expanduser()
    if path.is_dir() and mnist.is_present(path):
        return "mnist"
    if path.is_dir() and newsgroups.find_matlab_folder(path) is not None:
        return "newsgroups20"
    raise NesiError(f"{parameters.dataset}: the authors' program reads MNIST and 20 Newsgroups with 20 classes only.")


def _name_what_is_lost(parameters: ExperimentParameters, warn: Callable[[str], None]) -> None:
    defaults = type(parameters).model_fields
    for key in WITHOUT_COUNTERPART:
        value = getattr(parameters, key)
        if value != THEIR_WAY.get(key, defaults[key].default):
            shown = "tuning" if key == "tuning" else f"{key}: {value}"
            warn(f"{shown} has no counterpart in a configuration and is left out")
    if parameters.legacy is None:
        warn("the authors' program always has its quirks, but the parameter file has not (legacy: true)")


def _configuration(
    cell: ExperimentParameters, kind: str, network: str, labels: int, warn: Callable[[str], None]
) -> IniFiles:
    legacy = cell.legacy or LegacyOptions()
    output = legacy.output or LegacyOutput(LIKELIHOOD_OUTPUT=True, SAVE_WEIGHTS=cell.keep_weights == "all")
    name = f"{network}-NeSi-L{labels}"
    batch_size = cell.batch_size
    if batch_size is None:
        batch_size = BATCH_SIZES[kind]
        warn(f"batch_size is not given, but a configuration needs it; {batch_size} is written")
    main: Section = {
        "DataSet": f"{kind}-L{labels}",
        "Model": name,
        "Output": "default",
        "filename": output.filename or f"L{labels}",
        "foldername": output.foldername or f"{FOLDERS[kind]}/{network}-NeSi - L{labels}",
        "Runs": cell.runs,
        "mini_batch_size": _swept(cell, "batch_size", batch_size),
        "Theano": True,
        "Scan": True,
    }
    chunk_size = legacy.chunk_size(texts=kind == "newsgroups20", network=network)
    if chunk_size is not None:
        main["scan_batch_size"] = chunk_size
    written = output.model_dump(exclude={"foldername", "filename"})
    dataset = _dataset(cell, kind, labels, legacy)
    return IniFiles(FOLDERS[kind], name, main, dataset, _model(cell, network, legacy), written)


def _dataset(cell: ExperimentParameters, kind: str, labels: int, legacy: LegacyOptions) -> Section:
    is_mnist = kind == "mnist"
    path = cell.dataset if cell.dataset != kind else f"./data-sets/{'MNIST' if is_mnist else '20Newsgroups'}"
    section: Section = {"name": "MNIST" if is_mnist else "20Newsgroups-tf-idf", "path": path}
    section |= {"PIXEL_WIDTH": 28, "PIXEL_HEIGHT": 28} if is_mnist else {"PIXEL_WIDTH": 61188, "PIXEL_HEIGHT": 1}
    classes: Any = cell.data.get("classes")
    if classes:
        section["classes"] = tuple(classes)
    elif is_mnist:
        section["classes"] = tuple("0123456789")
    else:
        section["nclasses"] = 20
    section |= {
        "USE_TEST_SET": True,
        "training_data_size": _swept(cell, "train_size", cell.train_size),
        "training_label_size": _swept(cell, "labels", labels),
        "test_size": _swept(cell, "test_size", cell.test_size),
        "EVENLABELS": legacy.even_labels,
    }
    for ours, theirs in (("index_list", "indexlist"), ("label_list", "labellist")):
        if getattr(legacy, ours) is not None:
            section[theirs] = getattr(legacy, ours)
    return section


def _model(cell: ExperimentParameters, network: str, legacy: LegacyOptions) -> Section:
    kind, greedy = get_network(network), cell.greedy
    top_model = "MM-SSL" if kind.self_labeling else "MM-LabeledOnly"
    if legacy.unlabeled_top_layer:
        top_model = "MM-USL"
    bottom: Section = {
        "Model": "PoissonRecurrent" if kind.recurrent else "Poisson",
        "Initialization": _start(cell.W_init, W_NAMES, _auto_start(cell)),
        "InputSource": ("InputLayer", "ProcessingLayer2") if kind.recurrent else "InputLayer",
        "C": _swept(cell, "C", cell.C),
        "epsilon": _rate(cell, "epsilon_W"),
    }
    top: Section = {
        "Model": top_model,
        "Initialization": _start(cell.R_init, R_NAMES, "even"),
        "InputSource": "InputLayer" if greedy else "ProcessingLayer1",
        "C": "Default",
        "epsilon": _rate(cell, "epsilon_R"),
    }
    if top_model == "MM-SSL":
        top["threshold"] = cell.threshold
    first: Section = {"Iterations": _swept(cell, "iterations", cell.iterations)}
    if cell.stopping:
        first |= {"StoppingCriterion": True, "MovingWidth": cell.stopping_width}
    first["InputLayer"] = {"InputSource": "DataSet", "A": _swept(cell, "A", cell.A)}
    first["ProcessingLayer1"] = bottom
    if not greedy:
        return {"MultiLayer1": {**first, "ProcessingLayer2": top}}
    second: Section = {
        "Iterations": _swept(cell, "iterations_R", cell.iterations_R or first["Iterations"]),
        "InputLayer": {"InputSource": ("MultiLayer1", "ProcessingLayer1"), "A": None},
        "ProcessingLayer1": top,
    }
    return {"MultiLayer1": first, "MultiLayer2": second}


def _auto_start(cell: ExperimentParameters) -> str:
    """What `auto` means: class means for as many units as classes."""
    classes: Any = cell.data.get("classes")
    n_classes = len(classes) if classes else K_OF[data_kind(cell)]
    return "input_bylabel" if n_classes == cell.C else "input"


def _start(start: Any, names: dict[str, str], default: str) -> Any:
    if isinstance(start, WeightFile):
        path = Path(start.h5)
        return ("h5", str(path.parent), path.name) if path.suffix == ".h5" else ("h5", start.h5)
    if start in (None, "auto"):
        return default
    if start not in names:
        raise NesiError(
            f"the start {start!r} is not known to the authors' program; it has {', '.join(names.values())}."
        )
    return names[start]


def _rate(cell: ExperimentParameters, key: str) -> Any:
    value = _swept(cell, key, getattr(cell, key))
    return ("factor", *value) if isinstance(value, tuple) else ("factor", value)


def _swept(cell: ExperimentParameters, key: str, value: Any) -> Any:
    """The value, or a 'list' with that of every run."""
    values = getattr(cell.per_run, key) if cell.per_run is not None else None
    return value if values is None else ("list", *values)


def resolved_rates(cell: ExperimentParameters, network: str, labels: int, n_train: int, K: int) -> tuple[float, float]:
    """epsilon_W and epsilon_R as absolute numbers."""
    taught = labels if network in ("ff", "r") and not (cell.legacy and cell.legacy.unlabeled_top_layer) else n_train
    return min(cell.epsilon_W * cell.C / n_train, 1.0), min(cell.epsilon_R * K / max(taught, 1), 1.0)
