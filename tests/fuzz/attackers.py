"""Hostile inputs: each attacker makes one from a random generator and offers it to the program.

What the user can fix is refused with a sentence (`NesiError`, `DataError`, or scikit-learn's ValueError); everything
else that is raised is a traceback, and counts against us, as do results that are not numbers.
"""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import yaml
from command_line import SMALL
from small_networks import make_data, make_model

import data_tools
from data_tools.idx import read_idx_file
from nesi import NeSiClassifier
from nesi.config.reading import load_parameters
from nesi.labeling.answers import AnswerLog
from nesi.labeling.gate import Gate
from nesi.labeling.server import labeling_page
from nesi.legacy.ini import read_ini
from nesi.storage.arrays import load_arrays, save_arrays
from nesi.storage.records import append_record, read_records, repair_records

Rng = np.random.Generator
Attacker = Callable[[Rng], None]  # returns if the input was accepted


class NotANumber(Exception):
    """A result that should be a number is none."""


def mutated(content: bytes, rng: Rng) -> bytes:
    """Flipped bits, cut, doubled or replaced parts."""
    damaged = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        if not damaged:
            break
        place = int(rng.integers(len(damaged)))
        kind = int(rng.integers(6))
        if kind < 3:
            damaged[place] ^= 1 << int(rng.integers(8))
        elif kind == 3:
            del damaged[place : place + int(rng.integers(1, 40))]
        elif kind == 4:
            damaged[place:place] = damaged[place : place + int(rng.integers(1, 40))]
        else:
            odd = [b"9" * 400, b"[" * 300, b"\xff\xfe", b"\x00", b"-1", b"nan", b"1e999", b"\\ud800", b"\r", b'"', b"~"]
            damaged[place : place + 1] = odd[int(rng.integers(len(odd)))]
    return bytes(damaged[: int(rng.integers(len(damaged) + 1))] if rng.random() < 0.1 else damaged)


# ---- the estimator -------------------------------------------------------------------------------------------------

_VALUES = [0.0, 1.0, 1e-46, 1e-310, 5e-324, 1e300, 1e308, 1e38, 1e-38, -1.0, -1e-300, np.nan, np.inf, 255, 2**62, 0.5]
_SETTINGS: dict[str, list[Any]] = {
    "network": ["ff", "r", "ff+", "r+"],
    "inference": ["exact", "exact", "truncated"],
    "minibatch_rule": ["sequential", "sequential", "summed"],
    "epsilon_w": [0.0, 0.1, 1.0, 50.0, 1e6, 1e-320],
    "epsilon_r": [0.0, 0.1, 1.0, 50.0, 1e6, 1e-320],
    "normalization": [None, 40.0, 1e6, 1e12, 10.001],
    "n_subclasses": [1, 2, 6, 13],
    "batch_size": [None, 1, 7, 1000],
    "threshold": [0.0, 0.6, 1.0],
    "random_state": [0, 1],
}
_ODD = [None, -1, 0, 2.5, np.nan, np.inf, 10**400, "abc", b"x", [], [1], {}, {"a": 1}, 1j, True, np.array([1.0, 2.0])]


def _points(rng: Rng, n_points: int) -> Any:
    X: Any = make_data(N=n_points, seed=int(rng.integers(5)))[0]
    for _ in range(int(rng.integers(3))):
        X[rng.random(X.shape) < rng.random() * 0.3] = _VALUES[int(rng.integers(len(_VALUES)))]
    if rng.random() < 0.2:
        X[int(rng.integers(n_points))] = _VALUES[int(rng.integers(len(_VALUES)))]
    if rng.random() < 0.2:
        X = X * 10.0 ** float(rng.integers(-300, 280))
    if rng.random() < 0.1:
        with np.errstate(all="ignore"):
            X = X.astype(rng.choice(["float32", "float16", "longdouble", "int64", "uint8"]))
    if rng.random() < 0.2:
        X = sp.csr_array(X.astype("float64"))
    return X if rng.random() > 0.03 else X[:, : int(rng.integers(10))]


def _model(rng: Rng) -> NeSiClassifier:
    settings = {key: values[int(rng.integers(len(values)))] for key, values in _SETTINGS.items()}
    if rng.random() < 0.15:
        keys = [
            key for key in NeSiClassifier().get_params() if key not in ("backend", "verbose", "committee", "n_init")
        ]
        settings[keys[int(rng.integers(len(keys)))]] = _ODD[int(rng.integers(len(_ODD)))]
    settings["max_iter"] = 2
    return make_model(**settings)


