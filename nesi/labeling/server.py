"""The page and its small interface, served to this computer only."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from importlib import resources
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from nesi.errors import NesiError, one_line
from nesi.labeling.gate import Gate
from nesi.labeling.naming import Naming
from nesi.labeling.patience import ImpatientProtocol
from nesi.labeling.rounds import PICTURE
from nesi.labeling.session import Busy, LabelingSession, UnknownField

FILES = {
    "/icon.svg": ("icon.svg", "image/svg+xml"),
    "/label.css": ("label.css", "text/css; charset=utf-8"),
}
LABEL = {"/": ("index.html", "text/html; charset=utf-8"), "/label.js": ("label.js", "text/javascript; charset=utf-8")}
NAME = {"/": ("naming.html", "text/html; charset=utf-8"), "/naming.js": ("naming.js", "text/javascript; charset=utf-8")}


def labeling_page(session: LabelingSession) -> Starlette:
    state = session.state
    routes = [
        Route("/api/state", lambda request: JSONResponse(session.state())),
        Route("/api/field/{number}", lambda request: JSONResponse(session.describe(_number(request)))),
        Route("/field/{number}.png", lambda request: _png(session.field_picture(_number(request)))),
        Route("/point/{number}.png", lambda request: _png(session.point_picture(_number(request)))),
        Route("/result.png", lambda request: _png((session.directory / PICTURE).read_bytes())),
        Route("/api/answer", _action(state, lambda content: _answer(session, content)), methods=["POST"]),
        Route("/api/undo", _action(state, lambda content: session.undo()), methods=["POST"]),
        Route("/api/train", _action(state, lambda content: session.train()), methods=["POST"]),
        Route("/api/stop", _action(state, lambda content: session.stop_training()), methods=["POST"]),
    ]
    return _page({**FILES, **LABEL}, routes)


def naming_page(naming: Naming) -> Starlette:
    """Served until the network is trained, then the labeling page is in its place."""
    routes = [
        Route("/api/state", lambda request: JSONResponse(naming.state())),
        Route("/api/classes", _action(naming.state, naming.give), methods=["POST"]),
    ]
    return _page({**FILES, **NAME}, routes)


def _page(files: dict[str, tuple[str, str]], routes: list[Route]) -> Starlette:
    refusals: dict[Any, Any] = {UnknownField: _refusal(404), Busy: _refusal(409), NesiError: _refusal(422)}
    refusals[FileNotFoundError] = _refusal(404)
    return Starlette(
        routes=[*(Route(path, _file(*file)) for path, file in files.items()), *routes], exception_handlers=refusals
    )


class Door:
    """A port of this computer and the gate behind it. What is served may change while a browser stays."""

    def __init__(self, port: int) -> None:
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._listener.bind(("127.0.0.1", port))
        except OSError as error:
            self._listener.close()
            raise NesiError(f"port {port} cannot be used ({error.strerror}); choose another --port.") from None
        self._listener.listen()
        self._gate = Gate(f"127.0.0.1:{self._listener.getsockname()[1]}")

    def __enter__(self) -> Door:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    @property
    def address(self) -> str:
        """With a token that works once."""
        return self._gate.address

    def serve(self, page: Starlette) -> None:
        """Until Ctrl-C."""
        self._server(page).run(sockets=[self._listener.dup()])

    @contextlib.contextmanager
    def serving(self, page: Starlette) -> Iterator[None]:
        """Beside whatever else the program does."""
        server = self._server(page)
        thread = threading.Thread(
            target=server.run, kwargs={"sockets": [self._listener.dup()]}, name="page", daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            server.should_exit = True
            thread.join()

    def _server(self, page: Starlette) -> uvicorn.Server:
        self._gate.app = page
        return uvicorn.Server(
            uvicorn.Config(
                self._gate,
                http=ImpatientProtocol,
                log_level="error",
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=1,
            )
        )


def _file(name: str, kind: str) -> Any:
    content = resources.files("nesi.labeling").joinpath("page", name).read_bytes()
    return lambda request: Response(content, media_type=kind)


def _number(request: Request) -> int:
    """The number in the address of a field or a point."""
    text = request.path_params["number"]
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise UnknownField(f"There is no number {text[:40]}.")
    return int(text)


def _png(content: bytes) -> Response:
    return Response(content, media_type="image/png")


def _answer(session: LabelingSession, content: Any) -> None:
    if not isinstance(content, dict) or set(content) != {"field", "weights"}:
        raise NesiError("An answer has the form {field, weights}.")
    session.answer(content["field"], content["weights"])


def _action(state: Callable[[], dict[str, Any]], act: Callable[[Any], None]) -> Any:
    """Do something, and tell the page how things stand now."""

    async def endpoint(request: Request) -> Response:
        try:
            content = json.loads(await request.body())
        except ClientDisconnect:  # whoever asked is gone, and nothing has happened
            return Response(status_code=400)
        except (ValueError, RecursionError):
            raise NesiError("That is not JSON.") from None

        def work() -> dict[str, Any]:
            act(content)
            return state()

        return JSONResponse(await run_in_threadpool(work))

    return endpoint


def _refusal(status: int) -> Any:
    def handler(request: Request, error: Exception) -> Response:
        sentence = one_line(str(error)) if isinstance(error, NesiError) else "There is no such thing."
        return JSONResponse({"error": sentence}, status_code=status)

    return handler
