"""Links between documents lead to files and headings that exist, and every page is reached from the index."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")])
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")


def prose(path: Path) -> str:
    return re.sub(r"^( *)(`{3,}).*?^\1\2`*$", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


PROSE = {path: prose(path) for path in PAGES}


def anchors(path: Path) -> set[str]:
    """What GitHub makes of the headings: lower case, no punctuation, dashes for spaces."""
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


def test_every_page_is_reached_from_the_index() -> None:
    index = ROOT / "docs" / "index.md"
    linked = {(index.parent / page).resolve() for page, _ in LINK.findall(PROSE[index])}
    pages = {path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "decisions"}

    assert pages - linked - {index} == set()
