"""Fixtures for the tests of the networks: real data by NESI_DATA, the backends that are installed."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from command_line import finish, start, write_params
from small_networks import INSTALLED_BACKENDS
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from nesi.threads import limited_threads

_REAL_DATA = os.environ.get("NESI_DATA")  # before any test changes the environment

# Tests that compare the records of several processes bit for bit.
_COMPARE_PROCESSES = {
    "test_cluster",
    "test_experiment",
    "test_experiment_crashes",
    "test_first_layers",
    "test_side_by_side",
}
# Tests that kill processes, measure memory or drive a browser: they must not meet, in whatever process they run.
_ALONE = {"test_labeling_page", "test_report_page", "test_newsgroups"} | _COMPARE_PROCESSES


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name a case of bytes by its length: both processes must find the same names, and packed bytes hold the time."""
    return f"{len(val)} bytes" if isinstance(val, bytes) else None


def _group(path: str) -> str:
    """One process per file, so that what a module has trained is trained once, and one for all that must not meet."""
    stem = path.partition("::")[0].rpartition("/")[2].removesuffix(".py")
    return "alone" if stem in _ALONE else stem


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that compare processes come first: until then their own process has compiled nothing."""
    items.sort(key=lambda item: (item.path.stem not in _COMPARE_PROCESSES, _group(item.nodeid) != "alone"))


class _ByGroup(LoadScopeScheduling):
    """Groups in the order of collection, each in one process."""

    def _split_scope(self, nodeid: str) -> str:
        return _group(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    return _ByGroup(config, log)


@pytest.fixture(scope="session", params=INSTALLED_BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """Every backend that is installed, one after the other."""
    return request.param


@pytest.fixture(scope="session")
def compiled_before(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Compile in a process of its own: the process that compiles a graph rounds differently from those that load it."""
    folder = tmp_path_factory.mktemp("compiled")
    overrides = [{"networks": ["r"], "inference": "truncated"}, {"networks": ["ff"], "greedy": True}]
    once = {"iterations": 1, "runs": 1, "threads": 1, "networks": ["ff+", "r", "ff"], "overrides": overrides}
    code, _, errors = finish(start(write_params(folder / "p.yaml", **once), "--out", folder / "out"), timeout=600)
    assert code == 0, errors


@pytest.fixture(scope="module", autouse=True)
def _compiled_before_processes_are_compared(request: pytest.FixtureRequest) -> None:
    if request.path.stem in _COMPARE_PROCESSES:
        request.getfixturevalue("compiled_before")


@pytest.fixture
def real_data() -> Path:
    """The folder of the real data sets."""
    if not _REAL_DATA:
        pytest.skip("set NESI_DATA to the folder of the real data sets")
    return Path(_REAL_DATA)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With NESI_REQUIRE_DATA set, a test on real data that is skipped has failed."""
    report = yield
    if report.skipped and os.environ.get("NESI_REQUIRE_DATA") and item.get_closest_marker("real_data"):
        report.outcome = "failed"
        report.longrepr = f"skipped, although NESI_REQUIRE_DATA is set: {report.longrepr}"
    return report


@pytest.fixture
def one_thread() -> Iterator[None]:
    """For trainings of many small steps: threads cost more there than they give, above all on a busy machine."""
    with limited_threads(1):
        yield
