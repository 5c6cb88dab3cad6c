"""Labels that travel over a graph: against NumPy twins, on groups of points, and as part of training."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NearestNeighbors
from small_networks import make_model, make_trainer

from nesi.errors import NesiError
from nesi.spreading import neighbours
from nesi.spreading.coarse import CoarseGraph
from nesi.spreading.graph import Graph, graph_of_neighbours, graph_of_units, one_hot
from nesi.spreading.kernels import BalancedClasses, Walk, balanced_function
from nesi.spreading.partition import (
    NamedParts,
    agreement,
    balanced_rounds,
    partition_of_least_energy,
    spread_from_labels,
)
from nesi.spreading.search import Found, Search
from nesi.spreading.spread import WAYS, Spreading

pytestmark = pytest.mark.usefixtures("one_thread")


def random_graph(n_points=40, n_units=12, seed=0):
    rng = np.random.default_rng(seed)
    S = sp.random_array((n_points, n_units), density=0.3, rng=rng).toarray()
    S[np.arange(n_points), np.arange(n_points) % n_units] += 0.5  # no unit and no point is left alone
    return Graph(sp.csr_array(S / S.sum(axis=1, keepdims=True)))


@pytest.fixture(scope="module")
def blobs():
    """Three groups of points that share most of their units, a few of which lie between the groups."""
    rng = np.random.default_rng(1)
    classes = np.repeat([0, 1, 2], 60)
    p = np.full((3, 15), 0.01)
    for k in range(3):
        p[k, 5 * k : 5 * k + 5] = 1
    weights = rng.gamma(0.5, size=(180, 15)) * p[classes]
    weights /= weights.sum(axis=1, keepdims=True)
    return Graph(sp.csr_array(weights)), classes


def labels_of(classes, *points):
    labels = np.full(len(classes), -1)
    labels[list(points)] = classes[list(points)]
    return labels


def test_a_walk_is_two_products() -> None:
    graph = random_graph()
    S = graph.S.toarray().astype(np.float64)
    P = S @ np.diag(1 / S.sum(axis=0)) @ S.T
    rng = np.random.default_rng(2)
    u, sources = rng.random((40, 4)), rng.normal(size=(40, 4))
    expected = u
    for _ in range(3):
        expected = P @ expected + sources
    np.testing.assert_allclose(graph.walk(u, 3, sources), expected, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(P, P.T, atol=1e-12)
    np.testing.assert_allclose(graph.walk(np.ones((40, 1)), 50), 1, rtol=1e-5)


def test_the_walk_says_the_same_in_numpy() -> None:
    graph = random_graph(seed=3)
    u = np.random.default_rng(3).random((40, 5)).astype(np.float32)
    inputs = [*graph._arrays, u, np.zeros_like(u), np.asarray(4)]
    result = [[None]]
    Walk().perform(None, inputs, result)
    np.testing.assert_allclose(graph.walk(u, 4), result[0][0], rtol=1e-5)


@pytest.mark.parametrize("shares", [[0.25] * 4, [0.4, 0.3, 0.2, 0.1]])
def test_every_class_gets_its_share(shares) -> None:
    u = np.random.default_rng(4).gamma(0.5, size=(2000, 4)).astype(np.float32) * np.float32([9, 3, 1, 0.3])
    sizes = np.random.default_rng(5).uniform(0.5, 2, size=2000)
    inputs = [u, sizes, np.asarray(shares), np.asarray(0.1)]
    (classes,) = balanced_function()({}, *inputs)
    found = np.bincount(classes, sizes, 4) / sizes.sum()
    assert (np.abs(found / shares - 1) <= 0.1).all()
    result = [[None]]
    BalancedClasses().perform(None, inputs, result)
    np.testing.assert_array_equal(classes, result[0][0])


def test_energy_is_the_share_of_walks_that_leave_their_class() -> None:
    graph = random_graph(seed=5)
    classes = np.arange(40) % 3
    S = graph.S.toarray().astype(np.float64)
    P = S @ np.diag(1 / S.sum(axis=0)) @ S.T
    stays = P[classes[:, None] == classes[None, :]].sum() / 40
    assert graph.energy(classes, 3) == pytest.approx(1 - stays, abs=1e-5)


def test_one_label_per_class_spreads_over_its_group(blobs) -> None:
    graph, classes = blobs
    u = spread_from_labels(graph, labels_of(classes, 5, 70, 130), 3)
    assert np.mean(u.argmax(axis=1) == classes) > 0.95


def test_poisson_learning_solves_its_equation() -> None:
    """After many steps u - walk(u) = sources, the Poisson equation of the graph."""
    graph = random_graph(seed=6)
    labels = labels_of(np.arange(40) % 2, 0, 1, 2, 3)
    u = spread_from_labels(graph, labels, 2)
    sources = np.zeros((40, 2))
    sources[:4] = one_hot(labels[:4], 2) - 0.5
    np.testing.assert_allclose(u - graph.walk(u), sources, atol=1e-4)


def test_parts_are_found_without_labels_and_named_by_few(blobs) -> None:
    graph, classes = blobs
    parts, agreed = partition_of_least_energy(graph, np.full(3, 1 / 3), 5, 0.1, np.random.default_rng(0))
    assert graph.energy(parts, 3) <= graph.energy(classes, 3) + 1e-5
    assert agreed > 0.95
    named = NamedParts(graph, parts, 3)
    assert np.mean(named.classes(labels_of(classes, 0, 60, 120)) == classes) > 0.95
    # A name that is missing goes to the part that is left over.
    assert np.mean(named.classes(labels_of(classes, 0, 120)) == classes) > 0.95


@pytest.mark.parametrize("n_nodes", [20, 500])
def test_the_small_copy_of_a_graph_has_its_energy(blobs, n_nodes) -> None:
    """For every partition that leaves nodes whole."""
    graph, _ = blobs
    coarse = CoarseGraph(graph, 3, np.random.default_rng(0), n_nodes)
    assert coarse.flow.shape[0] == len(np.unique(coarse.node)) <= n_nodes
    assert coarse.flow.sum() == pytest.approx(1, abs=1e-5)
    parts = np.random.default_rng(1).integers(3, size=len(coarse.sizes))
    assert coarse.energy(parts, 3) == pytest.approx(graph.energy(parts[coarse.node], 3), abs=1e-5)
    np.testing.assert_allclose(coarse.walk(4).sum(axis=1), 1, rtol=1e-4)


def test_two_classes_in_one_part_are_taken_apart(blobs) -> None:
    """What single moves cannot leave: one part holds two groups, and two parts share the third."""
    graph, classes = blobs
    coarse = CoarseGraph(graph, 3, np.random.default_rng(0))
    search = Search(coarse, np.full(3, 1 / 3), 0.9, np.random.default_rng(0))
    mixed = np.where(classes < 2, 0, 1 + np.arange(180) % 2)[np.unique(coarse.node, return_index=True)[1]]
    stuck = Found(mixed, 0, coarse.energy(mixed, 3))
    freed = search._rebuilt(stuck)
    assert freed.energy < stuck.energy
    assert agreement(freed.parts[coarse.node], classes, np.ones(180)) > 0.95


def test_all_starts_are_ranked_and_keep_the_shares(blobs) -> None:
    graph, _ = blobs
    coarse = CoarseGraph(graph, 3, np.random.default_rng(0))
    found = Search(coarse, np.full(3, 1 / 3), 0.1, np.random.default_rng(0)).partitions()
    assert [each.energy for each in found] == sorted(each.energy for each in found)
    sizes = np.bincount(found[0].parts, coarse.sizes, 3)
    assert (np.abs(3 * sizes - 1) <= 0.1 + 1e-9).all()
    assert found[0].energy == pytest.approx(coarse.energy(found[0].parts, 3))


def test_an_index_finds_the_neighbours_of_many_points(monkeypatch) -> None:
    """What the index is asked for, and that its distances are turned into ours; the index itself is not ours."""
    X = np.random.default_rng(0).gamma(0.5, size=(60, 8))

    class Index:
        def __init__(self, rows, metric, n_neighbors, random_state) -> None:
            search = NearestNeighbors(n_neighbors=n_neighbors, metric=metric).fit(rows)
            self.neighbor_graph = points, distances = search.kneighbors(rows)[::-1]
            points[7, -1], distances[7, -1] = -1, np.inf  # how it says that it has not found as many

    module = ModuleType("pynndescent")
    module.__spec__ = ModuleSpec("pynndescent", None)
    module.NNDescent = Index
    distances, exact = neighbours.nearest_neighbours(X, 5)
    monkeypatch.setitem(sys.modules, "pynndescent", module)
    monkeypatch.setattr(neighbours, "_MANY", 50)
    from_index, approximate = neighbours.nearest_neighbours(X, 5)
    exact[7, -1], distances[7, -1] = 7, 1
    np.testing.assert_array_equal(approximate, exact)
    np.testing.assert_allclose(from_index, distances, atol=1e-6)


def test_labels_keep_their_class_in_balanced_rounds(blobs) -> None:
    graph, classes = blobs
    labels = labels_of(classes, 5, 70, 130)
    labels[6] = 2  # a wrong label is a label
    found = balanced_rounds(graph, np.where(labels >= 0, labels, 0), np.full(3, 1 / 3), 5, 0.1, labels)
    assert (found[labels >= 0] == labels[labels >= 0]).all()


def test_parts_that_explain_hidden_labels_are_trusted(blobs) -> None:
    graph, classes = blobs
    spreading = Spreading(graph, np.full(3, 1 / 3), 5, np.random.default_rng(0))
    spread = spreading.spread(labels_of(classes, 5, 70, 130))
    assert spread.way == "parts"
    assert spread.found_again["parts"] == 1
    assert spread.agreement > 0.9
    assert np.mean(spread.classes == classes) > 0.95


def test_labels_that_contradict_the_parts_are_not_overruled(blobs) -> None:
    """Classes that have nothing to do with the graph: nothing is found again, and labels stay what they are."""
    graph, _ = blobs
    other = np.random.default_rng(7).integers(3, size=180)
    labels = labels_of(other, *range(0, 180, 4))
    spread = Spreading(graph, np.full(3, 1 / 3), 5, np.random.default_rng(0)).spread(labels)
    assert set(spread.found_again) == {"parts", "balanced", "walk"}
    assert max(spread.found_again.values()) < 0.7
    assert (spread.classes[labels >= 0] == labels[labels >= 0]).all()


def test_uneven_classes_are_left_free() -> None:
    """With equal shares forced on them, classes of very different size come out wrong; hidden labels tell."""
    rng = np.random.default_rng(8)
    classes = np.repeat([0, 1, 2], [300, 40, 20])
    centres = np.eye(3)[classes] * 9 + 1
    graph = graph_of_neighbours(rng.gamma(20, centres / 20))
    labels = np.full(360, -1)
    for k in range(3):
        chosen = np.flatnonzero(classes == k)[:10]
        labels[chosen] = k
    spread = Spreading(graph, np.full(3, 1 / 3), 10, np.random.default_rng(0)).spread(labels)
    assert spread.way == "walk"
    assert np.mean(spread.classes == classes) > 0.95


def test_a_class_without_a_label_is_refused(blobs) -> None:
    graph, classes = blobs
    spreading = Spreading(graph, np.full(3, 1 / 3), 5, np.random.default_rng(0))
    with pytest.raises(NesiError, match="class 2 has no labeled point"):
        spreading.spread(labels_of(classes, 5, 70))


def test_the_members_of_a_committee_share_one_graph() -> None:
    rows = sp.csr_array(np.array([[1, 0, 0, 0], [0, 0, 0.5, 0.5], [0, 1, 0, 0], [0, 0, 1, 0]]))
    np.testing.assert_allclose(graph_of_units(rows, 2).S.toarray(), [[0.5, 0, 0.25, 0.25], [0, 0.5, 0.5, 0]])


# ---- as part of training -------------------------------------------------------------------------------------------


class Digits(NamedTuple):
    X_train: np.ndarray
    labels: np.ndarray  # three for each class
    X_test: np.ndarray
    y_test: np.ndarray


@pytest.fixture(scope="module")
def digits():
    """The digits 0 to 3, 500 for training."""
    X, y = load_digits(n_class=4, return_X_y=True)
    labels = np.full(500, -1)
    for k in range(4):
        labels[np.flatnonzero(y == k)[:3]] = k
    return Digits(X[:500], labels, X[500:], y[500:])


def test_units_carry_one_label_per_class_to_all_points(digits) -> None:
    data = digits
    labels = np.full(500, -1)
    for k in range(4):
        labels[np.flatnonzero(digits.labels == k)[0]] = k
    settings = {"n_subclasses": 60, "committee": 3, "normalization": 300.0, "greedy": True, "max_iter": 20}
    plain = make_model(**settings, network="ff").fit(data.X_train, labels)
    spread = make_model(**settings, network="ff", spread="units").fit(data.X_train, labels)
    np.testing.assert_array_equal(plain.W_, spread.W_)  # the first layer has not heard of it
    assert spread.n_iter_ == plain.n_iter_ // 2 + 1
    assert spread.spread_["over"] == "units"
    assert plain.score(data.X_test, data.y_test) < 0.75  # with so few labels, units that met none know nothing
    assert spread.score(data.X_test, data.y_test) > 0.9


def test_of_several_starts_that_spread_the_least_energy_is_kept(digits) -> None:
    settings = {"n_subclasses": 40, "normalization": 300.0, "network": "ff", "greedy": True}
    settings |= {"spread": "units", "max_iter": 5}
    several = make_model(**settings, n_init=3, random_state=np.random.default_rng(5)).fit(digits.X_train, digits.labels)
    starts = [np.random.default_rng(5), *np.random.default_rng(5).spawn(2)]
    each = [make_model(**settings, random_state=rng).fit(digits.X_train, digits.labels) for rng in starts]
    energies = [model.spread_["energy"] for model in each]
    assert several.spread_["energy"] == min(energies) < max(energies)
    np.testing.assert_array_equal(several.W_, each[int(np.argmin(energies))].W_)


def test_doubt_is_for_parts_that_are_unsure_and_labels_that_contradict_them(blobs) -> None:
    graph, classes = blobs
    spreading = Spreading(graph, np.full(3, 1 / 3), 5, np.random.default_rng(0))
    right = labels_of(classes, *range(0, 180, 15))
    wrong = np.where(right >= 0, (right + np.arange(180) // 15 % 2) % 3, -1)
    assert spreading.spread(right).doubt < 0.3
    assert spreading.spread(wrong).doubt > spreading.spread(right).doubt + 0.2
    assert spreading.spread(right).account("units")["doubt"] == spreading.spread(right).doubt


def test_a_recurrent_network_learns_on(digits) -> None:
    data, labels = digits, digits.labels
    trainer = make_trainer(
        data.X_train, labels, K=4, network="r+", C=40, A=300.0, greedy=True, spread="units", iterations=10
    )
    names = [info.phase for info in trainer]
    assert names == ["first"] * 10 + ["spread"] + ["both"] * 10
    about = trainer.account()["spread"]
    assert about["over"] == "units"
    assert about["way"] in WAYS
    assert trainer.trained().percent_error(data.X_test, data.y_test) < 25


def test_an_interrupted_training_continues_bit_for_bit(digits) -> None:
    data, labels = digits, digits.labels

    def fresh():
        return make_trainer(
            data.X_train, labels, K=4, network="r+", C=40, A=300.0, greedy=True, spread="units", iterations=2
        )

    whole = fresh()
    for stop in (1, 2, 3):
        begun = fresh()
        for _ in range(stop):
            begun.run_iteration()
        resumed = fresh()
        resumed.restore(begun.state())
        for _ in resumed:
            pass
        for _ in whole:
            pass
        np.testing.assert_array_equal(whole.R, resumed.R)
        assert whole.account() == resumed.account()


@pytest.mark.parametrize("C", [4, 12])
def test_points_carry_labels_to_the_start(digits, C) -> None:
    data, labels = digits, digits.labels
    trainer = make_trainer(
        data.X_train, labels, K=4, network="r", C=C, A=300.0, spread="points", training="em", iterations=3
    )
    about = trainer.account()["spread"]
    assert about["over"] == "points"
    assert about["likelihoods"][about["way"]] == max(about["likelihoods"].values())
    for _ in trainer:
        pass
    assert trainer.trained().percent_error(data.X_test, data.y_test) < 30


def test_auto_takes_units_where_there_are_many(digits) -> None:
    data, labels = digits, digits.labels
    ways = {}
    for C in (8, 400):
        trainer = make_trainer(
            data.X_train, labels, K=4, network="ff", C=C, A=300.0, greedy=True, spread="auto", iterations=2
        )
        for _ in trainer:
            pass
        ways[C] = trainer.account()["spread"]["over"]
    assert ways == {8: "points", 400: "units"}


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"spread": "units"}, "needs a first layer that is trained first"),
        ({"spread": "points", "n_subclasses": 3}, "must be at least 4"),
        ({"spread": "points", "label_noise": 0.1}, "for labels that name a class for certain"),
        ({"spread": "everywhere"}, "spread"),
    ],
)
def test_what_cannot_be_spread_is_refused(digits, settings, sentence) -> None:
    data, labels = digits, digits.labels
    with pytest.raises(NesiError, match=sentence):
        make_model(normalization=300.0, **settings).fit(data.X_train, labels)


def test_labels_that_fit_no_group_are_warned_about(digits) -> None:
    labels = np.full(500, -1)
    labels[:80] = np.random.default_rng(9).integers(4, size=80)
    with pytest.warns(ConvergenceWarning, match="Of the labels that were hidden"):
        model = make_model(n_subclasses=40, normalization=300.0, greedy=True, spread="units", max_iter=5).fit(
            digits.X_train, labels
        )
    assert max(model.spread_["found_again"].values()) < 0.6
