"""Requests to the labeling server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hostile import Attacker, NotANumber, Refused, Rng, mutated

from nesi.labeling.answers import AnswerLog
from nesi.labeling.gate import Gate
from nesi.labeling.server import labeling_page


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
