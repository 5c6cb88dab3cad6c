"""Files of the repository that the pages link to are part of the site: no link leads to where a reader can't follow.

A link such as `../examples/images.py` leads to a page with that file, `../results/mnist` to the list of its files. The
changelog is taken from the top of the repository. MkDocs reports a link to a file that does not exist, and fails with
--strict.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|#|mailto:)([^()\s#]+)(#[^()\s]*)?\)")
LANGUAGES = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml", ".json": "json", ".sh": "bash"}
PICTURES = (".png", ".svg")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the changelog, and every file outside docs/ that a page links to (and those that these link to)."""
    files.append(File.generated(config, "changelog.md", content=(ROOT / "CHANGELOG.md").read_text(encoding="utf-8")))
    waiting = [(Path(config.docs_dir) / file.src_uri) for file in files.documentation_pages() if file.abs_src_path]
    seen: set[Path] = set()
    while waiting:
        page = waiting.pop()
        for _, _, target, _ in LINK.findall(_without_code(page.read_text(encoding="utf-8"))):
            path = _outside(page.parent, target)
            if path is None or path in seen or not path.exists():
                continue
            seen.add(path)
            place = _place(path)
            if place in files.src_uris:
                continue
            if path.suffix in PICTURES:
                files.append(File.generated(config, place, abs_src_path=str(path)))
            else:
                files.append(File.generated(config, place, content=_content(path)))
                if path.suffix == ".md":
                    waiting.append(path)
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Links that leave docs/ lead to the pages made above."""
    source = _source_of(page.file.src_uri)

    def within_site(match: re.Match[str]) -> str:
        path = _outside(source.parent, match[3])
        inside = (source.parent / match[3]).resolve()
        if path is None and page.file.src_uri.startswith("source/") and inside.is_relative_to(ROOT / "docs"):
            place = inside.relative_to(ROOT / "docs").as_posix()
        elif path is None or not path.exists():
            return match[0]
        else:
            place = _place(path)
        up = "../" * page.file.src_uri.count("/")
        return f"{match[1]}[{match[2]}]({up}{place}{match[4] or ''})"

    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else LINK.sub(within_site, part) for part in parts)


def _without_code(markdown: str) -> str:
    return re.sub(r"^```.*?^```$", "", markdown, flags=re.MULTILINE | re.DOTALL)


def _outside(folder: Path, target: str) -> Path | None:
    """The file of the repository, if it lies outside docs/."""
    path = (folder / target).resolve()
    return None if path.is_relative_to(ROOT / "docs") or not path.is_relative_to(ROOT) else path


def _source_of(uri: str) -> Path:
    """The file that a page of the site shows."""
    if uri == "changelog.md":
        return ROOT / "CHANGELOG.md"
    if uri.startswith("source/"):
        path = ROOT / uri.removeprefix("source/")
        return path if path.exists() else path.with_suffix("")
    return ROOT / "docs" / uri


def _place(path: Path) -> str:
    if path == ROOT / "CHANGELOG.md":
        return "changelog.md"
    if path == ROOT / "README.md":
        return "index.md"
    inside = path.relative_to(ROOT).as_posix()
    return f"source/{inside}" if path.suffix in (".md", *PICTURES) else f"source/{inside}.md"


def _content(path: Path) -> str:
    name = path.relative_to(ROOT).as_posix()
    if path.suffix == ".md":
        return path.read_text(encoding="utf-8")
    if path.is_dir():
        listed = "\n".join(f"- `{entry.name}{'/' if entry.is_dir() else ''}`" for entry in sorted(path.iterdir()))
        return f"# {name}/\n\n{listed}\n"
    return f"# {name}\n\n````{LANGUAGES.get(path.suffix, 'text')}\n{path.read_text(encoding='utf-8')}````\n"
