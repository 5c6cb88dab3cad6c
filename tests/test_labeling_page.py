"""The labeling page in a real browser: by mouse and keyboard, through reloads and a killed server, to the result."""

import json
import os
import shutil
import signal
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import run_here, write_params
from labeling_server import CHROMIUM, FLAGS, Server, serving

from nesi.experiment.finished_run import finished_run
from nesi.fields.labels import oracle_answers
from nesi.labeling.command import _page_that_leads_to
from nesi.labeling.run_to_label import RunToLabel
from nesi.storage.arrays import load_arrays

pytest.importorskip("starlette", reason="needs the extra 'label'")
pytest.importorskip("uvicorn", reason="needs the extra 'label'")
TARGET = 20
REMEMBER_HEADINGS = """() => {
  window.headings = [];
  new MutationObserver(() => {
    const now = document.getElementById("heading").innerText;
    if (now !== window.headings.at(-1)) window.headings.push(now);
  }).observe(document.getElementById("heading"), { childList: true });
}"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Real digits, a small network that knows no class."""
    folder = tmp_path_factory.mktemp("labeling")
    fields = {"fields": TARGET, "choose": "informative", "by": "person"}
    params = write_params(
        folder / "p.yaml", networks=["r+"], labels=[0], runs=1, C=60, iterations=30, field_labels=fields
    )
    assert run_here(params, "--out", folder / "out", "--quiet")[0] == 0
    return folder / "out"


@pytest.fixture
def directory(trained: Path, tmp_path: Path) -> Path:
    return shutil.copytree(trained, tmp_path / "out")


