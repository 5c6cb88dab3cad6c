"""A real HTTP server on this machine that can also misbehave like the worse ones of the world."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class LocalMirror(ThreadingHTTPServer):
    """Serves `files` by path; see the attributes for how it can fail."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        #: How many bytes each answer carries before the connection is closed; one entry per request.
        self.cut_after: list[int] = []
        self.ranges = True
        self.status = 200
        #: (path, Range header or None) of every request.
        self.requests: list[tuple[str, str | None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: LocalMirror

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.requests.append((self.path, wanted))
        if self.server.status != 200 or self.path not in self.server.files:
            self.send_error(self.server.status if self.server.status != 200 else 404)
            return
        content = self.server.files[self.path]
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and self.server.ranges else 0
        if start >= len(content) > 0:
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        cut = self.server.cut_after.pop(0) if self.server.cut_after else None
        self.wfile.write(content[start:] if cut is None else content[start : start + cut])
        self.wfile.flush()
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def running_mirror() -> Iterator[LocalMirror]:
    with LocalMirror() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
