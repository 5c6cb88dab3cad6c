"""Helpers for tests of the labeling page: a real server in a process of its own, and a real browser."""

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from command_line import ROOT

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]


class Server:
    """`python -m nesi label DIRECTORY` under way; what it prints before the address is in `before`."""

    def __init__(self, directory: Path, *options: object) -> None:
        command = [sys.executable, "-m", "nesi", "label", str(directory), "--no-browser", *map(str, options)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
        assert self.process.stdout is not None
        self.before: list[str] = []
        match = None
        while match is None and (line := self.process.stdout.readline()):
            match = re.search(r"http://(127\.0\.0\.1:(\d+))/\?token=(\S+)", line)
            self.before.append(line)
        assert match, (self.before, self.process.communicate(timeout=10)[1])
        self.address, self.host, self.port, self.token = match[0], match[1], int(match[2]), match[3]

    def end(self, number: int = signal.SIGINT) -> tuple[int, str]:
        """Exit code and standard error; the rest of standard output goes to `after`."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.after, errors = self.process.communicate(timeout=30)
        return self.process.returncode, errors

    def request(
        self, path: str, content: Any = None, cookie: str | None = None, **headers: str | None
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body; a POST with the headers of the page if there is `content`."""
        sent: dict[str, str | None] = {"Host": self.host, "Cookie": cookie}
        if content is not None:
            sent |= {"Origin": f"http://{self.host}", "Content-Type": "application/json"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        body = None if content is None else content if isinstance(content, bytes) else json.dumps(content).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(
                "GET" if content is None else "POST",
                path,
                body,
                {name: value for name, value in sent.items() if value is not None},
            )
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read()
        finally:
            connection.close()

    def log_in(self) -> str:
        """Spend the token; returns the cookie."""
        status, headers, _ = self.request(f"/?token={self.token}")
        assert status == 200
        return headers["set-cookie"].split(";")[0]


@contextlib.contextmanager
def serving(directory: Path, *options: object) -> Iterator[Server]:
    server = Server(directory, *options)
    try:
        yield server
    finally:
        server.end()