def events(directory: Path) -> list[dict[str, Any]]:
    text = (directory / "labeling" / "r+-L0-run1" / "answers.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


class Browser:
    """A page that remembers what went wrong and what was asked for."""

    def __init__(self, playwright: Any) -> None:
        self._browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        self.page = self._browser.new_page(viewport={"width": 1160, "height": 800})
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def close(self) -> None:
        self._browser.close()

    def open(self, server: Server, signpost: Path, until: str = "#classes button") -> None:
        """As the command does: by a file that only this user can read."""
        self.page.goto(_page_that_leads_to(server.address, signpost).as_uri())
        self.page.wait_for_selector(until)

    def field(self) -> int:
        return int(self.page.get_attribute("#picture", "src").split("/")[1].split(".")[0])

    def labeled(self) -> str:
        return self.page.inner_text("#labeled")

    def wait_for_labeled(self, number: int) -> None:
        self.page.wait_for_function(
            "text => document.getElementById('labeled').innerText === text", arg=f"{number} of {TARGET}"
        )

    def wait_for_another_field(self, field: int) -> None:
        self.page.wait_for_function("old => !document.getElementById('picture').src.endsWith(`/${old}.png`)", arg=field)


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian: apt-get install chromium)")
def test_label_with_mouse_and_keyboard_through_a_crash_to_the_result(directory: Path) -> None:
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright to drive the browser")
    run = finished_run(directory, None, None)
    oracle = oracle_answers(RunToLabel(run).activities, run.data.y_train, 10)
    truth = {field: int(np.argmax(answer)) for field, answer in oracle.items()}
    server = Server(directory)
    with sync_api.sync_playwright() as playwright:
        browser = Browser(playwright)
        page = browser.page
        try:
            browser.open(server, directory / "open.html")
            assert "token" not in page.url
            assert browser.labeled() == f"0 of {TARGET}"
            assert page.inner_text("#heading") == "What does this field show?"
            assert page.inner_text("#belief") == "The network has no idea yet."
            assert set(page.locator("#classes .share").all_inner_texts()) == {""}, "no idea, no numbers"

            # by keyboard
            first = browser.field()
            place = page.locator("#classes").bounding_box()
            page.keyboard.press("3")
            browser.wait_for_labeled(1)
            second = browser.field()
            assert second != first
            assert events(directory)[-1]["answer"] == np.eye(10)[3].tolist()
            # by mouse
            page.click("#classes button:nth-child(8)")
            browser.wait_for_labeled(2)
            assert (events(directory)[-1]["field"], np.argmax(events(directory)[-1]["answer"])) == (second, 7)
            assert page.locator("#classes").bounding_box() == place, "nothing jumps"
            # undo, by keyboard and by mouse: back to the very fields
            page.keyboard.press("Backspace")
            browser.wait_for_labeled(1)
            assert browser.field() == second
            page.click("#undo")
            browser.wait_for_labeled(0)
            assert browser.field() == first
            # skip
            page.keyboard.press("Space")
            browser.wait_for_another_field(first)
            assert events(directory)[-1]["answer"] is None
            assert browser.labeled() == f"0 of {TARGET}"
            # unsure: twice a 4, once a 9
            unclear = browser.field()
            for key in (".", "4", "4", "9"):
                page.keyboard.press(key)
            assert page.inner_text("#classes button:nth-child(5) .share") == "67 %"
            page.keyboard.press("Enter")
            browser.wait_for_labeled(1)
            assert events(directory)[-1]["field"] == unclear
            np.testing.assert_allclose(events(directory)[-1]["answer"], np.eye(10)[[4, 4, 9]].mean(axis=0))

            # reload in the middle
            here = browser.field()
            page.reload()
            browser.wait_for_labeled(1)
            assert browser.field() == here

            # kill the server in the middle, and start again
            assert browser.complaints == []
            assert server.end(signal.SIGKILL)[0] == -signal.SIGKILL
            page.keyboard.press("5")
            page.wait_for_selector("#hint.error")
            assert "start it again" in page.inner_text("#hint")
            server = Server(directory)
            browser.complaints.clear()  # the browser has complained about the dead server
            browser.open(server, directory / "open.html")
            browser.wait_for_labeled(1)
            assert browser.field() == here

            # change earlier answers: the skipped field, and the one that was unclear
            for field in (first, unclear):
                page.press(f"#history button[title='field {field}']", "Enter")
                page.wait_for_function(
                    "now => document.getElementById('picture').src.endsWith(now)", arg=f"/{field}.png"
                )
                page.keyboard.press(str(truth[field]))
                browser.wait_for_another_field(field)
            browser.wait_for_labeled(2)

            # to the end, then train
            for number in range(3, TARGET + 1):
                page.keyboard.press(str(truth[browser.field()]))
                browser.wait_for_labeled(number)
            page.wait_for_selector("#rest:not([hidden])")
            assert float(page.inner_text("#decided").split()[0]) > 30
            if target := os.environ.get("NESI_SCREENSHOT"):
                page.screenshot(path=target)
            assert page.inner_text("#heading") == f"{TARGET} fields are done"
            page.evaluate(REMEMBER_HEADINGS)
            page.click("#rest-train")
            page.wait_for_selector("#result:not([hidden])", timeout=120_000)
            assert page.evaluate("window.headings") == [
                "Training goes on with your labels",
                "The result with your labels",
            ]
            assert page.inner_text("#before") == "no classes"
            after = float(page.inner_text("#after").split()[0])
            assert after < 25
            page.wait_for_function("() => document.getElementById('result-picture').naturalWidth > 100")
            # the result is still there after a reload, and labeling can go on
            page.reload()
            page.wait_for_selector("#result:not([hidden])")
            page.click("#more")
            page.wait_for_selector("#question:not([hidden])")
            assert browser.complaints == []
            ours = ("http://127.0.0.1:", directory.as_uri())
            assert all(url.startswith(ours) for url in browser.requests)
        finally:
            browser.close()
            code, errors = server.end()
    assert (code, [line for line in errors.splitlines() if not line.startswith("nesi: compiling")]) == (0, [])
    folder = directory / "labeling" / "r+-L0-run1"
    result = json.loads((folder / "result.json").read_text())
    assert round(result["test_error_after"], 2) == after
    assert result["answers"] == TARGET
    weights = load_arrays(folder / "weights.npz")
    assert weights["W"].shape == run.network.W.shape
    assert not np.array_equal(weights["R"], run.network.R)


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian: apt-get install chromium)")
def test_texts_are_shown_whole_and_without_stop_words(tmp_path: Path) -> None:
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright to drive the browser")
    folder = tmp_path / "mail"
    folder.mkdir()
    for number in range(24):
        subject, other = ("ships sail to the harbour", "sea") if number % 2 else ("trains stop at the station", "rail")
        text = f"Nr. {number}: the {subject}, and <b>the {other}</b> is calm.\n" + "Sent by the clerk.\n" * 30
        (folder / f"{number:02}.txt").write_text(text)
    options = ("--classes", "sea,land", "--out", tmp_path / "run", "--set", "iterations=5", "C=4")
    with serving(folder, *options) as server, sync_api.sync_playwright() as playwright:
        browser = Browser(playwright)
        try:
            browser.open(server, tmp_path / "open.html")
            page = browser.page
            assert page.inner_text("#heading") == "What are these texts about?"
            words = set(page.locator("#words span").all_inner_texts())
            assert words & {"ships", "trains", "sea", "rail"}
            assert not words & {"the", "to", "at", "and", "is", "calm", "sent", "clerk"}, "common words say little"
            first = page.locator("#documents article").first
            name = first.locator("h3").inner_text()
            assert first.locator("div").inner_text().split() == (folder / name).read_text().split(), "the whole text"
            assert set(first.locator("mark").all_inner_texts()) <= words
            assert browser.complaints == []
        finally:
            browser.close()


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian: apt-get install chromium)")
def test_classes_are_named_on_the_page_and_the_questions_follow(tmp_path: Path) -> None:
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright to drive the browser")
    np.savez(tmp_path / "points.npz", X=np.random.default_rng(0).integers(0, 9, size=(60, 16)), image_shape=[4, 4])
    options = ("--out", tmp_path / "run", "--set", "iterations=3", "C=6")
    with serving(tmp_path / "points.npz", *options) as server, sync_api.sync_playwright() as playwright:
        browser = Browser(playwright)
        try:
            browser.open(server, tmp_path / "open.html", until="#names input")
            page = browser.page
            assert page.inner_text("#heading") == "Which classes are there?"
            assert page.is_disabled("#train")
            page.keyboard.type("cat")
            page.keyboard.press("Enter")
            page.keyboard.type("cat")
            assert page.is_disabled("#train"), "two different names"
            for key in ("Backspace", "Backspace", "Backspace"):
                page.keyboard.press(key)
            page.keyboard.type("dog")
            assert page.locator("#names input").count() == 3
            assert not (tmp_path / "run").exists()
            page.click("#train")
            page.wait_for_selector("#classes button", timeout=120_000)
            assert page.locator("#classes .name").all_inner_texts() == ["cat", "dog"]
            assert page.inner_text("#heading") == "What does this field show?"
            page.keyboard.press("1")
            page.wait_for_function("() => document.getElementById('labeled').innerText.startsWith('1 of')")
            page.click("#train")
            page.wait_for_selector("#result:not([hidden])", timeout=120_000)
            assert page.is_hidden("#errors")
            assert "there are no labeled points to test on" in page.inner_text("#result-text")
            assert str(tmp_path / "run" / "predictions.csv") in page.inner_text("#result-text")
            assert [line for line in browser.complaints if "ERR_" not in line] == [], "between two pages"
        finally:
            browser.close()
        code, errors = server.end()
    assert code == 0
    assert "error" not in errors
    assert "the page goes on by itself" in server.after


