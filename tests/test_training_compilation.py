"""Compiled once: per process for all sizes, per installation for all processes; and announced."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from small_networks import make_data, make_trainer

from nesi.engines import backend as backends
from nesi.engines import exact, truncated_graph
from nesi.engines.compiled_sources import remove_forgotten
from nesi.engines.specification import GraphSpec

PROCESS = """
import sys
import numpy as np
from nesi.engines import backend
backend._ANNOUNCE_AFTER_SECONDS = float(sys.argv[1])
from nesi import NeSiClassifier
rng = np.random.default_rng(0)
X, labels = rng.random((40, 6)), np.arange(40) % 2
model = NeSiClassifier(4, 30.0, network="ff", max_iter=2, random_state=0).fit(X, labels)
print(repr(float(model.W_.sum())))
"""


def test_a_second_fit_of_other_size_compiles_nothing(monkeypatch):
    X, labels = make_data()
    trainer = make_trainer(X, labels)
    trainer.run_iteration()
    trainer.trained().posterior(X)

    def refuse(*arguments, **options):
        raise AssertionError("compiled again")

    monkeypatch.setattr(backends.pytensor, "function", refuse)
    X, labels = make_data(N=81, D=7, K=5)
    trainer = make_trainer(X, labels, K=5, C=11)
    trainer.run_iteration()
    assert trainer.trained().posterior(X).shape == (81, 5)
    kernels_of_numba = exact._training_step(trainer._spec.graph, "WR")._function
    assert kernels_of_numba is not None


def test_sizes_are_not_part_of_the_compiled_machine_code():
    """A shared variable of fixed shape would make numba compile for every size."""
    for shared in exact._training_step(make_trainer(*make_data())._spec.graph, "WR")._state.values():
        assert shared.type.shape == (None,) * shared.type.ndim


def test_no_weights_stay_behind_in_the_shared_function():
    X, labels = make_data()
    trainer = make_trainer(X, labels)
    trainer.run_iteration()
    function = exact._training_step(trainer._spec.graph, "WR")
    assert [shared.container.storage[0] for shared in function._state.values()] == [None] * len(function._state)


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    """The same training in two processes, one after the other, with a cache that is empty at first."""
    folder = tmp_path_factory.mktemp("compiled")
    environment = os.environ | {"PYTENSOR_FLAGS": f"base_compiledir={folder}", "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("NUMBA_CACHE_DIR", None)
    environment["TMPDIR"] = str(tmp_path_factory.mktemp("temporary"))
    runs = []
    for patience in ("0.5", "60"):
        done = subprocess.run(
            [sys.executable, "-c", PROCESS, patience], env=environment, capture_output=True, text=True, check=True
        )
        files = {path: path.stat().st_mtime_ns for path in Path(folder).rglob("*.nb*")}
        assert not os.listdir(environment["TMPDIR"]), "PyTensor's sources are left behind"
        runs.append((done.stdout, done.stderr, files))
    return runs


def test_only_folders_of_processes_that_are_gone_are_removed(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for name in (f"nesi-sources-{ended.pid}-a", f"nesi-sources-{os.getpid()}-a", "nesi-sources-x", "tmp1"):
        (tmp_path / name).mkdir()
    remove_forgotten(tmp_path)
    left = {f"nesi-sources-{os.getpid()}-a", "nesi-sources-x", "tmp1"}
    assert {path.name for path in tmp_path.iterdir()} == left


def test_the_second_process_finds_all_machine_code_on_disk(two_processes):
    (_, _, first), (_, _, second) = two_processes
    assert any(path.suffix == ".nbc" for path in first), "nothing was kept on disk"
    assert second == first, "the second process compiled something again"


def test_a_graph_is_compiled_once_and_not_again_for_a_wrapper(two_processes):
    (_, _, files), _ = two_processes
    graphs = [path.name for path in files if path.suffix == ".nbc" and "numba_funcified_fgraph" in path.name]
    assert graphs
    assert all("_direct_" in name for name in graphs)


def test_machine_code_from_disk_computes_the_same(two_processes):
    (first, _, _), (second, _, _) = two_processes
    assert np.isfinite(float(first))
    assert second == first


def test_a_long_compilation_is_announced_in_one_line_each(two_processes):
    (_, cold, _), (_, warm, _) = two_processes
    assert [line for line in cold.splitlines() if line.startswith("nesi: compiling the training step")]
    assert all(line.startswith("nesi: compiling ") for line in cold.splitlines()), cold
    assert warm == ""


@pytest.mark.parametrize("sparse", [False, True])
def test_pytensor_has_nothing_to_complain_about_in_the_largest_graph(caplog, sparse):
    """Fusion of a loop that would read what another part of the graph has written over: "contains cycles"."""
    truncated_graph.training_step.__wrapped__(GraphSpec("sequential", "float32", "numba", sparse, soft=True), "WR", 3)
    assert not caplog.records
