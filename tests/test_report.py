"""Figures, and which of them a report has."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from command_line import ROOT, run_here, write_params

from nesi.cli import main
from nesi.fields.pruning import unit_usage
from nesi.fields.shown import choose_units
from nesi.report.comparison import collect, summarize
from nesi.report.comparison_figures import error_by_labels, methods_as_bars
from nesi.report.figures import as_svg, confusion_matrix, save_figure, search_picture, training_curves
from nesi.report.page import competing_with, make_report
from nesi.report.published import published, published_experiment
from nesi.report.weight_figures import learned_fields, strongest_words, unit_colours


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    params = write_params(folder / "p.yaml", networks=["r+"], labels=[20, 50], runs=1, iterations=10)
    assert run_here(params, "--out", folder / "out", "--quiet")[0] == 0
    return folder / "out"


def picture_size(path: Path) -> tuple[int, int]:
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG")
    return int.from_bytes(content[16:20]), int.from_bytes(content[20:24])


def test_colours_follow_the_use_of_a_unit() -> None:
    """p(c|R) N = 0.4, 1.0 and 2.0 with N = 10 and K = 2."""
    R = np.array([[0.04, 0.1, 0.2], [0.04, 0.1, 0.2]])
    usage = unit_usage(R, 10)
    np.testing.assert_allclose(usage, [0.4, 1.0, 2.0])
    assert unit_colours(usage) == ["blue", "red", "black"]


def test_shown_units_are_ordered_by_class_and_repeatable() -> None:
    R = np.random.default_rng(1).random((4, 300))
    units = choose_units(R, 100)
    assert len(set(units)) == 100
    assert np.all(np.diff(np.argmax(R[:, units], axis=0)) >= 0)
    np.testing.assert_array_equal(units, choose_units(R, 100))


def test_every_figure_can_be_drawn(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    W, R = rng.random((30, 12)), rng.random((3, 30))
    names = ["first " * 20, "第二" * 20, "<third> & $last_$ \\frac{"]
    history = {
        "log_likelihood": -rng.random(30),
        "self_labeled": rng.random(30),
        "test_error_curve": rng.random((3, 2)),
    }
    one = {"log_likelihood": -np.ones(1), "test_error_curve": np.zeros((0, 2))}
    trials = [{"network": "r", "values": {"C": 10, "A": 80.0}, "error": 5.0}]
    trials.append({"network": "r+", "values": {"C": 10, "A": 80.0, "threshold": 0.6}, "error": 4.0})
    figures = {
        "fields": learned_fields(W, R, (3, 4), names, 100, "fields"),
        "words": strongest_words(W, R, [f"$word_{number}$^" for number in range(12)], names, "words"),
        "one unit": strongest_words(W[:1], np.ones((3, 1)), [f"w{number}" for number in range(12)], names, "words"),
        "training": training_curves([history, history], [12, None], "training", self_labeling=True),
        "one iteration": training_curves([one], [None], "training", self_labeling=False),
        "confusion": confusion_matrix(rng.integers(0, 9, (3, 3)), names, "confusion"),
        "many classes": confusion_matrix(np.eye(52, dtype=int), [str(number) for number in range(52)], "confusion"),
        "search": search_picture(trials, ["C", "A", "threshold"], {"C": 10, "A": 80.0, "threshold": 0.6}, "search"),
    }
    for name, figure in figures.items():
        save_figure(figure, tmp_path / f"{name}.png")
        assert min(picture_size(tmp_path / f"{name}.png")) > 100
        assert b"<svg" in as_svg(figure)


@pytest.mark.parametrize("name", ["mnist", "newsgroups20", "newsgroups6", "nist-letters", "bio-inspired"])
def test_error_by_labels_beside_the_paper(name: str, tmp_path: Path) -> None:
    experiment = published_experiment(name)
    assert experiment is not None
    record = {"dataset": experiment.dataset, "experiment": name, "run": 1, "seed": 1, "log_likelihood": -1.0}
    record |= {"seconds": 1.0, "inference": "exact"}
    cells = summarize(
        [
            {
                **record,
                "network": cell.network,
                "labels": cell.labels,
                "test_error": cell.mean + 0.1,
                "settings": cell.where,
            }
            for cell in experiment.cells
            if cell.labels > 0 and cell.class_assignment == "implicit"
        ]
    )
    figure = error_by_labels(cells, experiment, competing_with(name, experiment.dataset), experiment.title)
    # 6 topics: tuned with 200 labels, which every setting has, so tuning makes no second panel. Letters: not tuned.
    assert len(figure.axes) == (1 if name in ("newsgroups6", "nist-letters") else 2)
    save_figure(figure, tmp_path / "error.png")
    assert picture_size(tmp_path / "error.png")[0] > 500 * len(figure.axes)


def test_few_numbers_of_labels_are_written_level_and_no_error_is_drawn_too() -> None:
    record = {"dataset": "d", "network": "ff", "seed": 1, "log_likelihood": -1.0, "seconds": 1.0, "inference": "exact"}
    for labels, errors, angle in (([10, 100], [4.0, 0.0], 0.0), ([1, 2, 3, 4, 5], [5.0, 4.0, 3.0, 2.0, 1.0], 35.0)):
        pairs = zip(labels, errors, strict=True)
        records = [{**record, "run": 1, "labels": n, "test_error": error, "settings": {}} for n, error in pairs]
        figure = error_by_labels(summarize(records), None, [], "d")
        as_svg(figure)  # warnings are errors here
        (axes,) = figure.axes
        assert {tick.get_rotation() for tick in axes.get_xticklabels()} == {angle}
        assert axes.get_yscale() == ("linear" if 0.0 in errors else "log")


def test_bars_set_ours_among_other_methods(tmp_path: Path) -> None:
    tunable = published().tunable_parameters
    cells = summarize(collect([ROOT / "results" / "mnist"]))
    figure = methods_as_bars(cells, competing_with("mnist", "mnist"), tunable, "MNIST")
    assert figure is not None
    assert [axes.get_title() for axes in figure.axes] == [
        *(f"{labels} labels" for labels in (100, 600, 1000, 3000)),
        "parameters to choose",
    ]
    few_labels = figure.axes[0]
    order = [tick.get_text() for tick in few_labels.get_yticklabels()]
    assert (order[0], order[-1]) == ("NN", "Ladder")  # 25.81 and 1.06 %: the best method is on top
    lengths = [bar.get_width() for bar in few_labels.patches]
    ours = next(cell.mean for cell in cells if (cell.network, cell.labels) == ("r+", 100))
    assert lengths[order.index("r+-NeSi")] == ours
    assert lengths == sorted(lengths, reverse=True)
    save_figure(figure, tmp_path / "bars.png")
    assert picture_size(tmp_path / "bars.png")[0] > 1000
    assert methods_as_bars(cells, [], tunable, "nobody else") is None


def test_competing_methods_belong_to_their_comparison() -> None:
    assert {entry.method for entry in competing_with("newsgroups20", "newsgroups20")} == {"HDRBM"}
    assert {entry.method for entry in competing_with("bio-inspired", "mnist")} == {"SNN", "SSM", "dSSM", "RBM"}
    assert {"Ladder", "VAT", "M1+M2"} <= {entry.method for entry in competing_with("mnist", "mnist")}


def test_bars_are_drawn_where_the_others_had_the_same_data(directory: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(ROOT / "results" / "mnist", tmp_path / "copy", ignore=shutil.ignore_patterns("figures"))
    shutil.copy(directory / "dataset.json", copy)
    make_report(copy)
    assert {path.name for path in (copy / "figures").iterdir()} == {"error_by_labels.png", "methods.png"}
    assert "saw further labels for tuning; ours only 100" in (copy / "report.html").read_text()
    shutil.rmtree(copy / "figures")
    params = (copy / "params.yaml").read_text().replace("train_size: null", "train_size: 3000")
    (copy / "params.yaml").write_text(params if "train_size" in params else params + "train_size: 3000\n")
    make_report(copy)
    assert {path.name for path in (copy / "figures").iterdir()} == {"error_by_labels.png"}


def test_a_caption_speaks_of_two_panels_only_where_there_are_two(directory: Path, tmp_path: Path) -> None:
    for name, two_panels in (("mnist", True), ("newsgroups6", False)):
        copy = shutil.copytree(ROOT / "results" / name, tmp_path / name, ignore=shutil.ignore_patterns("figures"))
        shutil.copy(directory / "dataset.json", copy)
        make_report(copy)
        assert ("Below: the same by all labels seen" in (copy / "report.html").read_text()) == two_panels


def test_hostile_names_stay_text(directory: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(directory, tmp_path / "copy")
    text = (copy / "params.yaml").read_text().replace("dataset: digits", "dataset: '<script>alert(1)</script>'")
    (copy / "params.yaml").write_text(text)
    make_report(copy)
    page = (copy / "report.html").read_text()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_a_missing_picture_source_costs_a_picture_not_the_report(directory: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(directory, tmp_path / "copy")
    shutil.rmtree(copy / "weights")
    (copy / "details" / "r+-L20-run1.npz").write_bytes(b"damaged")
    shutil.rmtree(copy / "figures")
    assert main(["report", str(copy)]) == 0
    assert {path.name for path in (copy / "figures").iterdir()} == {
        "error_by_labels.png",
        "training_r+-L50.png",
        "confusion_r+-L50.png",
    }