def test_only_the_page_itself_may_read_and_write(directory: Path) -> None:
    with serving(directory) as server:
        attempts = [("/", None), ("/api/state", None), ("/label.js", None), ("/field/0.png", None), ("/api/undo", {})]
        for path, content in attempts:
            assert server.request(path, content)[0] == 403, path
            assert server.request(path, content, cookie=f"nesi-label-{server.port}=guessed")[0] == 403, path
        assert server.request("/?token=guessed")[0] == 403
        status, headers, _ = server.request(f"/?token={server.token}")
        assert status == 200
        attributes = headers["set-cookie"].lower()
        assert "httponly" in attributes
        assert "samesite=strict" in attributes
        cookie = headers["set-cookie"].split(";")[0]
        assert server.request(f"/?token={server.token}")[0] == 403, "the token works once"

        status, headers, page = server.request("/", cookie=cookie)
        assert status == 200
        assert "default-src 'none'" in headers["content-security-policy"]
        assert b"http" not in page.replace(b"http-equiv", b"")
        state = json.loads(server.request("/api/state", cookie=cookie)[2])
        field = state["current"]["field"]
        answer = {"field": field, "weights": [1] + [0] * 9}

        refused: list[tuple[int, dict[str, Any]]] = [
            (403, {"Origin": "http://evil.example"}),
            (403, {"Origin": f"http://localhost:{server.port}"}),
            (403, {"Origin": "null"}),
            (403, {"Origin": None}),
            (403, {"Sec_Fetch_Site": "cross-site"}),
            (403, {"Host": f"evil.example:{server.port}"}),
            (403, {"Host": f"localhost:{server.port}"}),
            (415, {"Content_Type": "text/plain"}),
        ]
        for expected, changed in refused:
            assert server.request("/api/answer", answer, cookie, **changed)[0] == expected, changed
        assert server.request("/api/answer", answer)[0] == 403, "no cookie"
        assert server.request("/api/answer", b" " * 200_000, cookie)[0] == 413

        never_asked = next(other for other in range(60) if other != field)
        for made_up in (-1, 60, 10**30, never_asked, True, 1.5, "0", None, [field], {}):
            status, _, body = server.request("/api/answer", {**answer, "field": made_up}, cookie)
            assert status == 404, made_up
            assert "was not asked about" in json.loads(body)["error"]
        assert server.request(f"/field/{never_asked}.png", cookie=cookie)[0] == 404
        assert server.request(f"/api/field/{never_asked}", cookie=cookie)[0] == 404
        assert server.request("/point/99999999.png", cookie=cookie)[0] == 404
        assert server.request("/../answers.jsonl", cookie=cookie)[0] == 404
        for path in ("/api/field/", "/field/", "/point/"):
            for number in ("9" * 4400, "-1", "%C2%B2", "1.5", "%ED%A0%80"):
                assert server.request(f"{path}{number}{'' if 'api' in path else '.png'}", cookie=cookie)[0] == 404
        for length in ("9" * 4400, "\u00b2", "-1", "1e3"):
            assert server.request("/api/answer", b"", cookie, Content_Length=length)[0] in (400, 413)
        for number in ("9" * 4400, "9" * 400, "-" + "9" * 400, "1e999"):
            wrong = f'{{"field": {field}, "weights": [{number}, 0, 0, 0, 0, 0, 0, 0, 0, 0]}}'.encode()
            assert server.request("/api/answer", wrong, cookie)[0] == 422, number[:10]
            wrong = f'{{"field": {number}, "weights": null}}'.encode()
            assert server.request("/api/answer", wrong, cookie)[0] in (404, 422), number[:10]
        for wrong in (b'{"field": "\\ud800", "weights": null}', b'{"field": 0, "weights": "\\ud800"}'):
            assert server.request("/api/answer", wrong, cookie)[0] in (404, 422)
        for wrong in ([1, 0], [0] * 10, [-1] + [1] * 9, "3", [None] * 10, 7, [[1]] * 10):
            assert server.request("/api/answer", {"field": field, "weights": wrong}, cookie)[0] == 422, wrong
        for wrong in (b"{", b"[1]", b"{}", b"[" * 50_000, b"\xff"):
            assert server.request("/api/answer", wrong, cookie)[0] == 422, wrong[:10]
        assert server.request("/api/train", {}, cookie)[0] == 422, "nothing to train with"
        assert server.request("/api/undo", {}, cookie)[0] == 422, "nothing to undo"
        assert not (directory / "labeling" / "r+-L0-run1" / "answers.jsonl").exists()
        assert server.request("/api/answer", answer, cookie)[0] == 200
        assert [event["field"] for event in events(directory)] == [field]
        assert server.request("/api/answer", {"field": field, "weights": [1e308] * 10}, cookie)[0] == 200
        code, errors = server.end()
    assert (code, errors) == (0, "")
    with serving(directory) as server:  # what was accepted can be read again
        state = json.loads(server.request("/api/state", cookie=server.log_in())[2])
        assert state["history"] == [{"field": field, "answer": [0.1] * 10}]
        assert server.end() == (0, "")


