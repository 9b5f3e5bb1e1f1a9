"""The verifier that the documentation contains, taken out of its page."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from graphrt.audit.offline import Report

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "audit-log.md"
EXIT_CODES = {"proved": 0, "changed": 1, "not checkable": 2, "not all proved": 3}


@cache
def source() -> str:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    [found] = [block for block in blocks if "\ndef verify(" in block]
    return found


@cache
def _verify() -> Callable[..., tuple[str, int | None]]:
    names: dict[str, Any] = {}
    exec(compile(source(), str(PAGE), "exec"), names)
    verify: Callable[..., tuple[str, int | None]] = names["verify"]
    return verify


def second_opinion(data: bytes, keys: Sequence[bytes], anchor: bytes | None) -> tuple[int, int | None]:
    """Exit code and first record in doubt, as the documented verifier finds them."""
    verdict, first = _verify()(data, keys, anchor or b"")
    return EXIT_CODES[verdict], first


def agree(report: Report, data: bytes, keys: Sequence[bytes], anchor: bytes | None) -> bool:
    return (report.exit_code, report.first_bad) == second_opinion(data, keys, anchor)
