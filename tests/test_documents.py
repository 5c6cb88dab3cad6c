"""The documents: links lead somewhere, commands are understood, code runs, and the site is built whole."""

from __future__ import annotations

import functools
import http.server
import importlib.util
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from labeling_server import CHROMIUM, FLAGS

from nesi.cli import main_parser
from nesi.errors import NesiError

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").glob("**/*.md"))
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "results/README.md")),
    *PAGES,
]
SHOWN = {path.relative_to(ROOT).as_posix(): path for path in DOCUMENTS}
TO_RUN = "<!-- run -->\n"
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def anchors(markdown: str) -> set[str]:
    """The headings, as GitHub and the site name them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", markdown), flags=re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("name", SHOWN)
def test_every_link_leads_somewhere(name: str) -> None:
    path = SHOWN[name]
    markdown = FENCE.sub("", path.read_text(encoding="utf-8"))
    broken = []
    for target in re.findall(r"\]\(([^()\s]+)\)", markdown):
        if target.startswith(("http://", "https://")):
            continue
        file, _, anchor = target.partition("#")
        place = (path.parent / file).resolve() if file else path
        generated = place == ROOT / "docs" / "changelog.md"  # by the site, from CHANGELOG.md
        headings = anchors(place.read_text(encoding="utf-8")) if anchor and place.suffix == ".md" else {anchor}
        if not (place.exists() or generated) or anchor not in headings:
            broken.append(target)
    assert broken == []


def commands(markdown: str) -> Iterator[list[str]]:
    """Arguments of the calls of this program, in indented blocks and in fences without a language."""
    fenced = "\n".join(body for language, body in FENCE.findall(markdown) if language in ("", "console", "bash", "sh"))
    indented = "\n".join(re.findall(r"^    (\S.*)$", FENCE.sub("", markdown), flags=re.MULTILINE))
    for line in f"{fenced}\n{indented}".splitlines():
        for call in line.removeprefix("$ ").split(" && "):
            if not re.match(r"(python (-m nesi|run_experiment\.py)|nesi) ", call):
                continue
            call = re.sub(r"(?<= )\[[^\]]*\]", "", call)  # [--out DIR]: what may be left out
            words = shlex.split(call, comments=True)
            words = words[words.index("nesi") + 1 :] if "nesi" in words[:3] else ["run", *words[2:]]
            yield words[: words.index(">")] if ">" in words else words


@pytest.mark.parametrize("name", SHOWN)
def test_every_command_is_understood(name: str) -> None:
    """Options exist, have values of the right kind, and parameter files of the project are there."""
    parser = main_parser()
    for words in commands(SHOWN[name].read_text(encoding="utf-8")):
        try:
            parser.parse_args(words)
        except NesiError as error:
            pytest.fail(f"{name}: {shlex.join(words)}: {error}")
        for word in words:
            assert not word.startswith("params/") or word == "params/FILE.yaml" or (ROOT / word).is_file(), (
                f"{name}: {word} does not exist"
            )


@pytest.mark.parametrize("name", SHOWN)
def test_python_in_documents_can_be_read(name: str) -> None:
    for language, code in FENCE.findall(SHOWN[name].read_text(encoding="utf-8")):
        if language == "python":
            compile(code, name, "exec")


WITH_CODE_TO_RUN = [name for name, path in SHOWN.items() if TO_RUN in path.read_text(encoding="utf-8")]


@pytest.mark.usefixtures("one_thread")
@pytest.mark.filterwarnings("ignore:At the end of training the network labels", "ignore:.*did not converge")
@pytest.mark.parametrize("name", WITH_CODE_TO_RUN)
def test_code_in_documents_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks marked `<!-- run -->`, those of a page one after the other."""
    monkeypatch.chdir(tmp_path)
    blocks = SHOWN[name].read_text(encoding="utf-8").split(TO_RUN)[1:]
    variables: dict[str, Any] = {"__name__": "document"}
    for block in blocks:
        code = FENCE.match(block.lstrip())
        assert code is not None
        assert code[1] == "python"
        exec(compile(code[2], name, "exec"), variables)
    if "accuracy" in variables:
        assert variables["accuracy"] > 0.7


def test_code_is_run_somewhere() -> None:
    assert {"README.md", "docs/index.md", "docs/your-data.md"} <= set(WITH_CODE_TO_RUN)


def test_the_gallery_shows_the_examples_as_they_are() -> None:
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    for path in sorted((ROOT / "examples").glob("*.py")):
        assert path.read_text(encoding="utf-8") in page, "capture it again: python docs/site/capture.py"


def test_the_table_of_the_front_page_is_that_of_the_records() -> None:
    """Its columns are numbers of labels; the tables of the other document are made from the records (test_results)."""
    cells: dict[tuple[str, str], tuple[str, str]] = {}
    document = (ROOT / "docs" / "reproduction-mnist.md").read_text(encoding="utf-8")
    made = document.split("<!-- nesi compare results/mnist -->")[1]
    for line in made.split("<!-- end -->")[0].splitlines():
        if len(row := [cell.strip() for cell in line.split("|")]) > 6:
            cells[row[1], row[2]] = (row[4], row[5].split(" / ")[0])
    checked = 0
    for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines():
        if found := re.match(r"\| (ff\+|r\+), (our|the paper's) algorithm[^|]*\|(.*)\|$", line):
            for labels, number in zip(("10", "100", "60000"), found[3].split("|"), strict=True):
                assert number.strip() == cells[found[1], labels][found[2] == "the paper's"]
                checked += 1
    assert checked == 12


# ---- the site -------------------------------------------------------------------------------------------------------


def hook(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"site_{name}", ROOT / "docs" / "site" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_equations_become_mathml() -> None:
    pytest.importorskip("latex2mathml", reason="needs the extra 'docs'")
    shown = hook("equations").on_page_markdown("Rates $`W_{cd}`$:\n\n```math\na < \\frac{1}{K}\n```\n\n`$x$` stays.")
    assert shown.count("<math ") == shown.count("</math>") == 2
    assert 'title="a &lt; \\frac{1}{K}"' in shown
    assert "<mfrac>" in shown
    assert "`$x$` stays." in shown


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("material", reason="needs the extra 'docs'")
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    run = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert run.returncode == 0, run.stderr
    return folder


def test_every_page_is_built_and_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for path in PAGES:
        assert (site / path.relative_to(ROOT / "docs").with_suffix(".html")).is_file()
    assert "Not yet released" in (site / "changelog.html").read_text(encoding="utf-8")
    assert "n_subclasses" in (site / "api.html").read_text(encoding="utf-8")
    loads = re.compile(
        r'<(?:script|img|iframe|source)[^>]+src="https?:|<link rel="(?:stylesheet|icon)"[^>]+href="https?:'
    )
    for path in site.rglob("*.html"):
        assert not loads.search(path.read_text(encoding="utf-8")), path


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian: apt-get install chromium)")
def test_the_site_in_a_browser_is_quiet_and_asks_nobody_else(site: Path) -> None:
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright to drive the browser")
    handler = functools.partial(Quiet, directory=str(site))
    complaints: list[str] = []
    requests: list[str] = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/"
        with sync_api.sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            page = browser.new_page()
            page.on("console", lambda message: complaints.append(message.text))
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on("request", lambda request: requests.append(request.url))
            for name in ("index", "paper", "api", "reproduction-mnist"):
                page.goto(f"{address}{name}.html")
                assert page.locator("h1").count() == 1
                assert page.evaluate("[...document.images].every((image) => image.naturalWidth > 0)")
            page.goto(f"{address}paper.html")
            assert page.locator("math").first.bounding_box()["width"] > 5
            page.fill("input[name=query]", "self-labeling")
            page.wait_for_selector(".md-search-result__item")
            browser.close()
        server.shutdown()
    assert complaints == []
    assert [url for url in requests if not url.startswith(address)] == []
