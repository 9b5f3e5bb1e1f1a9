"""Values are erased from the threads that graphrt 0.1 wrote, whose seals are of version 1."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

import pytest
from tests.audit import documented
from tests.audit.exporting import exported

from graphrt import START, GraphBuilder, Runtime
from graphrt.audit.offline import verify
from graphrt.stores import SqliteStore

from .test_threads import SQLITE, in_hand


class State(TypedDict, total=False):
    pass


def any_graph() -> Any:
    g: Any = GraphBuilder(State, name="another graph than those of the corpus")
    g.add_node("rest", lambda _: None).add_edge(START, "rest")
    return g.compile()


@pytest.mark.parametrize("flavour", ["chained", "plain"])
def test_values_of_old_threads_are_erased_and_their_logs_still_verify(
    tmp_path: Path, database: Callable[[str], Path], flavour: str
) -> None:
    path = tmp_path / "old.db"
    path.write_bytes(database(flavour).read_bytes())
    rng = random.Random(7)
    with SqliteStore(path) as store, Runtime(any_graph(), store=store) as runtime:
        threads = [head.thread for head in store.heads()]
        before = {thread: list(store.records(thread)) for thread in threads}
        report = runtime.erase(lambda *_: rng.random() < 0.3, force=True, reason="a request")

        assert report.threads
        assert report.records > 50
        assert [one.what for one in report.left if one.what != "outside"] == []
        assert store.verify().findings == ()
        for thread in threads:
            after = list(store.records(thread))
            assert len(after) == len(before[thread]) + (thread in report.threads)
            for old, new in zip(before[thread], after, strict=False):
                lines = list(zip(old.body.split(b"\n")[:-1], new.body.split(b"\n")[:-1], strict=True))
                assert all(two in (one, b'{"$t":"erased","v":null}') for one, two in lines)
            if flavour == "chained":
                data = b"".join(exported(store, thread))
                found = verify(data)
                assert found.exit_code in (0, 3), (thread, found)
                assert documented.agree(found, data, [], None)
        assert runtime.erase(lambda *_: False).lines == 0


def test_old_and_new_seals_of_one_thread_can_both_lose_lines(tmp_path: Path, database: Callable[[str], Path]) -> None:
    path = tmp_path / "old.db"
    path.write_bytes(database("chained").read_bytes())
    with SqliteStore(path) as store, Runtime(any_graph(), store=store) as runtime:
        thread = next(head.thread for head in store.heads() if head.status == "completed")
        for _ in range(2):
            runtime.erase(lambda _t, seq, field, _v: field is not None and seq < 3, threads=[thread])
        runtime.erase(lambda _t, _s, field, _v: field is not None, threads=[thread])
        seals = {one.seal[0] for one in store.records(thread)}

        assert 0x81 in seals
        assert seals <= {0x01, 0x81, 0x02}
        assert store.verify().findings == ()
        assert json.loads(b"".join(exported(store, thread)).splitlines()[0])["thread"] == thread


def test_old_thread_that_lost_values_can_be_read(opened: Any, case: Any) -> None:
    """Any third of its values, on its own graph: state, history, replay, the entries, and reasons of values."""
    rng = random.Random(case.name)
    with opened(SQLITE, case.name) as store:
        runtime = in_hand(case, store).runtime
        runtime.erase(lambda *_: rng.random() < 0.3, threads=[case.name], force=True)
        values = runtime.state(case.name).values

        assert runtime.replay(case.name).values == values
        assert runtime.history(case.name)[0].values == values
        head = store.head(case.name)
        assert len(list(runtime.entries(case.name))) == head.seq - head.first + 1
        assert store.verify().ok
        runtime.prune(case.name)
        assert runtime.state(case.name).values == values
