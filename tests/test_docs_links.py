"""Links and code fences of documents are sound, pages are short, and every page is reached from the index."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")])
READMES = sorted(path for folder in ("src", "examples") for path in (ROOT / folder).rglob("README.md"))
FENCE = re.compile(r"^ *(`{3,})(.*)$")
MAX_WORDS = 1200
GENERATED = {"api.md", "command-line.md"}
LONG_REFERENCES = {"rules.md", "journal.md", "audit-log.md"}
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")


def prose(path: Path) -> str:
    return re.sub(r"^( *)(`{3,}).*?^\1\2`*$", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


PROSE = {path: prose(path) for path in PAGES}


def anchors(path: Path) -> set[str]:
    """The anchors that GitHub generates for the headings: lower case, no punctuation, dashes for spaces."""
    headings = re.findall(r"^#+ (.+)$", PROSE[path], re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_to_files_and_headings() -> None:
    known = {path: anchors(path) for path in PAGES}
    lost: list[str] = []
    for path in PAGES:
        for page, anchor in LINK.findall(PROSE[path]):
            target = (path.parent / page).resolve() if page else path
            if not target.exists() or (anchor and target in known and anchor not in known[target]):
                lost.append(f"{path.relative_to(ROOT)}: {page}#{anchor}")

    assert len(PAGES) > 100
    assert lost == []


def test_every_page_is_reachable_from_the_index() -> None:
    index = ROOT / "docs" / "index.md"
    linked = {(index.parent / page).resolve() for page, _ in LINK.findall(PROSE[index])}
    pages = {path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "decisions"}

    assert pages - linked - {index} == set()


def lost_fences(text: str) -> list[int]:
    """Lines at which a block opens without a language or inside another block, or the last line if a block is open."""
    open_ticks, lost = "", []
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        match = FENCE.match(line)
        if match is None or len(match[1]) < len(open_ticks):
            continue
        if bool(match[2]) == bool(open_ticks):
            lost.append(number)
        open_ticks = "" if open_ticks and not match[2] else match[1]
    return [*lost, len(lines)] if open_ticks else lost


def test_code_fences_are_balanced() -> None:
    lost = {
        str(path.relative_to(ROOT)): lines
        for path in [*PAGES, *READMES]
        if (lines := lost_fences(path.read_text(encoding="utf-8")))
    }

    assert len(READMES) > 20
    assert lost == {}


def test_lost_fences_are_found() -> None:
    block = "```python\nx = 1\n```\n"

    assert lost_fences(block + "````text\n" + block + "````\n") == []
    assert lost_fences(block.removesuffix("```\n") + block) == [3]
    assert lost_fences(block.removeprefix("```python\n") + block) != []
    assert lost_fences(block.removesuffix("```\n")) == [2]


def test_written_pages_are_short() -> None:
    """Generated pages and three complete references may be longer."""
    folders = ("how-to", "tutorials", "explanation", "reference")
    pages = [path for folder in folders for path in (ROOT / "docs" / folder).glob("*.md") if path.name not in GENERATED]
    words = {path.name: len(path.read_text(encoding="utf-8").split()) for path in pages}

    assert {name for name, count in words.items() if count > MAX_WORDS} == LONG_REFERENCES
