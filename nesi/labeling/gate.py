"""Who may talk to the page: the browser that was given the address, and nobody else.

The address on the terminal holds a token that works once. Whoever brings it gets a cookie that scripts cannot read and
other sites cannot send. Every request needs the cookie, every request must be for this very host (no other name that
somebody made point to 127.0.0.1), and whatever changes something must come from this very page.
"""

from __future__ import annotations

import hmac
import secrets

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST_BODY = 100_000
# Not a redirect: a browser that comes from elsewhere would follow it without the cookie, which is for this page only.
_NEXT = '<meta http-equiv="refresh" content="0; url=/">'
ON_TO_THE_PAGE = f'<!doctype html><title>NeSi</title><link rel="icon" href="/icon.svg">{_NEXT}\n'
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Gate:
    def __init__(self, host: str) -> None:
        """`host`: name and port, as a browser sends them."""
        self._host = host
        self.app: ASGIApp = PlainTextResponse("Not yet.\n", status_code=503)  # what is behind it
        self._token: str | None = secrets.token_urlsafe(32)
        self._cookie_name, self._cookie = f"nesi-label-{host.rpartition(':')[2]}", secrets.token_urlsafe(32)

    @property
    def address(self) -> str:
        return f"http://{self._host}/?token={self._token}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # neither websockets nor anything else
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        refusal = self._answer_at_the_gate(Request(scope))
        await (refusal or self.app)(scope, receive, send_with_headers)

    def _answer_at_the_gate(self, request: Request) -> Response | None:
        """What the gate itself has to say; None: come in."""
        if request.headers.get("host") != self._host:
            return _refused("This page is for one address on this computer only.")
        if not request.scope["query_string"].isascii():
            return _refused("There is no such address.", 400)
        if request.method == "GET" and request.url.path == "/" and "token" in request.query_params:
            return self._exchange(request.query_params["token"])
        if not _same(request.cookies.get(self._cookie_name, ""), self._cookie):
            return _refused("Open the address that `python -m nesi label` has printed; it works once.")
        if request.method not in ("GET", "HEAD"):
            return self._check_write(request.headers)
        return None

    def _exchange(self, token: str) -> Response:
        if self._token is None or not _same(token, self._token):
            return _refused("This address is not valid, or was used before. Start `python -m nesi label` again.")
        self._token = None
        response = HTMLResponse(ON_TO_THE_PAGE)
        response.set_cookie(self._cookie_name, self._cookie, httponly=True, samesite="strict", path="/")
        return response

    def _check_write(self, headers: Headers) -> Response | None:
        if headers.get("origin") != f"http://{self._host}" or headers.get("sec-fetch-site") not in (
            None,
            "same-origin",
        ):
            return _refused("Another site may not write here.")
        if headers.get("content-type") != "application/json":
            return _refused("Only JSON is taken.", 415)
        length = headers.get("content-length", "")
        if not (length.isascii() and length.isdigit() and len(length) < 10) or int(length) > LARGEST_BODY:
            return _refused("That is too much for an answer.", 413)
        return None


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), expected.encode())


def _refused(sentence: str, status: int = 403) -> Response:
    return PlainTextResponse(sentence + "\n", status_code=status)
