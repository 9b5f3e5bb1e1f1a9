"""Stored form 1: every journal of the corpus is read, verified, executed again, and continued, with the expected
results.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.journal.corpus import read
from tests.journal.corpus.read import FILES, STORES
from tests.journal.corpus.scenarios import Scenario

from graphrt._journal.event_schema import BY_CODE

STORE_PARAMS = [
    pytest.param(kind, marks=pytest.mark.needs(*needs) if needs else ())
    for kind, needs in zip(STORES, [(), (), ("cryptography",), ("psycopg",), ()], strict=True)
]
IN_LOG_FILES_ONLY = 42
"""The code of `ThreadDeleted`."""


@cache
def expected() -> dict[str, Any]:
    written: dict[str, Any] = json.loads((FILES / "expected.json").read_text(encoding="utf-8"))
    return written


def as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


@pytest.mark.parametrize("kind", STORE_PARAMS)
def test_threads_of_the_corpus_have_their_expected_content(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Their states, histories, replays, and second executions; and then each continues as before."""

    def on(scenario: Scenario) -> Any:
        return lambda world, runtime, _: read.gone_on(scenario, world, runtime)

    with read.opened(kind, tmp_path, request.config) as store:
        assert store.verify().findings == ()
        if kind != "exported":  # an exported thread has its own data only
            assert as_json(read.around(store)) == expected()["beside threads"]
        for name, scenario in read.scenarios_of(kind).items():
            seen = read.each_thread(store, name, scenario, lambda _, runtime, thread: read.observed(runtime, thread))
            assert as_json(seen) == expected()["threads"][name], name

            first = scenario._replace(threads=scenario.threads[:1])
            if not (kind == "exported" and name in NEED_MORE):
                assert as_json(read.each_thread(store, name, first, on(scenario))) == expected()["going on"][name], name
        assert store.verify().ok


NEED_MORE = {"parent", "signals", "memory"}
"""Scenarios that depend on mail, child threads and the memory, which exported threads do not have."""


def test_corpus_has_every_event(tmp_path: Path) -> None:
    found: set[int] = set()
    with read.opened(STORES[0], tmp_path) as store:
        for thread in store.threads():
            found |= read.codes(store, thread)
    lines = [json.loads(line) for data in read.logs().values() for line in data.splitlines()]
    deleted = [entry[0] for line in lines if "lines" in line for entry in json.loads(line["lines"][0])[5]]

    assert found | ({IN_LOG_FILES_ONLY} & set(deleted)) == set(BY_CODE)


def test_first_file_is_in_write_ahead_mode_and_the_second_one_is_not(tmp_path: Path) -> None:
    """Bytes 18 and 19 of a SQLite file encode it: 2 is a write-ahead log."""
    modes = [read.unpacked(f"{kind}.db", tmp_path).read_bytes()[18:20] for kind in STORES[:2]]

    assert modes == [b"\x02\x02", b"\x01\x01"]


def test_logs_of_the_corpus_are_verified_offline(tmp_path: Path) -> None:
    assert read.verdicts(tmp_path) == expected()["logs"]
