"""The report page: what it says, and what happens in a real browser when somebody points at something."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from command_line import run_here, write_params
from labeling_server import CHROMIUM, FLAGS
from PIL import Image

from data_tools.dataset import Dataset
from data_tools.preprocessing import Preprocessing
from nesi.experiment.finished_run import FinishedRun, finished_run
from nesi.experiment.shown_points import content_of
from nesi.report.page import make_report
from nesi.report.page.explanations import why_the_likelihood_falls
from nesi.report.page.summary import about_spreading
from nesi.storage.arrays import load_described_arrays, save_arrays

HOSTILE = "<img src=x onerror=alert(1)>"
CLASSES = (HOSTILE, "plain & \"quoted\" 'too'")
NAME = "</template><script>alert(2)<&script>"
WIDE, PHONE = {"width": 1300, "height": 900}, {"width": 390, "height": 800}


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on own images: some labeled, some not, whose classes and files have hostile names."""
    folder, rng = tmp_path_factory.mktemp("images"), np.random.default_rng(0)
    for number in range(90):
        kind = number % 2
        place = folder / "points" / (CLASSES[kind] if number < 50 else "unlabeled")
        place.mkdir(parents=True, exist_ok=True)
        picture = rng.integers(0, 120, (5, 6), dtype=np.uint8)
        picture[:, 3 * kind : 3 * kind + 3] += 100
        if number == 89:
            picture[:] = 255 * (np.arange(30).reshape(5, 6) == 7)  # like nothing else
        Image.fromarray(picture).save(place / f"{NAME.replace('/', '')}{number}.png")
    settings: dict[str, Any] = {"networks": ["ff"], "labels": ["all"], "runs": 1, "C": 8, "A": 400, "iterations": 15}
    data = str(folder / "points")
    params = write_params(folder / "p.yaml", dataset=data, data={"test_fraction": 0.4}, **settings)
    code, _, errors = run_here(params, "--out", folder / "out", "--quiet")
    assert code == 0, errors
    return folder / "out"


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two networks on own texts."""
    folder, rng = tmp_path_factory.mktemp("texts"), np.random.default_rng(0)
    subjects = {"sea": ["wind", "sail", "anchor", "rope"], "<b>food": ["soup", "pan", "salt", "oven"]}
    for number in range(60):
        for subject, words in subjects.items():
            place = folder / "points" / subject
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{number}.txt").write_text(" ".join([*rng.choice(words, 6), *rng.choice(["a1", "b2", "c3"], 3)]))
    params = write_params(
        folder / "p.yaml", dataset=str(folder / "points"), networks=["ff", "r"], labels=[20], runs=1, C=4, iterations=6
    )
    code, _, errors = run_here(params, "--out", folder / "out", "--quiet")
    assert code == 0, errors
    return folder / "out"


def shown_of(run: FinishedRun) -> dict[str, np.ndarray]:
    return load_described_arrays(run.directory.shown_file(run.name))[0]


# ---- the points that are kept --------------------------------------------------------------------------------------


def test_typical_points_of_a_unit_are_those_that_it_explains_best(images: Path) -> None:
    run = finished_run(images, None, None)
    X = run.training_set[0]
    s, log_likelihood = run.network.activities(X), run.network.log_likelihood(X)
    shown = shown_of(run)
    assert sorted(shown["units"]) == list(range(8))
    for unit, won, places in zip(shown["units"], shown["unit_won"], shown["unit_points"], strict=True):
        fit = np.where(s[:, unit] >= 0.1, np.log(np.maximum(s[:, unit], 1e-30)) + log_likelihood, -np.inf)
        expected = [int(row) for row in np.argsort(-fit, kind="stable")[:4] if np.isfinite(fit[row])]
        places = places[places >= 0]
        np.testing.assert_array_equal(run.points.training[expected], shown["point_rows"][places])
        assert not shown["point_of_test_set"][places].any()
        assert won == np.sum(s.argmax(axis=1) == unit)


def test_images_may_be_sparse() -> None:
    X = np.array([[0, 4, 2, 0], [1, 0, 0, 0], [0, 0, 3, 6]])
    arrays = {"point_rows": np.array([2, 0, 1]), "point_of_test_set": np.array([False, True, False])}
    found = []
    for matrix in (X, sp.csr_array(X)):
        y = np.array([0, 1, 0])
        dataset = Dataset("points", matrix, y, matrix, y, ("a", "b"), image_shape=(2, 2))
        content, about = content_of(dataset, "nowhere", arrays)
        assert about == {"names": [None] * 3, "texts": [None] * 3}
        found.append(content["point_pictures"])
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], [[0, 0, 128, 255], [0, 255, 128, 0], [255, 0, 0, 0]])


def test_confusions_hold_test_points_that_were_answered_so(images: Path) -> None:
    run = finished_run(images, None, None)
    X, classes = run.test_set
    answers, shown = run.network.posterior(X).argmax(axis=1), shown_of(run)
    assert shown["confusion_points"].size
    for true, answer, place in shown["confusion_points"]:
        row = np.searchsorted(run.points.test, shown["point_rows"][place])
        assert (classes[row], answers[row]) == (true, answer)
        assert shown["point_of_test_set"][place]


def test_lists_of_doubtful_points_know_no_label_of_theirs(images: Path) -> None:
    run = finished_run(images, None, None)
    X, labels = run.training_set
    X_test, _ = run.test_set
    shown = shown_of(run)
    posterior = np.concatenate([run.network.posterior(X[labels < 0]), run.network.posterior(X_test)])
    ordered = np.sort(posterior, axis=1)
    rows = np.concatenate([run.points.training[labels < 0], run.points.test])
    expected = rows[np.argsort(ordered[:, -1] - ordered[:, -2], kind="stable")[:12]]
    assert set(shown["point_rows"][shown["least_certain"]]) == set(expected)
    likelihood = np.concatenate([run.network.log_likelihood(X[labels < 0]), run.network.log_likelihood(X_test)])
    assert set(shown["point_rows"][shown["unlike"]]) == set(rows[np.argsort(likelihood, kind="stable")[:12]])
    assert tuple(shown["n_unlike"]) == (shown["n_unlike"][0], len(rows))
    assert (shown["point_labels"][shown["point_of_test_set"]] == -1).all()


# ---- what the page says --------------------------------------------------------------------------------------------


def test_the_summary_comes_first_and_promises_nothing_of_the_paper(images: Path) -> None:
    page = (images / "report.html").read_text()
    assert "Network ff with 8 units learned from points: 70 training points, 30 inputs, 2 classes." in page
    assert "30 of the points had labels, the others had none (1 run," in page
    assert re.search(r"With 30 labels, ff gets \d+\.\d\d % of the test points wrong\.", page)
    assert re.search(r"Tested on 20 points: for points like these, the error is \d+\.\d to \d+\.\d % \(95 %", page)
    assert "gainst the paper" not in page
    assert "gainst the paper" not in (images / "summary.md").read_text()
    assert "hours" not in page


def test_runs_of_earlier_versions_still_give_a_page(images: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(images, tmp_path / "copy")
    shutil.rmtree(copy / "shown")
    dataset = json.loads((copy / "dataset.json").read_text())
    del dataset["columns"]
    (copy / "dataset.json").write_text(json.dumps(dataset))
    make_report(copy)
    page = (copy / "report.html").read_text()
    assert page.count("class='unit ") == 8
    assert "Most typical points" not in page
    assert "Least certain" not in page


def test_choices_of_the_program_are_said_with_their_reasons(images: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(images, tmp_path / "copy")
    with (copy / "params.yaml").open("a") as stream:
        stream.write("automatic: {C: '8 (70 points & <few> labels)'}\n")
    make_report(copy)
    assert "<li>C = 8 (70 points &amp; &lt;few&gt; labels)</li>" in (copy / "report.html").read_text()


def test_units_of_a_table_name_its_columns(images: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(images, tmp_path / "copy")
    shutil.rmtree(copy / "shown")
    columns = Preprocessing(15, columns=tuple(f"<c{n}>" for n in range(15)), signed=True).names_of_inputs
    assert columns is not None
    dataset = json.loads((copy / "dataset.json").read_text()) | {"image_shape": None, "columns": columns}
    (copy / "dataset.json").write_text(json.dumps(dataset))
    make_report(copy)
    page = (copy / "report.html").read_text()
    assert len(re.findall(r"<button[^>]*class='unit[^>]*><span class='words'>", page)) == 8
    assert {"&lt;c3&gt;", "- &lt;c3&gt;"} <= set(re.findall(r">([^<>]*c\d+&gt;)</span>", page))


def test_words_of_a_text_network_are_text(texts: Path) -> None:
    page = (texts / "report.html").read_text()
    assert page.count("<details class='network'") == 2
    units = re.findall(r"<button[^>]*class='unit[^>]*>(.*?)</button>", page)
    assert len(units) == 2 * 4
    assert any({"sail", "wind"} & set(re.findall(r">(\w+)</span>", unit)[:3]) for unit in units)
    assert len(re.findall(r"<blockquote>(?:\w+ ){8}\w+</blockquote>", page)) > 20, "whole texts, as they were written"
    assert "<b>food" not in page
    assert "&lt;b&gt;food" in page


def test_a_likelihood_that_falls_is_explained() -> None:
    rising, falling = ({"log_likelihood": np.array(values)} for values in ([-3.0, -2.0, -1.0], [-3.0, -1.0, -2.0]))
    record: dict[str, Any] = {"network": "r", "settings": {"stopping": True}}
    assert why_the_likelihood_falls(record, [rising, rising]) == ""
    assert "The stopping criterion looks for this fall" in why_the_likelihood_falls(record, [rising, falling])
    assert "With `stopping: true`" in why_the_likelihood_falls({**record, "settings": {}}, [falling])
    assert "feedforward networks" in why_the_likelihood_falls({**record, "network": "ff+"}, [falling])


def test_trust_in_labels_that_were_spread_is_said_in_words() -> None:
    spread = {"over": "points", "way": "parts", "energy": 0.1, "agreement": 0.97, "found_again": {"parts": 0.9}}
    said = about_spreading({"resolved": {"spread": spread}})
    assert "spread over neighbouring training points" in said
    assert "hidden for a trial, 90 % were found again" in said
    assert "agreed on 97 % of the points" in said
    assert about_spreading({"resolved": {}}) == about_spreading({}) == ""


def test_many_classes_are_listed_where_no_table_is_readable(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nesi.report.page.network_section.MOST_CLASSES", 1)
    copy = shutil.copytree(images, tmp_path / "copy")
    counts = np.array([[5, 3], [0, 2]])
    details = copy / "details" / "ff-L30-run1.npz"
    arrays, about = load_described_arrays(details)
    save_arrays(details, {**arrays, "confusion": counts}, about)
    make_report(copy)
    page = (copy / "report.html").read_text()
    assert "class='confusion" not in page
    assert len(re.findall("class='pair'", page)) == 1
    assert "3 test points, 37.5 % of" in page


# ---- in a browser --------------------------------------------------------------------------------------------------


class Reader:
    """One page of one browser, which remembers what went wrong and what was asked for."""

    def __init__(self, playwright: Any) -> None:
        self._browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        self.page = self._browser.new_page(has_touch=True)
        self.complaints: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))
        self.page.on("request", self._asked)

    def _asked(self, request: Any) -> None:
        if not request.url.startswith(("file:", "data:")):
            self.complaints.append(request.url)

    def open(self, directory: Path, viewport: Any, anchor: str = "") -> Any:
        self.complaints.clear()
        self.page.set_viewport_size(viewport)
        self.page.goto("about:blank")  # or the same page would not be loaded again
        self.page.goto((directory / "report.html").as_uri() + anchor)
        return self.page

    def looked_at(self) -> str:
        return str(self.page.inner_text("#look")) if self.page.is_visible("#look") else ""

    def close(self) -> None:
        self._browser.close()


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    if CHROMIUM is None:
        pytest.skip("needs Chromium (Debian: apt-get install chromium)")
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright to drive the browser")
    with sync_api.sync_playwright() as playwright:
        reader = Reader(playwright)
        try:
            yield reader
        finally:
            reader.close()


def test_pointing_at_a_unit_shows_what_it_stands_for(images: Path, reader: Reader) -> None:
    page = reader.open(images, WIDE)
    assert page.evaluate("Array.from(document.images, image => image.complete && image.naturalWidth > 100)") == [True]
    assert page.is_visible("details.network .unit"), "the only network is open"
    page.hover(".unit >> nth=2")
    unit = page.get_attribute(".unit >> nth=2", "data-about").removeprefix("u")
    said = reader.looked_at()
    assert f"Unit {unit}\n" in said
    assert re.search(r"Stands for about \d+(\.\d)? training points", said)
    assert HOSTILE in said or CLASSES[1] in said
    assert "alert(2)" in said, "the names of files"
    assert page.locator("#look .point .tile").count() >= 1
    # what is chosen stays, until it is let go
    page.click(".unit >> nth=2")
    page.hover(".unit >> nth=5")
    assert reader.looked_at() == said
    page.keyboard.press("Escape")
    assert reader.looked_at() == ""
    # by keyboard
    page.focus(".unit >> nth=3")
    page.keyboard.press("Tab")
    unit = page.get_attribute(".unit >> nth=4", "data-about").removeprefix("u")
    assert f"Unit {unit}\n" in reader.looked_at()
    page.keyboard.press("Enter")
    assert page.get_attribute(".unit >> nth=4", "aria-pressed") == "true"
    page.focus("#close")
    page.keyboard.press("Enter")
    assert reader.looked_at() == "", "and the focus, which is back at the unit, does not show it again"
    assert page.evaluate("document.activeElement.dataset.about") == f"u{unit}"
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    assert reader.complaints == []


def test_a_cell_of_the_confusions_shows_the_points_behind_it(images: Path, reader: Reader) -> None:
    page = reader.open(images, WIDE)
    page.click(".confusion button.right >> nth=0")
    said = reader.looked_at()
    assert f"{HOSTILE}, recognised" in said
    assert re.search(r"\d+ test points?, \d+\.\d % of", said)
    assert page.locator("#look .point").count() >= 1
    assert page.locator("details.network > .points .point").count() == 24, "least certain and most unlike"
    assert page.locator("#glossary").inner_text().count("\n") > 5
    assert reader.complaints == []


def test_sections_open_on_demand(texts: Path, reader: Reader) -> None:
    page = reader.open(texts, WIDE)
    assert page.locator("details.network[open]").count() == 0
    page.click("nav a:text('r, 20 labels')")
    page.wait_for_selector("details.network[open]")
    assert page.locator("details.network[open] > summary").inner_text().startswith("r-NeSi, 20 labels")
    page.click("#cell-ff-L20 > summary")
    assert page.locator("details.network[open]").count() == 2
    page.click("#errors a:text('What ff, r and + mean')")
    page.wait_for_function("document.getElementById('glossary').getBoundingClientRect().top < innerHeight")
    page = reader.open(texts, WIDE, "#cell-r-L20")
    assert page.is_visible("#cell-r-L20 .unit"), "a link from elsewhere"
    assert reader.complaints == []


def test_a_phone_shows_all_of_it(texts: Path, reader: Reader) -> None:
    page = reader.open(texts, PHONE)
    assert not page.is_visible("nav a:text('r, 20 labels')"), "the contents are closed"
    page.tap("nav summary")
    page.tap("nav a:text('r, 20 labels')")
    page.wait_for_selector("#cell-r-L20 .unit")
    assert not page.is_visible("nav a:text('r, 20 labels')")
    page.tap("#cell-r-L20 .unit >> nth=3")
    assert "Most typical points" in reader.looked_at()
    page.wait_for_timeout(50)
    unit = page.locator("#cell-r-L20 .unit >> nth=3").bounding_box()
    sheet = page.locator("#look").bounding_box()
    assert unit["y"] + unit["height"] <= sheet["y"], "it can still be seen"
    page.tap("#close")
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    assert reader.complaints == []
