"""The 42 configurations that came with the authors' program, as a table, and ini files written from it.

One row per configuration: what its files say in the authors' own terms, and the learning rates that follow. The files
are ours: the same keys and values, none of their text.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

NEWS, MNIST = "20 Newsgroups", "MNIST"


class Row(NamedTuple):
    folder: str
    network: str
    name: str  # what follows "-NeSi-"
    dataset_file: str
    model_file: str
    N: int
    L: int
    test: int
    C: int
    A: int
    factor_W: float
    epsilon_W: float  # four digits
    factor_R: float
    epsilon_R: float  # four digits
    threshold: float | None
    starts: tuple[str, str]
    iterations: int
    batch: int
    chunk: int | None
    stopping: bool
    runs: int

    @property
    def main(self) -> str:
        return f"{self.folder}/{self.network}-NeSi-{self.name}"

    @property
    def K(self) -> int:
        return 20 if self.folder == NEWS else 10


def _news(network: str, name: str, L: int, epsilon_R: float, **other: Any) -> Row:
    suffix = "" if name == "L11269" else f"-{name}"
    values: dict[str, Any] = {
        "dataset_file": f"20newsgroups-tf-idf{suffix}",
        "model_file": f"{network}-NeSi" + ("-test" if name == "test" else ""),
        "N": 11269,
        "test": 7505,
        "C": 20,
        "A": 80000,
        "factor_W": 5.0,
        "epsilon_W": 0.008874,
        "factor_R": 0.5,
        "threshold": None,
        "starts": ("input_bylabel", "even"),
        "iterations": 200,
        "batch": 10,
        "chunk": 6000,
        "stopping": False,
        "runs": 10,
    }
    return Row(NEWS, network, name, L=L, epsilon_R=epsilon_R, **(values | other))


def _mnist(network: str, name: str, L: int, epsilon_R: float, **other: Any) -> Row:
    values: dict[str, Any] = {
        "dataset_file": "mnist" if name == "L60000" else f"mnist-{name}",
        "model_file": f"{network}-NeSi" + ("-test" if name == "test" else ""),
        "N": 60000,
        "test": 10000,
        "C": 10000,
        "A": 900,
        "factor_W": 0.2,
        "epsilon_W": 0.03333,
        "factor_R": 0.2,
        "threshold": 0.6 if "+" in network else None,
        "starts": ("input", "even"),
        "iterations": 500,
        "batch": 25,
        "chunk": 20000 if network == "ff+" else None,
        "stopping": False,
        "runs": 10,
    }
    return Row(MNIST, network, name, L=L, epsilon_R=epsilon_R, **(values | other))


def _table() -> list[Row]:
    rows = []
    small_news = {"N": 1000, "test": 1000, "epsilon_W": 0.1, "iterations": 20, "chunk": None, "runs": 2}
    labels_of_news = {20: 0.5, 40: 0.25, 200: 0.05, 800: 0.0125, 2000: 0.005}
    for network in ("ff", "r"):
        rows += [_news(network, f"L{L}", L, rate) for L, rate in labels_of_news.items()]
    rows.append(_news("ff", "L11269", 11269, 0.0008874))
    full = {"A": 90000, "factor_W": 0.02, "epsilon_W": 3.55e-5, "factor_R": 0.0, "starts": ("input_bylabel", "class")}
    rows.append(_news("r", "L11269", 11269, 0.0, model_file="r-NeSi-FL", iterations=500, **full))
    rows += [_news(network, "test", 1000, 0.01, **small_news) for network in ("ff", "r")]

    small = {"N": 1000, "test": 1000, "C": 100, "epsilon_W": 0.02, "iterations": 10, "chunk": None, "runs": 2}
    labels_of_mnist = {10: 0.2, 100: 0.02, 600: 0.003333, 1000: 0.002, 3000: 0.0006667}
    for network in ("ff+", "r+"):
        rows += [_mnist(network, f"L{L}", L, 3.333e-5) for L in labels_of_mnist]
    rows.append(_mnist("ff+", "L60000", 60000, 3.333e-5))
    rows.append(_mnist("r+", "L60000", 60000, 3.333e-5, runs=2))
    rows.append(_mnist("ff+", "test", 500, 0.002, batch=10, **small))
    rows.append(_mnist("r+", "test", 500, 0.002, **small))
    rows += [_mnist("ff", f"L{L}", L, rate) for L, rate in labels_of_mnist.items()]
    rows += [
        _mnist("r", f"L{L}", L, rate, model_file="r-NeSi-SC", stopping=True) for L, rate in labels_of_mnist.items()
    ]
    rows += [_mnist(network, "L60000", 60000, 3.333e-5) for network in ("ff", "r")]
    rows.append(_mnist("ff", "test", 500, 0.004, **small))
    rows.append(_mnist("r", "test", 500, 0.004, batch=10, **small))
    return rows


TABLE = _table()

OUTPUT = """
# what is written
RESULTS_OUTPUT = True
SETTING_OUTPUT = True
DATEPREFIX_FILE = False
DATEPREFIX_PATH = True
LIKELIHOOD_OUTPUT = True
LIKELIHOOD_ONLINE_OUTPUT = True
LIKELIHOOD_EVERY_N_ITERATIONS = 10
SAVE_WEIGHTS = True
SAVE_DATA_INDEX = True
PICTURE_OUTPUT = True
PICTURE_EVERY_N_ITERATIONS = 10
OUTPUT_MODE = 0
"""


def write_row(root: Path, row: Row, **changes: Any) -> Path:
    """The four files of a row below `root`/config, with lines replaced by `changes` (key of a file -> text)."""
    folder = root / "config" / row.folder
    texts = {
        folder / f"{row.network}-NeSi-{row.name}.ini": _main(row),
        folder / "dataset" / f"{row.dataset_file}.ini": _dataset(row),
        folder / "model" / f"{row.model_file}.ini": _model(row),
        folder / "output" / "default.ini": OUTPUT,
    }
    for path, text in texts.items():
        lines = []
        for line in text.splitlines():
            key = line.split("=")[0].strip()
            lines.append(f"{key} = {changes[key]}" if key in changes else line)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
    return folder / f"{row.network}-NeSi-{row.name}.ini"


def write_all(root: Path) -> dict[str, Path]:
    return {row.main: write_row(root, row) for row in TABLE}


def row_named(main: str) -> Row:
    return next(row for row in TABLE if row.main == main)


def _main(row: Row) -> str:
    chunk = f"scan_batch_size = {row.chunk}" if row.chunk else "# scan_batch_size is not set"
    return f"""
