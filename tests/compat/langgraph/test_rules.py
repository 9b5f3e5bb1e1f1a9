"""The reference page has the rules of the checker, with their levels."""

from __future__ import annotations

import re
from pathlib import Path

from graphrt.compat.langgraph import RULES

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "langgraph-rules.md"


def test_the_reference_lists_every_rule_with_its_level() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (\w+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)

    assert dict(rows) == {code: rule.level for code, rule in RULES.items()}
