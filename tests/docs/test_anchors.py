"""Links into a page lead to one of its headings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")])


def prose(path: Path) -> str:
    return re.sub(r"^( *)(`{3,}).*?^\1\2`*$", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def anchors(path: Path) -> set[str]:
    """What GitHub makes of the headings: lower case, no punctuation, dashes for spaces."""
    headings = re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_headings(path: Path) -> None:
    links = re.findall(r"\]\((?!https?:|mailto:)([^)#\s]*)#([^)\s]+)\)", prose(path))
    lost = [f"{page}#{anchor}" for page, anchor in links if anchor not in anchors(path.parent / page if page else path)]

    assert lost == []


@pytest.mark.parametrize("path", sorted((ROOT / "docs").rglob("*.md")), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_page_is_reached_from_the_index(path: Path) -> None:
    index = ROOT / "docs" / "index.md"
    linked = {(index.parent / page).resolve() for page in re.findall(r"\]\(([^)#\s]+\.md)", prose(index))}

    assert path == index or path.resolve() in linked or path.parent.name == "decisions"
