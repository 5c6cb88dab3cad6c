"""The model file of a configuration: its MultiLayers, and which of the four networks they make."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nesi.errors import NesiError
from nesi.legacy.ini import Section
from nesi.legacy.keys import Keys, Warn, shown
from nesi.legacy.sweeps import Rate, rates_per_run

BOTTOM_MODELS = {"Poisson": False, "PoissonRecurrent": True}  # name -> does it listen to the class layer
TOP_MODELS = ("MM-LabeledOnly", "MM-SSL", "MM-USL")
W_STARTS = {
    "input": "data",
    "input_bylabel": "class_means",
    "singleinput": "single_points",
    "random": "random",
    "even": "even",
}
R_STARTS = {"even": "uniform", "class": "delta", "random": "random"}

MULTILAYER_KEYS = ("Iterations", "StoppingCriterion", "MovingWidth")
INPUT_KEYS = ("InputSource", "A")
PROCESSING_KEYS = ("Model", "Initialization", "InputSource", "C", "A", "epsilon", "threshold")

Start = str | dict[str, str]


@dataclass(frozen=True)
class Layers:
    """What the model file says; lists have one entry per run."""

    recurrent: bool
    top_model: str
    greedy: bool
    iterations: list[int]
    iterations_R: list[int]
    A: list[float]
    C: list[int]
    rates_W: list[Rate]
    rates_R: list[Rate]
    threshold: float | None
    W_init: Start
    R_init: Start
    stopping: bool
    stopping_width: int

    @property
    def network(self) -> str:
        return ("r" if self.recurrent else "ff") + ("+" if self.top_model == "MM-SSL" else "")


def read_layers(model: Section, origin: str, root: Path, n_classes: int, runs: int, warn: Warn) -> Layers:
    multilayers = _sections(model, "MultiLayer", origin)
    processing = [
        (f"[{name}] [[{layer}]]", content)
        for name, multilayer in multilayers.items()
        for layer, content in _sections(multilayer, "ProcessingLayer", f"{origin} [{name}]").items()
    ]
    greedy = len(multilayers) == 2
    if len(multilayers) not in (1, 2) or len(processing) != 2:
        raise NesiError(
            f"{origin}: {len(multilayers)} MultiLayers with {len(processing)} ProcessingLayers in all, but NeSi has "
            "one Poisson layer and one class layer, in one MultiLayer or in two."
        )
    first = Keys(multilayers["MultiLayer1"], f"{origin} [MultiLayer1]", warn, MULTILAYER_KEYS)
    last = first
    if greedy:
        last = Keys(multilayers["MultiLayer2"], f"{origin} [MultiLayer2]", warn, MULTILAYER_KEYS)
    bottom, top = (Keys(content, f"{origin} {name}", warn, PROCESSING_KEYS) for name, content in processing)
    if greedy and len(_sections(multilayers["MultiLayer1"], "ProcessingLayer", origin)) != 1:
        raise NesiError(f"{origin}: each of the two MultiLayers must have one ProcessingLayer.")
    recurrent = _bottom_model(bottom, greedy)
    top_model = top.text("Model")
    if top_model not in TOP_MODELS:
        raise NesiError(f"{top.where('Model')} is {shown(top_model)}, but must be one of {', '.join(TOP_MODELS)}.")
    inputs = _input_layers(multilayers, origin, warn)
    _check_sources(bottom, top, recurrent, greedy)
    K = top.wholes("C", runs, {"Default": n_classes})
    if set(K) != {n_classes}:
        raise NesiError(f"{top.where('C')} is {shown(top.given('C'))}, but the data set has {n_classes} classes.")
    stopping, width = _stopping(first, greedy)
    return Layers(
        recurrent=recurrent,
        top_model=top_model,
        greedy=greedy,
        iterations=first.wholes("Iterations", runs),
        iterations_R=last.wholes("Iterations", runs),
        A=inputs.numbers("A", runs),
        C=bottom.wholes("C", runs, {"Default": n_classes}),
        rates_W=rates_per_run(bottom.given("epsilon"), runs, bottom.where("epsilon")),
        rates_R=rates_per_run(top.given("epsilon"), runs, top.where("epsilon")),
        threshold=_threshold(top) if top_model == "MM-SSL" else None,
        W_init=_start(bottom, W_STARTS, "input", root),
        R_init=_start(top, R_STARTS, "random", root),
        stopping=stopping,
        stopping_width=width,
    )


def _sections(content: Section, kind: str, origin: str) -> dict[str, Section]:
    """The sections `kind`1, `kind`2, ..., in this order; anything else is refused, as it would change the model."""
    found = {name: value for name, value in content.items() if isinstance(value, dict)}
    expected = [f"{kind}{number}" for number in range(1, 1 + sum(name.startswith(kind) for name in found))]
    for name in found:
        if name not in expected and not (name == "InputLayer" and kind == "ProcessingLayer"):
            raise NesiError(f"{origin}: the section {shown(name)[1:-1]} is unknown; expected {kind}1, {kind}2, ...")
    return {name: found[name] for name in expected}


def _bottom_model(bottom: Keys, greedy: bool) -> bool:
    model = bottom.text("Model")
    if model not in BOTTOM_MODELS:
        raise NesiError(f"{bottom.where('Model')} is {shown(model)}, but must be one of {', '.join(BOTTOM_MODELS)}.")
    if BOTTOM_MODELS[model] and greedy:
        raise NesiError(
            f"{bottom.where('Model')} is 'PoissonRecurrent', which listens to the class layer: both must be in one "
            "MultiLayer."
        )
    return BOTTOM_MODELS[model]


def _input_layers(multilayers: dict[str, Section], origin: str, warn: Warn) -> Keys:
    layers = {}
    for name, multilayer in multilayers.items():
        section = multilayer.get("InputLayer")
        if not isinstance(section, dict):
            raise NesiError(f"{origin} [{name}]: the section InputLayer is missing.")
        layers[name] = Keys(section, f"{origin} [{name}] [[InputLayer]]", warn, INPUT_KEYS)
    inputs = layers["MultiLayer1"]
    if inputs.given("InputSource", "DataSet") != "DataSet":
        raise NesiError(f"{inputs.where('InputSource')} must be 'DataSet' in the first MultiLayer.")
    if inputs.given("A", None) in (None, "Default"):
        raise NesiError(
            f"{inputs.where('A')} is {shown(inputs.given('A', None))}, which means no normalisation; NeSi always "
            "normalises (T1.3), so give a number above the number of inputs."
        )
    if "MultiLayer2" in layers:
        second = layers["MultiLayer2"]
        if second.given("InputSource", None) != ("MultiLayer1", "ProcessingLayer1"):
            raise NesiError(f"{second.where('InputSource')} must be 'MultiLayer1','ProcessingLayer1'.")
        if second.given("A", None) is not None:
            warn(
                f"{second.where('A')} would normalise the activities s of the first layer and add 1 to each; the class "
                "layer learns from s itself here"
            )
    return inputs


def _check_sources(bottom: Keys, top: Keys, recurrent: bool, greedy: bool) -> None:
    below = ("InputLayer", "ProcessingLayer2") if recurrent else "InputLayer"
    above = "InputLayer" if greedy else "ProcessingLayer1"
    for keys, expected in ((bottom, below), (top, above)):
        given = keys.given("InputSource")
        if given != expected:
            raise NesiError(f"{keys.where('InputSource')} is {shown(given)}, but {shown(expected)} was expected.")


def _stopping(first: Keys, greedy: bool) -> tuple[bool, int]:
    stopping = first.given("StoppingCriterion", False)
    if stopping not in (True, False, None):
        raise NesiError(f"{first.where('StoppingCriterion')} is {shown(stopping)}, but True or False was expected.")
    if not stopping:
        return False, 20
    if greedy:
        raise NesiError(f"{first.where('StoppingCriterion')} works with one MultiLayer only, but there are two.")
    if "MovingWidth" not in first:
        first.warn(f"{first.origin}: MovingWidth is missing, 20 is used")
    width = first.whole("MovingWidth", 20)
    if width < 2:
        raise NesiError(f"{first.where('MovingWidth')} is {width}, but a window has at least 2 iterations.")
    return True, width


def _threshold(top: Keys) -> float:
    threshold = top.given("threshold")
    if isinstance(threshold, bool) or not isinstance(threshold, (int, float)) or not 0 <= threshold <= 1:
        raise NesiError(f"{top.where('threshold')} is {shown(threshold)}, but a number from 0 to 1 was expected.")
    return float(threshold)


def _start(layer: Keys, known: dict[str, str], default: str, root: Path) -> Start:
    """The initialisation under its present name, or the h5 file (or folder of files) that holds the weights."""
    given: Any = layer.given("Initialization", None) or default
    where = layer.where("Initialization")
    if isinstance(given, tuple) and given[:1] == ("h5",):
        parts = given[1:]
        if len(parts) not in (1, 2) or not all(isinstance(part, str) and part for part in parts):
            raise NesiError(f"{where}: 'h5' must be followed by a folder and, if wanted, the name of a file in it.")
        return {"h5": str((root / Path(*parts)).absolute())}
    if not isinstance(given, str) or given not in known:
        raise NesiError(
            f"{where} is {shown(given)}, but must be one of {', '.join(known)} here, or 'h5', '<folder>'[, '<file>']."
        )
    if layer.given("A", None) is not None:
        if given == "random":
            raise NesiError(
                f"{layer.where('A')}: a random start that is normalised to a layer's own A is not known here."
            )
        layer.warn(f"{layer.where('A')} has no effect, as in the authors' program; the A of InputLayer counts")
    return known[given]
