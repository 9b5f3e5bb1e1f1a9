"""The site of `make docs`: Sphinx, with the pages of this folder as they are (decision 0295).

`index.md` is the one list of pages. Its headings and links are the navigation of the site and the sections of `llms.txt`,
so that a page that the index lists needs no other entry.
"""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

DOCS = Path(__file__).parent
PROJECT = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = PROJECT["name"]
release = version = PROJECT["version"]
copyright = "the graphrt authors, Apache-2.0"  # noqa: A001 - the name that Sphinx reads
html_title = f"{project} {version}"
html_theme = "furo"
html_copy_source = False
html_show_sphinx = False
html_scaled_image_link = False
html_search_scorer = str(DOCS / "search_scorer.js")
extensions = ["myst_parser"]
myst_heading_anchors = 4
suppress_warnings = ["misc.highlighting_failure"]  # `#>` lines and parts of programs are no syntax of their language

LINK = re.compile(r"\[([^\]]+)\]\(([\w/.-]+\.md)\)")
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
OUTWARD = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+[^)#\s]+)(?:#[^)\s]+)?\)")
"""A link to another folder: of the documentation, or of the repository around it, which the site does not have."""


def sections(index: str) -> dict[str, list[tuple[str, str, str]]]:
    """The pages of an index, by its headings and in its order: title, path and the rest of the line, each page once."""
    seen: set[str] = set()
    found: dict[str, list[tuple[str, str, str]]] = {}
    _, *parts = SECTION.split(index)
    for heading, text in zip(parts[::2], parts[1::2], strict=True):
        pages = found.setdefault(heading, [])
        for line in text.splitlines():
            about = re.sub(r"^[:.,\s]+|\s*\|?\s*$", "", LINK.split(line)[-1])
            for title, path in LINK.findall(line):
                if path not in seen:
                    seen.add(path)
                    pages.append((title, path, about))
    return found


def prepare_page(_app: Sphinx, page: str, source: list[str]) -> None:
    """Give the index its table of contents, and leave out of each page what only a checkout has.

    Decision records are for developers: their index leads to them, and neither the navigation nor the search does.
    """
    if page == "index":
        for heading, pages in sections(source[0]).items():
            paths = "\n".join(path for _, path, _ in pages)
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {heading}\n\n{paths}\n```\n" if paths else ""
    folder = (DOCS / page).parent
    source[0] = OUTWARD.sub(
        lambda link: link[0] if (folder / link[2]).resolve().is_relative_to(DOCS) else link[1], source[0]
    )
    if page.startswith("decisions/"):
        orphan = "orphan: true\n" if page != "decisions/index" else ""
        source[0] = f"---\nnosearch: true\n{orphan}---\n{source[0]}"


def write_texts(app: Sphinx, error: Exception | None) -> None:
    """Write each page as Markdown beside its HTML, `llms.txt` with links to these files, and all of them in one file."""
    if error is not None or app.builder.name != "html":
        return
    site = Path(app.outdir)
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    summary = index.split("\n\n")[1].replace("\n", " ")
    short = [f"# {project}\n\n> {summary}\n"]
    whole = [index]
    for heading, pages in sections(index).items():
        short.append(f"## {heading}\n")
        short.extend(f"- [{title}]({path}){f': {about}' if about else ''}" for title, path, about in pages)
        short.append("")
        whole.extend((DOCS / path).read_text(encoding="utf-8") for _, path, _ in pages if "decisions/" not in path)
    for path in DOCS.rglob("*.md"):
        copy = site / path.relative_to(DOCS)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    (site / "llms.txt").write_text("\n".join(short), encoding="utf-8")
    (site / "llms-full.txt").write_text("\n\n".join(whole), encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Connect the two functions above; Sphinx calls this."""
    app.connect("source-read", prepare_page)
    app.connect("build-finished", write_texts)
