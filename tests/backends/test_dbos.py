"""Specific behaviour of DBOS as a host: what it stores, what it limits, and which processes it considers dead."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.patience import eventually
from tests.stores import postgres_server, postgres_support
from tests.workers.graphs import State, asking, loop

from graphrt import Runtime
from graphrt.backends._liveness import Liveness, with_timeouts
from graphrt.errors import InputError

pytestmark = [pytest.mark.slow, pytest.mark.needs("psycopg", "dbos")]


@pytest.fixture
def store(request: pytest.FixtureRequest) -> Iterator[str]:
    yield from postgres_support.fresh(request.config)


@pytest.fixture
def system(request: pytest.FixtureRequest) -> str:
    return postgres_server.base_url(request.config)


@pytest.fixture
def host(store: str, system: str) -> Iterator[Callable[..., Any]]:
    from graphrt.backends.dbos import DbosHost

    made: list[Any] = []

    def make(*graphs: Any, **options: Any) -> Any:
        runtimes = [Runtime(graph, store=store) for graph in graphs]
        made.extend(runtimes)
        made.insert(0, DbosHost(*runtimes, system_database_url=system, **{"sweep_s": 0.2, **options}).start())
        return made[0]

    yield make
    for each in made:
        each.stop(grace_s=1.0) if isinstance(each, DbosHost) else each.close()


def rows(system: str, what: str, thread: str) -> list[tuple[Any, ...]]:
    """Columns of the messages for a thread, oldest first; inputs are in a separate table."""
    joined = "dbos.workflow_status JOIN dbos.workflow_input input USING (workflow_uuid)"
    return postgres_server.run(
        system, f"SELECT {what} FROM {joined} WHERE input.inputs LIKE '%{thread}%' ORDER BY created_at"
    )


def test_message_is_plain_json_of_a_constant_version(store: str, system: str, host: Any) -> None:
    runtime = Runtime(loop(), store=store)
    made = host(loop())
    thread = runtime.start({})
    made.drive(thread)
    runtime.wait(thread, timeout_s=30)

    (row,) = rows(system, "input.inputs, serialization, application_version, queue_name", thread)
    assert json.loads(row[0]) == {"positionalArgs": ["loop", thread], "namedArgs": {}}
    assert row[1:] == ("portable_json", "graphrt-1", "graphrt.loop")
    runtime.close()


def test_messages_for_a_waiting_thread_are_merged(store: str, system: str, host: Any) -> None:
    runtime = Runtime(loop(), store=store)
    made = host(loop(), drives=False)
    thread = runtime.start({})
    for _ in range(5):
        made.drive(thread)
    time.sleep(0.5)

    assert rows(system, "status", thread) == [("ENQUEUED",)]
    runtime.close()


def test_a_queue_of_one_drives_one_thread_at_a_time(store: str, host: Any) -> None:
    running, most = [0], [0]

    def count(state: State) -> dict[str, Any]:
        running[0] += 1
        most[0] = max(most[0], running[0])
        time.sleep(0.05)
        running[0] -= 1
        return {"n": state.n + 1}

    graph = loop("single").with_nodes({"count": count})
    runtime = Runtime(graph, store=store)
    host(graph, worker_concurrency=1, concurrency=1)
    threads = [runtime.start({"n": 3}) for _ in range(4)]
    for thread in threads:
        runtime.wait(thread, timeout_s=60)
    assert most[0] == 1
    runtime.close()


def test_node_that_sends_a_message_is_not_a_step_of_dbos(store: str, system: str, host: Any) -> None:
    other = Runtime(loop("other"), store=store)
    started: list[str] = []

    def count(state: State) -> dict[str, Any]:
        from dbos import DBOS

        assert DBOS.workflow_id is None
        started.append(other.start({}))
        made.drive(started[-1])
        return {"n": 5}

    graph = loop().with_nodes({"count": count})
    runtime = Runtime(graph, store=store)
    made = host(graph, loop("other"))
    thread = runtime.start({})
    made.drive(thread)
    runtime.wait(thread, timeout_s=30)
    other.wait(started[0], timeout_s=30)

    assert rows(system, "parent_workflow_id", started[0]) == [(None,)]
    for each in (runtime, other):
        each.close()


def test_delivered_messages_are_removed(store: str, system: str, host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from graphrt.backends import _dbos_records

    monkeypatch.setattr(_dbos_records, "TIDY_S", 0.2)
    runtime = Runtime(loop(), store=store)
    made = host(loop(), keep_s=0.1)
    thread = runtime.start({})
    made.drive(thread)
    runtime.wait(thread, timeout_s=30)
    eventually(lambda: rows(system, "status", thread) == [])
    runtime.close()


def test_undrivable_thread_gets_few_messages_and_is_logged_once(
    store: str, system: str, host: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def other(state: State) -> dict[str, Any]:
        return {}

    runtime = Runtime(loop().with_nodes({"count": other}), store=store)
    thread = runtime.start({})
    changed = asking()
    caplog.set_level(logging.WARNING, "graphrt.backends.dbos")
    from graphrt import END, GraphBuilder

    g = GraphBuilder(State, name="loop")
    g.add_node("unlike", other)
    g.set_entry("unlike")
    g.add_edge("unlike", END)
    made = host(g.compile(), changed)
    made.drive(thread)
    time.sleep(3.0)
    eventually(lambda: any(thread in record.getMessage() for record in caplog.records))

    assert runtime.state(thread).status == "running"
    assert 1 <= len(rows(system, "status", thread)) <= 6
    assert len([record for record in caplog.records if thread in record.getMessage()]) == 1
    runtime.close()


def test_dbos_instance_of_the_application_is_used_and_left_running(store: str, system: str) -> None:
    from dbos import DBOS

    from graphrt.backends.dbos import DbosHost

    DBOS(config={"name": "shop", "system_database_url": system, "application_version": "v7", "log_level": "WARNING"})
    try:
        runtime = Runtime(loop("shop"), store=store)
        with DbosHost(runtime, system_database_url=system, sweep_s=0.2) as made:
            thread = runtime.start({})
            made.drive(thread)
            assert runtime.wait(thread, timeout_s=30).state.log == list(range(5))
            assert rows(system, "application_version, serialization", thread) == [("v7", "portable_json")]
        assert DBOS.list_workflows(limit=1)
        runtime.close()
    finally:
        DBOS.destroy()


@pytest.mark.parametrize("url", ["postgresql://a@b/c", "postgresql://a@b/c?", "postgresql://a@/c?host=%2Ftmp%2Fpg-1"])
def test_vanished_server_is_noticed_unless_the_url_sets_a_timeout(url: str) -> None:
    from psycopg.conninfo import conninfo_to_dict

    given = conninfo_to_dict(url)
    assert conninfo_to_dict(with_timeouts(url)) == {
        **given,
        "keepalives_idle": "30",
        "keepalives_interval": "10",
        "keepalives_count": "3",
        "tcp_user_timeout": "60000",
    }
    own = f"{url}{'&' if '=' in url else '' if url.endswith('?') else '?'}tcp_user_timeout=5&keepalives_idle=7"
    assert conninfo_to_dict(with_timeouts(own))["tcp_user_timeout"] == "5"
    assert with_timeouts(with_timeouts(own)) == with_timeouts(own)


def test_process_without_a_session_or_heartbeat_is_dead(system: str) -> None:
    me, hung, gone = (Liveness(system, name, 3.0) for name in ("me", "hung", "gone"))
    for each in (me, hung, gone):
        each.beat()
    assert me.dead(["me", "hung", "gone", "never"]) == {"never"}
    gone.close()
    eventually(lambda: me.dead(["gone"]) == {"gone"})
    time.sleep(3.1)
    me.beat()
    assert me.dead(["me", "hung"]) == {"hung"}
    hung.beat()
    assert me.dead(["me", "hung"]) == set()
    for each in (me, hung):
        each.close()


def test_invalid_arguments_are_refused(store: str, system: str, host: Any) -> None:
    from graphrt.backends.dbos import DbosHost

    runtime, other = Runtime(loop(), store=store), Runtime(loop("other"), store=store)
    with pytest.raises(InputError) as error:
        DbosHost(runtime, system_database_url="sqlite:///dbos.db")
    assert error.value.code == "input"
    with pytest.raises(InputError) as error:
        DbosHost(runtime, system_database_url=system, worker_concurrency=0)
    assert error.value.code == "input"
    made = host(loop())
    with pytest.raises(InputError) as error:
        made.start()
    assert error.value.code == "worker-began"
    with pytest.raises(InputError) as error:
        made.drive(other.start({}))
    assert error.value.code == "unknown-graph"
    for each in (runtime, other):
        each.close()


def test_message_whose_claim_was_not_acknowledged_is_still_delivered(
    store: str, system: str, host: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server commits that this process takes the message, and dies before its reply."""
    from dbos._sys_db import SystemDatabase

    from graphrt.backends import _dbos_recovery

    monkeypatch.setattr(_dbos_recovery, "LOST_AFTER_S", 0.3)
    claim, lost = SystemDatabase.start_queued_workflows, []

    def claim_without_answer(self: Any, *args: Any, **options: Any) -> Any:
        claimed = claim(self, *args, **options)
        if claimed[0] and not lost:
            lost.append(claimed)
            raise ConnectionError("server closed the connection unexpectedly")
        return claimed

    monkeypatch.setattr(SystemDatabase, "start_queued_workflows", claim_without_answer)
    runtime = Runtime(loop(), store=store)
    made = host(loop())
    thread = runtime.start({})
    made.drive(thread)

    assert runtime.wait(thread, timeout_s=30).status == "completed"
    assert lost
    eventually(lambda: {status for (status,) in rows(system, "status", thread)} == {"SUCCESS"})
    runtime.close()
