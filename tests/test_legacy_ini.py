"""The syntax of the authors' files, and malformed ones: one sentence, and nothing of it is ever executed."""

from __future__ import annotations

import builtins
import os
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from legacy_table import row_named, write_row

from nesi.cli import main
from nesi.errors import NesiError
from nesi.legacy.ini import LARGEST_FILE, parse_ini

ROW = row_named("MNIST/r+-NeSi-test")


def test_sections_comments_and_literals() -> None:
    text = """
# a comment
number = 3     # and another
\ttext = 'with # inside'
pair = 'factor', 0.2
names = ['a', 'b']
nothing = None
[Outer]
  yes = True
    [[Inner]]
\t\tsmall = 1e-3
"""
    assert parse_ini(text, "here") == {
        "number": 3,
        "text": "with # inside",
        "pair": ("factor", 0.2),
        "names": ("a", "b"),
        "nothing": None,
        "Outer": {"yes": True, "Inner": {"small": 0.001}},
    }


@pytest.mark.parametrize(
    "value",
    [
        "__import__('os').system('touch executed')",
        "open('executed', 'w')",
        "[x for x in (1, 2)]",
        "(lambda: 1)()",
        "Runs",
        "1 + ",
        "9 ** 9 ** 9",
        "'a' * 10 ** 10",
        "{'a': 1}",
        "{1, 2}",
        "b'bytes'",
        "3j",
        "f'{1}'",
        "('a', ('b', 'c'))",
        "(" * 500 + ")" * 500,
        "-" * 5000 + "1",
        "1" * 9000,
        "'unfinished",
        "'''never ended",
        "",
        "%(Runs)s",
        "1e999",
    ],
)
def test_a_value_that_is_no_plain_literal_is_refused(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_row(tmp_path, ROW, Runs=value)
    monkeypatch.chdir(tmp_path)
    with no_evaluation(monkeypatch, tmp_path):
        capsys.readouterr()
        assert main(["convert-legacy", str(path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1
    assert len(printed.err) < 800
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Runs = 1\nRuns = 2", "Duplicate keyword"),
        ("[A]\n[A]", "Duplicate section"),
        ("[[[Deep]]]", "too nested"),
        ("[A", "neither section nor keyword"),
        ("just words", "Invalid line"),
        ("a" * 20000, "longer than"),
        ("a = 'x\0y'", "null byte"),
        ("a = {1, 2}", "a is a set; a number or a text was expected"),
        ("a = ('b', ('c', 'd'))", "a holds a nested value"),
    ],
)
def test_broken_files_are_named_with_the_reason(text: str, words: str) -> None:
    with pytest.raises(NesiError, match=words) as refusal:
        parse_ini(text, "broken.ini")
    assert str(refusal.value).startswith("broken.ini: ")


def test_files_that_are_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "main.ini"
    for content, words in ((b"\xff\xfe\x00", "not a text file"), (b"#" * (LARGEST_FILE + 1), "larger than")):
        path.write_bytes(content)
        assert main(["convert-legacy", str(path)]) == 2
        assert words in capsys.readouterr().err
    assert main(["convert-legacy", str(tmp_path)]) == 2
    assert "no such configuration" in capsys.readouterr().err
    assert main(["convert-legacy", "nul\0byte"]) == 2


class no_evaluation:
    """While it lasts, code from a file could neither be executed nor compiled into more than a syntax tree."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self._monkeypatch, self._folder = monkeypatch, folder

    def __enter__(self) -> None:
        compile_code = builtins.compile

        def compile_to_tree(source, filename, mode, flags=0, *others, **named):
            assert flags & 0x400, "something was compiled to be executed"  # ast.PyCF_ONLY_AST
            return compile_code(source, filename, mode, flags, *others, **named)

        def refuse(*arguments: object, **named: object) -> None:
            raise AssertionError("something was executed")

        valid = write_row(self._folder / "valid", ROW)
        assert main(["convert-legacy", str(valid)]) == 0  # whatever is imported on the way is imported before
        self._inner = self._monkeypatch.context()
        patch = self._inner.__enter__()
        patch.setattr(builtins, "compile", compile_to_tree)
        for place, name in ((builtins, "eval"), (builtins, "exec"), (os, "system")):
            patch.setattr(place, name, refuse)

    def __exit__(self, *reason: object) -> None:
        self._inner.__exit__(None, None, None)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=300))
@example("[[x]]\n[y]\nz = (((")
@example("'''\n")
@example('a = """\nb')
def test_any_text_is_read_or_refused(text: str) -> None:
    sentence = ""
    try:
        parse_ini(text, "any")
    except NesiError as error:
        sentence = str(error)
    assert sentence == "" or sentence.startswith("any: ")
    assert "\n" not in sentence


def test_damaged_configurations_are_converted_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bytes of all four files are changed, lost and doubled at random: 400 times one sentence, or a parameter file."""
    rng = random.Random(5)
    path = write_row(tmp_path, ROW)
    files = [path, *path.parent.glob("*/*.ini")]
    contents = {file: file.read_bytes() for file in files}
    pieces = [
        b"'",
        b"[",
        b"]",
        b"=",
        b"\n",
        b",",
        b"(",
        b"None",
        b"-1",
        b"1e9",
        b"'list'",
        b"\xc3",
        b"__import__('os')",
    ]
    refused = 0
    with no_evaluation(monkeypatch, tmp_path):
        capsys.readouterr()
        for _ in range(400):
            for file in files:
                content = bytearray(contents[file])
                for _ in range(rng.randrange(3)):
                    place = rng.randrange(len(content))
                    content[place : place + rng.randrange(4)] = rng.choice(pieces)
                file.write_bytes(content)
            code = main(["convert-legacy", str(path)])
            printed = capsys.readouterr()
            errors = [line for line in printed.err.splitlines() if not line.startswith("warning: ")]
            if code == 0:
                assert errors == []
                assert "networks:" in printed.out
            else:
                assert code == 2
                refused += 1
                assert printed.out == ""
                assert len(errors) == 1
                assert errors[0].startswith("error: ")
    assert 100 < refused < 400
