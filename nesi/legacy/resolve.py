"""What a configuration means: the settings of every run, with learning rates worked out, and what is not honoured."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nesi.config.legacy_options import LegacyOutput
from nesi.errors import NesiError
from nesi.legacy.configuration import Configuration
from nesi.legacy.keys import Keys, shown
from nesi.legacy.layers import Layers, read_layers
from nesi.legacy.sweeps import Rate

MAIN_KEYS = (
    *("DataSet", "Model", "Output", "filename", "foldername", "Runs", "mini_batch_size", "Theano", "Scan"),
    "scan_batch_size",
)
DATASET_KEYS = (
    *("name", "path", "PIXEL_WIDTH", "PIXEL_HEIGHT", "classes", "nclasses", "USE_TEST_SET", "EVENLABELS"),
    *("training_data_size", "training_label_size", "test_size", "indexlist", "labellist"),
)
PICTURE_KEYS = ("PICTURE_OUTPUT", "PICTURE_EVERY_N_ITERATIONS")
CONVERGENCE_KEYS = ("CONV_OUTPUT", "CONV_PLOT", "CONV_ONLINE_OUTPUT", "CONV_EVERY_N_ITERATIONS")
OUTPUT_KEYS = (*list(LegacyOutput.model_fields)[2:], *PICTURE_KEYS, *CONVERGENCE_KEYS, "OUTPUT_MODE")
LARGEST_RUNS = 100_000
LONGEST_NAME = 200

READERS = {"MNIST": ("mnist", 10), "20Newsgroups-tf-idf": ("newsgroups20", 20)}  # name -> our name, classes


@dataclass(frozen=True)
class RunSettings:
    """One run. `factor_W` and `factor_R` are the paper's factors, x C/N, and x K/L or x K/N."""

    batch_size: int
    train_size: int
    labels: int
    test_size: int
    iterations: int
    iterations_R: int
    A: float
    C: int
    epsilon_W: float
    epsilon_R: float
    factor_W: float
    factor_R: float


@dataclass(frozen=True)
class Resolved:
    """A configuration, understood."""

    name: str
    reader: str
    data_path: Path
    classes: tuple[str, ...] | None  # None: all, in their own order
    n_classes: int
    even_labels: bool
    index_list: str | None
    label_list: str | None
    chunk_size: int | None
    layers: Layers
    runs: tuple[RunSettings, ...]
    output: LegacyOutput
    warnings: tuple[str, ...]


def resolve(configuration: Configuration) -> Resolved:
    warnings: list[str] = []
    main = Keys(configuration.main, str(configuration.path), warnings.append, MAIN_KEYS)
    dataset = Keys(configuration.dataset, configuration.file("DataSet"), warnings.append, DATASET_KEYS)
    output = Keys(configuration.output, configuration.file("Output"), warnings.append, OUTPUT_KEYS)
    for keys, section in ((main, configuration.main), (dataset, configuration.dataset), (output, configuration.output)):
        for name, value in section.items():
            if isinstance(value, dict):
                warnings.append(f"{keys.origin}: the section {shown(name)[1:-1]} has no effect")
    runs = main.whole("Runs")
    if runs > LARGEST_RUNS:
        raise NesiError(f"{main.where('Runs')} is {runs}, but at most {LARGEST_RUNS} are possible.")
    _name_what_has_no_effect(main, dataset, output)
    reader = dataset.text("name")
    if reader not in READERS:
        raise NesiError(f"{dataset.where('name')} is {shown(reader)}, but must be one of {', '.join(READERS)}.")
    classes, n_classes = _classes(dataset, reader)
    if classes is not None and any(dataset.given(key, None) is not None for key in ("indexlist", "labellist")):
        raise NesiError(f"{dataset.where('classes')}: indices count points of all classes; leave one of the two out.")
    model_file = configuration.file("Model")
    layers = read_layers(configuration.model, model_file, configuration.root, n_classes, runs, warnings.append)
    return Resolved(
        name=configuration.name,
        reader=reader,
        data_path=configuration.root / dataset.text("path"),
        classes=classes,
        n_classes=n_classes,
        even_labels=dataset.truth("EVENLABELS", False),
        index_list=_points_file(dataset, "indexlist", configuration.root),
        label_list=_points_file(dataset, "labellist", configuration.root) if "indexlist" not in dataset else None,
        chunk_size=main.whole("scan_batch_size") if main.given("scan_batch_size", None) is not None else None,
        layers=layers,
        runs=tuple(_runs(main, dataset, layers, n_classes, runs)),
        output=_output(main, output, configuration.main["Model"]),
        warnings=tuple(dict.fromkeys(warnings)),
    )


def absolute_rate(rate: Rate, units: int, points: int) -> float:
    """`units` / `points` is what one unit gets to see of the data per pass; factors are relative to it, at most 1."""
    return min(rate.value * units / points, 1.0) if rate.is_factor else rate.value


