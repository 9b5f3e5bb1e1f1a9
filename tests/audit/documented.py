"""The verifier from the documentation of the portable form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from graphrt.audit.offline import Report

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "audit-log.md"
PROGRAM = PAGE.with_name("verify_audit_log.py")
EXIT_CODES = {"proved": 0, "changed": 1, "not checkable": 2, "not all proved": 3}


@cache
def source() -> str:
    return PROGRAM.read_text(encoding="utf-8")


@cache
def _verify() -> Callable[..., tuple[str, int | None]]:
    names: dict[str, Any] = {}
    exec(compile(source(), str(PROGRAM), "exec"), names)
    verify: Callable[..., tuple[str, int | None]] = names["verify"]
    return verify


def second_opinion(data: bytes, keys: Sequence[bytes], anchor: bytes | None) -> tuple[int, int | None]:
    """Exit code and first record in doubt, as the documented verifier reports them."""
    verdict, first = _verify()(data, keys, anchor or b"")
    return EXIT_CODES[verdict], first


def agree(report: Report, data: bytes, keys: Sequence[bytes], anchor: bytes | None) -> bool:
    return (report.exit_code, report.first_bad) == second_opinion(data, keys, anchor)