# files of the folders dataset, model and output
DataSet = '{row.dataset_file}'
Model   = '{row.model_file}'
Output  = 'default'
filename = '{row.name}'
foldername = '{row.folder}/{row.network}-NeSi - {row.name}'
Runs = {row.runs}
mini_batch_size = {row.batch}\t# per process
Theano = True
Scan = True
{chunk}
"""


def _dataset(row: Row) -> str:
    if row.folder == NEWS:
        kind = "name = '20Newsgroups-tf-idf'\npath = './data-sets/20Newsgroups'\nPIXEL_WIDTH = 61188\nPIXEL_HEIGHT = 1"
        kind += "\nnclasses = 20"
    else:
        names = ", ".join(f"'{digit}'" for digit in range(10))
        kind = f"name = 'MNIST'\npath = './data-sets/MNIST'\nPIXEL_WIDTH = 28\nPIXEL_HEIGHT = 28\nclasses = [{names}]"
    return f"""
{kind}
USE_TEST_SET = True
training_data_size = {row.N}
training_label_size = {row.L}
test_size = {row.test}
EVENLABELS = True
"""


def _model(row: Row) -> str:
    recurrent = row.network.startswith("r")
    stopping = "StoppingCriterion = True\n\tMovingWidth = 20" if row.stopping else "# no stopping criterion"
    threshold = f"threshold = {row.threshold}" if row.threshold is not None else "# no threshold"
    return f"""
[MultiLayer1]
\tIterations = {row.iterations}
\t{stopping}
    [[InputLayer]]
        InputSource = 'DataSet'
\t\tA = {row.A}
    [[ProcessingLayer1]]
        Model = '{"PoissonRecurrent" if recurrent else "Poisson"}'
        Initialization = '{row.starts[0]}'
        InputSource = {"'InputLayer', 'ProcessingLayer2'" if recurrent else "'InputLayer'"}
        C = {row.C}
        epsilon = 'factor', {row.factor_W}
  [[ProcessingLayer2]]
        Model = '{"MM-SSL" if "+" in row.network else "MM-LabeledOnly"}'
        Initialization = '{row.starts[1]}'
        InputSource = 'ProcessingLayer1'
        C = {row.K}
        epsilon = 'factor', {row.factor_R}
        {threshold}
"""


SMALL = row_named("MNIST/ff-NeSi-test")

# The first layer on its own, then the class layer.
GREEDY = """
[MultiLayer1]
    Iterations = 30
    [[InputLayer]]
    InputSource = 'DataSet'
    A = 900
    [[ProcessingLayer1]]
    Model = 'Poisson'
    Initialization = 'singleinput'
    InputSource = 'InputLayer'
    C = 50
    epsilon = 0.01
[MultiLayer2]
    Iterations = 7
    [[InputLayer]]
    InputSource = 'MultiLayer1', 'ProcessingLayer1'
    A = None
    [[ProcessingLayer1]]
    Model = 'MM-LabeledOnly'
    InputSource = 'InputLayer'
    C = 'Default'
    epsilon = 'Default'
"""


def with_model(root: Path, text: str, row: Row = SMALL) -> Path:
    path = write_row(root, row)
    (path.parent / "model" / f"{row.model_file}.ini").write_text(text)
    return path