def test_broken_connections_leave_no_trace_and_are_closed(directory: Path) -> None:
    with serving(directory) as server:
        cookie = server.log_in()
        head = (
            f"POST /api/answer HTTP/1.1\r\nHost: {server.host}\r\nOrigin: http://{server.host}\r\nCookie: {cookie}\r\n"
        )
        head += "Content-Type: application/json\r\nContent-Length: 50\r\n\r\n"
        for part in (head[:30], head, head + '{"field"', "nonsense\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", server.port), timeout=5) as aborted:
                aborted.sendall(part.encode())
        half_open = [socket.create_connection(("127.0.0.1", server.port), timeout=30) for _ in range(3)]
        for connection, part in zip(half_open, ("", head[:30], head + '{"field"'), strict=True):
            connection.sendall(part.encode())
        assert server.request("/api/state", cookie=cookie)[0] == 200  # others are served meanwhile
        for connection in half_open:
            with connection:
                while connection.recv(1000):  # an answer may come first; the end must come
                    pass
        assert server.end() == (0, "")


def test_the_browser_is_given_a_file_that_only_this_user_can_read(tmp_path: Path) -> None:
    path = _page_that_leads_to("http://127.0.0.1:1/?token=secret", tmp_path / "open.html")
    assert path.stat().st_mode & 0o777 == 0o600
    assert "secret" in path.read_text()
    assert "secret" not in path.as_uri()
