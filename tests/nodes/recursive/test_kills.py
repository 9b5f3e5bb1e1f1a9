"""A process that reads a long book is killed in the middle, and the next one continues without repeating finished calls."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from pathlib import Path

import pytest
from tests.forked import Forked

from .reading_process import LIMITS
from .support import book

FULL = os.environ.get("GRAPHRT_FULL") == "1"
SIZE = 10_500_000 if FULL else 1_400_000
KILLS = (120, 300) if FULL else (30,)
"""Numbers of the requests at which the process is killed."""


@pytest.mark.slow
def test_killed_reading_continues_without_paying_twice(tmp_path: Path) -> None:
    codes: list[int] = []
    while not codes or codes[-1] == -signal.SIGKILL:
        process = Forked("tests.nodes.recursive.reading_process", str(tmp_path), SIZE, KILLS, env=os.environ)
        out, _ = process.communicate(timeout=240)
        codes.append(process.wait())

    assert codes == [-signal.SIGKILL] * len(KILLS) + [0], out
    assert out.strip() == book(SIZE).answer
    lines = (tmp_path / "requests").read_text().splitlines()
    requests = [json.loads(line) for line in lines]
    assert max(one["chars"] for one in requests if one["model"] == "reader") <= LIMITS.prompt_chars
    again = {line: number for line, number in Counter(lines).items() if number > 1}
    assert again, "calls were under way when the process was killed"
    assert all(number == 2 for number in again.values())
    assert len(again) <= LIMITS.concurrency * len(KILLS), "only calls that were under way are made again"
    for line in again:  # none that was answered long before the kill
        first = lines.index(line) + 1
        assert any(kill - 2 * LIMITS.concurrency < first <= kill for kill in KILLS)
    assert len(lines) > (400 if FULL else 50)
