"""The documents are complete: every error section names a fix, every decision has its number."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
DECISIONS = sorted((DOCS / "decisions").glob("[0-9]*.md"))
PARTS = ("Context", "Options", "Choice", "Consequences")


def test_error_sections_name_a_fix() -> None:
    text = (DOCS / "errors.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]

    assert [part.split("\n", 1)[0] for part in sections if "**Fix.**" not in part] == []


def test_decisions_are_numbered_once() -> None:
    page = (DOCS / "decisions" / "superseded.md").read_text(encoding="utf-8")
    superseded = re.findall(r"^\| (\d{4}) ", page, re.MULTILINE)
    numbers = [*superseded, *(path.name[:4] for path in DECISIONS)]

    assert [number for number, times in Counter(numbers).items() if times > 1] == []
    assert "0000" in numbers


def test_index_of_decisions_lists_every_record_once() -> None:
    index = (DOCS / "decisions" / "index.md").read_text(encoding="utf-8")
    listed = re.findall(r"\]\((\d{4}-[a-z0-9-]+\.md)\)", index)

    assert sorted(listed) == [path.name for path in DECISIONS]


def test_decisions_are_well_formed() -> None:
    for path in DECISIONS:
        text = path.read_text(encoding="utf-8")

        assert re.fullmatch(r"\d{4}-[a-z0-9]+(-[a-z0-9]+)*\.md", path.name), path.name
        assert text.startswith(f"# {path.name[:4]}. "), f"{path.name}: the first line is '# NNNN. Title'"
        assert re.search(r"^Status: (proposed|accepted|superseded in part by \d{4})", text, re.MULTILINE), path.name
        assert re.search(r"^Date: \d{4}-\d{2}-\d{2}$", text, re.MULTILINE), path.name
        assert re.findall(r"^## (.+)$", text, re.MULTILINE)[: len(PARTS)] == list(PARTS), path.name


def test_changelog_has_the_version_or_an_unreleased_section() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")

    assert "## [Unreleased]" in text or f"## [{version}]" in text