def estimator() -> Iterator[Attacker]:
    trained = make_model(max_iter=3).fit(*make_data())

    def attack(rng: Rng) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            if rng.random() < 0.5:
                _check_answers(trained, _points(rng, 12))
                return
            X = _points(rng, 20)
            labels = rng.integers(-1, 3, 20)
            weights = None
            if rng.random() < 0.2:
                weights = np.array([0, 1, 1e-300, 1e12, 1e308, 0.5, -1])[
                    rng.integers(7, size=20) * (rng.random(20) < 0.3)
                ]
            model = _model(rng)
            model.fit(X, labels, weights)
            if not np.isfinite(model.log_likelihood_).all():
                raise NotANumber("log_likelihood_")
            _check_answers(model, X)

    yield attack


def _check_answers(model: NeSiClassifier, X: Any) -> None:
    posterior = model.predict_proba(X)
    if not np.isfinite(posterior).all() or np.abs(posterior.sum(axis=1) - 1).max(initial=0) > 1e-3:
        raise NotANumber("predict_proba")
    if not np.isfinite(model.score_samples(X)).all():
        raise NotANumber("score_samples")


# ---- files -----------------------------------------------------------------------------------------------------------


def checkpoints(folder: Path) -> Iterator[Attacker]:
    path = folder / "checkpoint.npz"
    arrays = {"W": np.arange(12.0).reshape(3, 4), "iteration": np.array(7), "history": np.zeros(0)}
    save_arrays(path, arrays, {"run": 1})
    content = path.read_bytes()

    def attack(rng: Rng) -> None:
        path.write_bytes(mutated(content, rng))
        loaded = load_arrays(path, {"run": 1})
        for name, array in arrays.items():
            if not np.array_equal(loaded[name], array):
                raise NotANumber(f"{name} was altered without being noticed")

    yield attack


def record_files(folder: Path) -> Iterator[Attacker]:
    record = {"dataset": "digits", "network": "ff", "labels": 10, "test_error": 3.25, "settings": {"C": 40, "A": None}}
    for run in (1, 2, 3):
        append_record(folder, {**record, "run": run})
    path, written = folder / "records.jsonl", read_records(folder)
    content = path.read_bytes()

    def attack(rng: Rng) -> None:
        path.write_bytes(mutated(content, rng))
        found = repair_records(folder)
        if found != written[: len(found)]:
            raise NotANumber("a record was altered without being noticed")

    yield attack


def data_files(folder: Path) -> Iterator[Attacker]:
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 200, (12, 4)), np.arange(12) % 3
    table = "a,b,c,d,label\n" + "".join(f"{','.join(map(str, row))},{k}\n" for row, k in zip(X, y, strict=True))
    (folder / "own.csv").write_text(table)
    np.savez(folder / "own.npz", X=X, y=y)
    lines = "".join(
        f"{k} " + " ".join(f"{d + 1}:{v}" for d, v in enumerate(row)) + "\n" for row, k in zip(X, y, strict=True)
    )
    (folder / "own.svmlight").write_text(lines)
    (folder / "images.idx").write_bytes(bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3]) + bytes(range(12)))
    readers: dict[str, Callable[[Path], Any]] = dict.fromkeys(("own.csv", "own.npz", "own.svmlight"), data_tools.load)
    readers["images.idx"] = lambda path: read_idx_file(path, 3)

    def attacker(path: Path, read: Callable[[Path], Any]) -> Attacker:
        content = path.read_bytes()

        def attack(rng: Rng) -> None:
            path.write_bytes(mutated(content, rng))
            found = read(path)
            if hasattr(found, "X_train") and not np.isfinite(np.asarray(found.X_train.sum())).all():
                raise NotANumber(path.name)

        return attack

    for name, read in readers.items():
        yield attacker(folder / name, read)


def parameter_files(folder: Path) -> Iterator[Attacker]:
    small, ini = folder / "p.yaml", folder / "main.ini"
    text = yaml.safe_dump({**SMALL, "overrides": [{"networks": ["r"], "C": 30}]}).encode()
    old = b"[general]\n    runs = 3\n    name = 'x'\n    [[model]]\n        C = [10, 20]\n        eps = 0.5\n"

    def attack_yaml(rng: Rng) -> None:
        small.write_bytes(mutated(text, rng))
        load_parameters(small)

    def attack_ini(rng: Rng) -> None:
        ini.write_bytes(mutated(old, rng))
        read_ini(ini)

    yield from (attack_yaml, attack_ini)


