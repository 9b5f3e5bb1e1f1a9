"""Laws of the committed layer, for each protocol: it is a function of the journal, in any process and after any crash."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from graphrt import Runtime
from graphrt.events import Entry
from graphrt.stores import MemoryStore
from graphrt.testing.exploring._crash_store import CrashError, CrashStore

from .chats import ANSWERS, GIVEN, fold, opened, wired

STEP = 1 if os.environ.get("GRAPHRT_FULL") == "1" else 3
PROTOCOLS = pytest.mark.parametrize("protocol", ["ai-sdk", "ag-ui"])


def driven(shop: Runtime[Any, Any], *, first: Runtime[Any, Any] | None = None) -> list[Entry]:
    """Drive the thread to its end, with another runtime if *first* is given, and return its entries."""
    drives = first or shop
    result = drives.run(GIVEN, thread="t", if_exists="continue")
    while result.status == "interrupted":
        asked = shop.state("t").interrupts[0]
        result = drives.resume("t", answer=ANSWERS[asked.kind == "question"])
    return list(shop.entries("t"))


@PROTOCOLS
def test_wire_of_a_prefix_is_a_prefix_and_equals_the_rest_from_any_position(protocol: str) -> None:
    with opened() as shop:
        entries = driven(shop)
        whole = wired(fold(protocol, shop), entries)
        for at in range(len(entries) + 1):
            begun = wired(fold(protocol, shop), entries[:at])
            later = fold(protocol, shop)
            for entry in entries[:at]:
                later.known(entry)

            assert whole == begun + wired(later, entries[at:])


@pytest.mark.slow  # about 60 lives of the thread; the quick suite kills the simpler chat of test_ui_messages.py
def test_wire_is_the_same_after_a_kill_at_each_write() -> None:
    """The process dies before or after each write, or each third one; another process continues, and answers."""

    def wires(shop: Runtime[Any, Any], entries: list[Entry]) -> list[str]:
        return [wired(fold(protocol, shop), entries) for protocol in ("ai-sdk", "ag-ui")]

    with opened(MemoryStore()) as shop:
        twin = wires(shop, driven(shop))
    at, died = 1 - STEP, True
    while died:
        at += STEP
        store = MemoryStore()
        dying = CrashStore(store, at)
        with opened(store) as shop:
            try:
                driven(shop, first=opened(dying))
            except CrashError:
                dying.bury()
            died = bool(dying.died)
            before = wires(shop, list(shop.entries("t")) if list(store.threads()) else [])
            after = wires(shop, driven(shop))

        assert after == twin, dying.died
        assert [one.startswith(begun) for one, begun in zip(twin, before, strict=True)] == [True, True], dying.died
    assert at > 20


READER = """
import sys
from tests.wires.chats import fold, opened, wired

with opened(sys.argv[1]) as shop:
    for protocol in ("ai-sdk", "ag-ui"):
        sys.stdout.write(wired(fold(protocol, shop), shop.entries("t")))
"""


def test_wire_is_the_same_from_another_process(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    with opened(url) as shop:
        entries = driven(shop)
        own = "".join(wired(fold(protocol, shop), entries) for protocol in ("ai-sdk", "ag-ui"))

    root = Path(__file__).parents[2]
    other = subprocess.run([sys.executable, "-c", READER, url], cwd=root, capture_output=True, text=True, check=True)

    assert other.stdout == own
