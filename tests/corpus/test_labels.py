"""Threads that 0.1 wrote are listed, labelled and asked about: after reindexing, or with their next commit."""

from __future__ import annotations

import gzip
import sqlite3

import pytest
from tests.stores import postgres_server
from tests.stores.postgres_support import sql

from graphrt.stores import ThreadFilter, open_store
from graphrt.stores.sqlite import _schema as schema

from . import dumps, telling
from .conftest import RELEASE
from .test_threads import SQLITE, in_hand


def test_a_file_of_0_1_is_brought_to_version_2(tmp_path):
    path = tmp_path / "runs.db"
    path.write_bytes(gzip.decompress((RELEASE / "plain.db.gz").read_bytes()))
    before = sqlite3.connect(path)
    assert before.execute("PRAGMA user_version").fetchone() == (1,)
    threads = before.execute("SELECT id, seq, status FROM thread WHERE seq > 0 ORDER BY no").fetchall()
    before.close()
    with open_store(f"sqlite:///{path}") as store:
        heads = store.find(ThreadFilter())

    assert [(head.thread, head.seq, head.status) for head in heads] == threads
    assert all((head.tenant, head.title, head.tags) == (None, None, frozenset()) for head in heads)
    after = sqlite3.connect(path)
    assert after.execute("PRAGMA user_version").fetchone() == (len(schema.MIGRATIONS),)
    after.close()


@pytest.mark.needs("psycopg")
@pytest.mark.slow
def test_a_schema_of_0_1_is_brought_to_the_newest_version(request):
    import psycopg

    from graphrt.stores.postgres import _schema

    url = postgres_server.fresh_url(request.config, pool_size="2")
    with psycopg.connect(postgres_server.base_url(request.config), autocommit=True) as connection:
        dumps.load(connection, postgres_server.plain(url)[1], RELEASE / "plain.dump.gz")
    assert sql(url, "SELECT version FROM {s}.schema_version") == [(1,)]
    with open_store(url) as store:
        assert len(store.find(ThreadFilter(status="interrupted"))) > 0

    assert sql(url, "SELECT version FROM {s}.schema_version") == [(len(_schema.MIGRATIONS),)]
    postgres_server.drop(url)


@pytest.mark.slow
def test_questions_are_listed_by_reindexing_and_taken_off_as_the_thread_goes_on(opened, case):
    way = next(iter(case.ways))
    with opened(SQLITE, case.name) as store:
        hand = in_hand(case, store)
        hand.thread, runtime = case.name, hand.runtime
        stands = telling.standing(runtime, case.name)
        stored = telling.stored(store, case.name)
        asked = {question.id: question for question in runtime.state(case.name).interrupts}
        assert [item for item in runtime.inbox(limit=None) if item.thread == case.name] == []
        runtime.reindex()
        items = [item for item in runtime.inbox(limit=None) if item.thread == case.name]

        assert {item.interrupt.id: item.interrupt for item in items} == asked
        assert all(item.asked_at <= store.head(case.name).updated_at for item in items)
        assert telling.standing(runtime, case.name) == stands
        assert telling.stored(store, case.name) == stored
        runtime.reindex()
        case.ways[way](hand)
        open_ = {question.id for question in runtime.state(case.name).interrupts}
        assert {item.interrupt.id for item in runtime.inbox(limit=None) if item.thread == case.name} == open_


@pytest.mark.slow
def test_a_thread_of_0_1_gets_labels(opened, expected, case):
    wanted = expected["threads"][case.name]
    with opened(SQLITE, case.name) as store:
        runtime = in_hand(case, store).runtime
        runtime.label(case.name, title="Of 0.1", add_tags={"old"})

        assert [one.thread for one in runtime.threads(tags={"old"}, title="of 0")] == [case.name]
        looked = runtime.state(case.name)
        assert telling.plain(looked.values) == wanted["values"]
        runtime.replay(case.name)
