"""Indexes of listings and the inbox, files and schemas of version 1, and stores without search methods."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest
from tests.stores.support import AT, claimed, entry, loosen
from tests.threads.support import ask, line, note

from graphrt import Runtime
from graphrt.errors import InputError, StoreError
from graphrt.stores import (
    Commit,
    EncryptedStore,
    Labels,
    MemoryStore,
    Question,
    QuestionFilter,
    StoreWrapper,
    ThreadFilter,
)
from graphrt.stores.sqlite import SqliteStore, _query

from . import postgres_server
from .postgres_support import sql

GRAPH = line(("a", note("a")), ("b", ask("ok?")))
WANTED = [
    (QuestionFilter(), None, "question_asked"),
    (QuestionFilter(kind="approval", node="n", graph="g"), None, "question_asked"),
    (QuestionFilter(tenant="acme"), None, "question_tenant"),
    (QuestionFilter(tenant="acme", tags=frozenset({"x"})), None, "question_tenant"),
    (QuestionFilter(tags=frozenset({"x"})), "x", "sqlite_autoindex_question_1"),
]


def tables(path):
    with closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT name FROM sqlite_master ORDER BY name").fetchall()


PAGE = {"asked_at": AT, "id": "t", "place": "", "most": 10}


def plan(store, statement, **page):
    values = statement.values | page
    found = store._file.connection().execute(f"EXPLAIN QUERY PLAN {statement.text}", values).fetchall()
    return [row[3] for row in found]


@pytest.mark.parametrize(("wanted", "rare", "index"), WANTED)
def test_page_of_the_inbox_is_read_from_an_index(tmp_path, wanted, rare, index):
    with SqliteStore(tmp_path / "runs.db") as store:
        first = "tenant" if wanted.tenant else "asked"
        statement = _query.SQL.inbox(wanted, rare=rare, index="" if rare else f"INDEXED BY question_{first}")
        steps = plan(store, statement, **PAGE)

    assert any(step.startswith("SEARCH q ") and index in step for step in steps)
    assert not any(step.startswith("SCAN ") and "page" not in step for step in steps)
    inner = steps[: steps.index("SCAN page")]
    assert (rare is not None) == any("ORDER BY" in step for step in inner)


@pytest.mark.parametrize(("graph", "sorts"), [("g", False), (None, True)])
def test_questions_of_a_kind_are_read_from_its_index(tmp_path, graph, sorts):
    """Those of a kind and a graph come in order; the few of a rare kind are sorted."""
    with SqliteStore(tmp_path / "runs.db") as store:
        wanted = QuestionFilter(kind="approval", graph=graph, node="n")
        steps = plan(store, _query.SQL.inbox(wanted, index="INDEXED BY question_kind"), **PAGE)

    assert any(step.startswith("SEARCH q ") and "question_kind (kind=?" in step for step in steps)
    assert sorts == any("ORDER BY" in step for step in steps[: steps.index("SCAN page")])


def test_index_of_kinds_is_used_where_it_matches_fewer_questions(tmp_path):
    with SqliteStore(tmp_path / "runs.db") as store:
        db = store._file.connection()
        db.execute(
            "INSERT INTO question WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 5000)"
            " SELECT i, NULL, 'p', CASE WHEN i % 1000 = 0 THEN 'rare' ELSE 'common' END, 'n', 'g', i, NULL, 0, x'00' FROM c"
        )

        def leads(**words):
            return _query._leads(db, QuestionFilter(**words))

        assert [leads(kind="rare"), leads(kind="unknown"), leads(kind="common", graph="g")] == [True] * 3
        assert [leads(kind="common"), leads(graph="g"), leads(kind="rare", tenant="acme")] == [False] * 3


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        (ThreadFilter(tenant="acme", status="failed"), "label_tenant"),
        (ThreadFilter(tags=frozenset({"x", "y"}), title="z"), "PRIMARY KEY (name=?"),
        (ThreadFilter(tags=frozenset({"x"}), tenant="acme"), "PRIMARY KEY (name=?"),
        (ThreadFilter(graph="g"), "INTEGER PRIMARY KEY (rowid"),
    ],
)
def test_a_page_of_threads_is_read_from_an_index(tmp_path, wanted, index, newest_first):
    with SqliteStore(tmp_path / "runs.db") as store:
        steps = plan(store, _query.SQL.find(replace(wanted, newest_first=newest_first)), after=5, most=10)

    assert index in steps[0]
    assert not any("ORDER BY" in step or step.startswith("SCAN") for step in steps)


@pytest.mark.needs("psycopg")
@pytest.mark.slow
def test_the_server_reads_pages_from_an_index(request):
    from graphrt.stores import PostgresStore
    from graphrt.stores.postgres._query import SQL

    url = postgres_server.fresh_url(request.config)
    with PostgresStore(url) as store:
        claimed(store)
        sql(
            url,
            "INSERT INTO {s}.question SELECT n, n, NULL, false, CASE WHEN n % 10 = 0 THEN 'acme' END, 'question',"
            " 'p', 'g', 'n', 'b' FROM generate_series(100, 20100) n",
        )
        sql(
            url,
            "INSERT INTO {s}.label SELECT n, 'tenant' || n % 400, NULL, NULL, '{x}' FROM generate_series(100, 20100) n",
        )
        sql(url, "INSERT INTO {s}.label SELECT n, NULL, NULL, NULL, '{rare}' FROM generate_series(30000, 30010) n")
        sql(
            url,
            "INSERT INTO {s}.thread (seq, first, epoch, token, generation, created_at, updated_at, lease_until, held_since,"
            " fence, id, status, graph, holder) SELECT 1, 1, 1, 1, 0, 0, 0, 'epoch', 'epoch', 0, 't' || n, 'completed', 'g',"
            " '' FROM generate_series(2, 40000) n",
        )
        sql(
            url,
            "INSERT INTO {s}.question SELECT n, n, NULL, false, NULL, 'approval', 'q', 'g', 'n', 'b'"
            " FROM generate_series(15000, 15010) n",
        )
        sql(url, "ANALYZE")

        def steps(statement, **page):
            with store._link.lend() as connection:
                text = b"EXPLAIN " + store._link.named(statement.text)
                rows = connection.execute(text, statement.values | page).fetchall()
            return "\n".join(row[0] for row in rows)

        def inbox(**wanted):
            return steps(SQL.inbox(QuestionFilter(**wanted)), asked_at=200.0, id="t", place=b"", most=10)

        def find(**wanted):
            return steps(SQL.find(ThreadFilter(**wanted)), after=0, most=10)

        assert "question_asked" in inbox()
        assert "question_asked" in inbox(kind="question")
        assert "question_kind" in inbox(kind="approval")
        assert "question_kind" in inbox(kind="question", graph="nothing")
        assert "question_tenant" in inbox(tenant="acme")
        assert "label_tags" in find(tags=frozenset({"rare"}))
        assert "label_tenant" in find(tenant="tenant7")
    postgres_server.drop(url)


# -- rows ------------------------------------------------------------------------------------------------------------


def test_plain_thread_has_only_its_own_row(tmp_path):
    path = tmp_path / "runs.db"
    with Runtime(line(("a", note("a"))), store=f"sqlite:///{path}") as runtime:
        runtime.run({}, thread="t")
    db = sqlite3.connect(path)
    assert [db.execute(f"SELECT count(*) FROM {table}").fetchone() for table in ("label", "tag", "question")] == [
        (0,)
    ] * 3
    db.close()


@pytest.mark.parametrize(
    ("column", "value"), [("tags", "no json"), ("tags", '{"a": 1}'), ("tags", "[1]"), ("tags", b"x"), ("title", 7.5)]
)
def test_damaged_label_is_named(tmp_path, column, value):
    path = tmp_path / "runs.db"
    with SqliteStore(path) as store:
        claim = store.claim("t", create=True, lease_s=60, at=AT)
        store.commit(claim, Commit(0, AT, [entry(1)], labels=Labels("A", frozenset({"x"})), release=True))
        loosen(path)
        with closing(sqlite3.connect(path)) as db, db:
            db.execute(f"UPDATE label SET {column} = ?", (value,))
        if isinstance(value, float):  # the affinity of the column makes it text
            assert store.head("t").title == "7.5"
            return
        with pytest.raises(StoreError) as caught:
            store.head("t")
        assert caught.value.code == "store-damaged"
        store.delete("t")
        assert store.query(ThreadFilter()) == store.query(ThreadFilter(tags=frozenset({"x"}))) == []


def test_damaged_question_is_named(tmp_path):
    path = tmp_path / "runs.db"
    with Runtime(GRAPH, store=f"sqlite:///{path}") as runtime:
        runtime.run({}, thread="t")
        loosen(path)
        with closing(sqlite3.connect(path)) as db, db:
            db.execute("UPDATE question SET body = 'text'")
        with pytest.raises(StoreError) as caught:
            runtime.inbox()
        assert (caught.value.code, caught.value.thread) == ("store-damaged", "t")


def test_unstorable_commit_is_refused_as_a_whole(tmp_path):
    question = Question("p", "question", "n", "g", AT, None, False, b"b")
    with SqliteStore(tmp_path / "runs.db") as store:
        claim = claimed(store)
        for words in (
            {"labels": Labels("\ud800")},
            {"labels": Labels("nul\0")},
            {"labels": Labels(None, frozenset({"\ud800"}))},
            {"questions": [question._replace(body={"an": "object"})]},
            {"questions": [question._replace(node="\ud800")]},
        ):
            with pytest.raises(InputError) as caught:
                store.commit(claim, Commit(1, AT, [entry(2)], **words))
            assert caught.value.code == "bad-commit"
        assert store.head("t").seq == 1


# -- third-party stores ------------------------------------------------------------------------------------------------


class Plain(StoreWrapper):
    """A store that has only the methods of the protocol."""

    def __init__(self, inner):
        super().__init__(inner)
        self.offers = frozenset()


@pytest.mark.parametrize("wrap", [False, True], ids=["alone", "in a tenant's store"])
def test_store_without_the_methods_keeps_threads_without_labels(wrap):
    from graphrt.stores import TenantStore

    store = Plain(MemoryStore())
    runtime = Runtime(GRAPH, store=TenantStore(store, "acme") if wrap else store)
    runtime.run({}, thread="t")
    runtime.copy_thread("t", "u")
    assert [one.thread for one in runtime.threads(status="interrupted", limit=5)] == ["t", "u"]
    assert runtime.fork("t", to="v") == "v"
    assert runtime.resume("t", answer="yes").status == "completed"

    for call in (
        lambda: runtime.run({}, thread="w", title="one"),
        lambda: runtime.label("u", title="one"),
        lambda: runtime.threads(tags={"x"}),
        lambda: runtime.threads(newest_first=True),
        runtime.inbox,
        runtime.reindex,
    ):
        with pytest.raises(InputError) as caught:
            call()
        assert caught.value.code == "store-lacks"
        assert "does not offer 'labels'" in caught.value.what
    assert [one.thread for one in runtime.threads()] == ["t", "u", "v"]


def test_encrypted_store_around_such_a_store_works_without_labels(tmp_path):
    with SqliteStore(tmp_path / "runs.db") as inner:
        plain = Plain(inner)
        runtime = Runtime(GRAPH, store=EncryptedStore(plain, {"k": bytes(range(32))}))
        runtime.run({}, thread="t")
        runtime.copy_thread("t", "u")
        with pytest.raises(InputError) as caught:
            runtime.run({}, thread="v", tags={"x"})
        assert caught.value.code == "store-lacks"
        assert runtime.resume("u", answer="yes").status == "completed"