def _runs(main: Keys, dataset: Keys, layers: Layers, K: int, runs: int) -> list[RunSettings]:
    batch_sizes = main.wholes("mini_batch_size", runs)
    sizes = {key: dataset.wholes(key, runs) for key in ("training_data_size", "training_label_size", "test_size")}
    resolved = []
    for run in range(runs):
        N, L = sizes["training_data_size"][run], sizes["training_label_size"][run]
        if L > N:
            raise NesiError(
                f"{dataset.where('training_label_size')} is {L}, but training_data_size is only {N}; give at most {N}."
            )
        C = layers.C[run]
        taught = L if layers.top_model == "MM-LabeledOnly" else N
        epsilon_W = absolute_rate(layers.rates_W[run], C, N)
        epsilon_R = absolute_rate(layers.rates_R[run], K, taught)
        for name, rate in (("first", epsilon_W), ("class", epsilon_R)):
            if rate > 1:
                raise NesiError(f"{main.origin}: epsilon of the {name} layer is {rate:g} in run {run + 1}, above 1.")
        resolved.append(
            RunSettings(
                batch_size=batch_sizes[run],
                train_size=N,
                labels=L,
                test_size=sizes["test_size"][run],
                iterations=layers.iterations[run],
                iterations_R=layers.iterations_R[run],
                A=layers.A[run],
                C=C,
                epsilon_W=epsilon_W,
                epsilon_R=epsilon_R,
                factor_W=_factor(layers.rates_W[run], C, N),
                factor_R=_factor(layers.rates_R[run], K, taught),
            )
        )
    return resolved


def _factor(rate: Rate, units: int, points: int) -> float:
    return rate.value if rate.is_factor else rate.value * points / units


def _classes(dataset: Keys, reader: str) -> tuple[tuple[str, ...] | None, int]:
    available = READERS[reader][1]
    if "classes" not in dataset:
        return None, dataset.whole("nclasses", available)
    given: Any = dataset.given("classes")
    if isinstance(given, str):
        given = (given,)
    if not isinstance(given, tuple) or not given or not all(isinstance(name, str) and name for name in given):
        raise NesiError(f"{dataset.where('classes')} is {shown(given)}, but a list of names in quotes was expected.")
    if len(set(given)) != len(given):
        raise NesiError(f"{dataset.where('classes')} names a class twice.")
    if reader == "MNIST" and given == tuple("0123456789"):
        return None, len(given)
    return given, len(given)


def _points_file(dataset: Keys, key: str, root: Path) -> str | None:
    """Absolute, and with a trailing slash if there was one: it is a prefix."""
    if dataset.given(key, None) is None:
        return None
    given = dataset.text(key)
    path = str((root / given).absolute())
    return path + "/" if given.endswith("/") else path


def _name_what_has_no_effect(main: Keys, dataset: Keys, output: Keys) -> None:
    for key in ("Theano", "Scan"):
        if not main.truth(key, True):
            main.warn(f"{main.where(key)} is False, which chose another way to compute; it has no effect here")
    if not dataset.truth("USE_TEST_SET", True):
        dataset.warn(f"{dataset.where('USE_TEST_SET')} is False, which the authors' program never looked at, nor do we")
    size = (dataset.given("PIXEL_WIDTH", 28), dataset.given("PIXEL_HEIGHT", 28))
    if size not in ((28, 28), (61188, 1)):
        dataset.warn(f"{dataset.origin}: PIXEL_WIDTH and PIXEL_HEIGHT have no effect; the data files know their size")
    if "labellist" in dataset and dataset.given("indexlist", None) is not None:
        dataset.warn(f"{dataset.where('labellist')} has no effect beside indexlist")
    if output.truth("PICTURE_OUTPUT", False):
        output.warn(
            f"{output.where('PICTURE_OUTPUT')}: there are no pictures during training; report.html has those of the end"
        )
    for key in CONVERGENCE_KEYS[:-1]:
        if output.truth(key, False):
            output.warn(f"{output.where(key)} has no effect: changes of the weights are not recorded")
    if output.given("OUTPUT_MODE", 0) != 0:
        output.warn(f"{output.where('OUTPUT_MODE')} has no effect, as in the authors' program")


def _output(main: Keys, output: Keys, model: str) -> LegacyOutput:
    values: dict[str, Any] = {}
    for key, field in list(LegacyOutput.model_fields.items())[2:]:
        if key in output:
            values[key] = output.truth(key, False) if isinstance(field.default, bool) else output.whole(key)
    for key in ("foldername", "filename"):
        values[key] = main.text(key) if main.given(key, None) is not None else model
        if len(values[key]) > LONGEST_NAME or not values[key].isprintable():
            raise NesiError(f"{main.where(key)} is {shown(values[key])}, which cannot be the name of a file.")
    return LegacyOutput(**values)
