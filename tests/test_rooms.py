"""Which room may use which, and what an ordinary call imports."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = (
    "config",
    "engines",
    "estimator",
    "experiment",
    "fields",
    "labeling",
    "legacy",
    "report",
    "spreading",
    "storage",
    "training",
)
# A room -> the rooms that it must never use, not even inside a function.
NEVER = {
    "config": set(ROOMS) - {"config"},
    "engines": set(ROOMS) - {"engines", "config"},
    "storage": set(ROOMS) - {"storage", "config"},
    "spreading": set(ROOMS) - {"spreading", "engines"},
    "training": {"estimator", "experiment", "report", "labeling", "storage", "fields"},
    "fields": {"estimator", "experiment", "report", "labeling", "legacy", "storage"},
    "report": {"training", "engines", "estimator", "experiment", "labeling", "legacy"},
    "experiment": {"estimator", "labeling"},
    "legacy": {"estimator", "labeling", "report"},
    "labeling": {"estimator"},
    "estimator": {"labeling", "legacy", "report"},
}


def imports(path: Path, inside_functions: bool) -> set[str]:
    """Modules of nesi that the file imports; those for type checkers alone do not count."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found: set[str] = set()

    def look(node: ast.AST) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if isinstance(node, ast.FunctionDef) and not inside_functions:
            return
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("nesi"):
            found.update({node.module, *(f"{node.module}.{name.name}" for name in node.names)})
        if isinstance(node, ast.Import):
            found.update(name.name for name in node.names if name.name.startswith("nesi"))
        for child in ast.iter_child_nodes(node):
            look(child)

    look(tree)
    return found


def rooms_used(path: Path, inside_functions: bool = True) -> set[str]:
    return {name.split(".")[1] for name in imports(path, inside_functions) if name.count(".")} & set(ROOMS)


@pytest.mark.parametrize("room", NEVER)
def test_no_import_goes_against_the_rules(room: str) -> None:
    for path in sorted((ROOT / "nesi" / room).rglob("*.py")):
        assert not rooms_used(path) & NEVER[room], path


def test_legacy_is_imported_only_where_it_is_asked_for() -> None:
    for path in sorted((ROOT / "nesi").rglob("*.py")):
        if "legacy" not in path.parts[-2:-1]:
            assert "legacy" not in rooms_used(path, inside_functions=False), path


def test_the_top_of_the_house_is_small() -> None:
    assert len(list((ROOT / "nesi").glob("*.py"))) <= 20


def test_every_package_is_in_the_wheel() -> None:
    import configparser

    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    listed = set(parser["options"]["packages"].split())
    found = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "nesi").rglob("__init__.py")}
    assert listed == found | {"data_tools", "nesi.params", "nesi.labeling.page"}


@pytest.mark.parametrize(
    ("statement", "without"),
    [
        ("import nesi.config, nesi.cli", ("pytensor", "numba", "matplotlib", "sklearn", "nesi.legacy", "distributed")),
        ("import nesi.experiment.running", ("nesi.legacy", "nesi.labeling", "distributed", "jax")),
        ("import nesi.report.page", ("pytensor", "numba", "nesi.training", "nesi.legacy")),
    ],
)
def test_slow_and_foreign_rooms_are_not_loaded(statement: str, without: tuple[str, ...]) -> None:
    script = f"{statement}\nimport sys\nprint(*[name for name in {without!r} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert answer.stdout.strip() == ""


def test_no_test_imports_from_another_test() -> None:
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert not [line for line in lines if line.lstrip().startswith(("from test_", "import test_"))], path