# ---- the labeling server ---------------------------------------------------------------------------------------------


class _Session:
    """What the server needs of a session, with a real log of answers."""

    def __init__(self, folder: Path) -> None:
        self.directory, self._count = folder, 0
        self.restart()

    def restart(self) -> None:
        self._log = AnswerLog(self.directory, "r-L0-run1", "abc", 5, 3)

    def answer(self, field: Any, weights: Any) -> None:
        self._log.answer(field, weights)

    def undo(self) -> None:
        self._log.undo()

    def state(self) -> dict[str, Any]:
        return {"labeled": len(self._log.answers)}

    def describe(self, field: int) -> dict[str, Any]:
        return {"field": field}

    def __getattr__(self, name: str) -> Any:
        return lambda *_: b""

    def check_log(self) -> None:
        self._count += 1
        if self._count % 50 == 0:  # what was accepted can be read again
            before = self._log.digest
            self.restart()
            if self._log.notice is not None or self._log.digest != before:
                raise NotANumber("the log of answers")
            (self.directory / "answers.jsonl").unlink(missing_ok=True)
            self.restart()


def labeling_server(folder: Path) -> Iterator[Attacker]:
    session = _Session(folder)
    gate = Gate("127.0.0.1:1")
    gate.app = labeling_page(session)  # type: ignore[arg-type]
    cookie = f"{gate._cookie_name}={gate._cookie}"
    bodies = [
        json.dumps({"field": field, "weights": weights}).encode()
        for field, weights in ((1, [1, 0, 0]), (4, None), (0, [1e308] * 3), (2, [5e-324, 0, 1e-300]))
    ]
    paths = ["/", "/api/state", "/api/field/3", "/field/1.png", "/point/2.png", "/api/answer", "/api/undo", "/api/stop"]

    async def request(path: bytes, method: str, body: bytes, headers: list[tuple[bytes, bytes]]) -> int:
        status: list[int] = []
        text, _, query = path.partition(b"?")
        scope = {"type": "http", "http_version": "1.1", "method": method, "scheme": "http", "headers": headers}
        scope |= {"path": text.decode("utf-8", "replace"), "raw_path": text, "query_string": query, "root_path": ""}

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                status.append(message["status"])

        await gate(scope, receive, send)  # type: ignore[arg-type]
        return status[0]

    def attack(rng: Rng) -> None:
        body = bodies[int(rng.integers(len(bodies)))]
        body = mutated(body, rng) if rng.random() < 0.8 else body
        path = paths[int(rng.integers(len(paths)))].encode()
        path = mutated(path, rng) or b"/" if rng.random() < 0.3 else path
        method = "POST" if rng.random() < 0.7 else "GET"
        pairs = {b"host": b"127.0.0.1:1", b"origin": b"http://127.0.0.1:1", b"content-type": b"application/json"}
        pairs |= {b"cookie": cookie.encode(), b"content-length": str(len(body)).encode()}
        if rng.random() < 0.2:
            name = list(pairs)[int(rng.integers(len(pairs)))]
            pairs[name] = mutated(pairs[name], rng)
        status = asyncio.run(request(path, method, body, list(pairs.items())))
        session.check_log()
        if status >= 500:
            raise RuntimeError(f"status {status}")
        if status >= 400:
            raise Refused(str(status))

    yield attack


class Refused(ValueError):
    """The server has refused a request."""


def all_attackers(folder: Path) -> dict[str, tuple[float, list[Attacker]]]:
    """By target: its share of the inputs, and who attacks it."""
    made = {
        "estimator": (0.05, estimator()),
        "checkpoints": (0.3, checkpoints(_new(folder, "checkpoints"))),
        "records": (0.2, record_files(_new(folder, "records"))),
        "data files": (0.15, data_files(_new(folder, "data"))),
        "parameter files": (0.15, parameter_files(_new(folder, "parameters"))),
        "labeling server": (0.15, labeling_server(_new(folder, "labeling"))),
    }
    return {name: (share, list(attackers)) for name, (share, attackers) in made.items()}


def _new(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name
