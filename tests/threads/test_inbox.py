"""The inbox: open questions over all threads, listed and taken off the list by the commits that ask and answer them."""

from __future__ import annotations

import asyncio
from datetime import date

import pytest
from pydantic import BaseModel

from graphrt import Runtime
from graphrt.errors import InputError
from graphrt.stores import MemoryStore, TenantStore, open_store
from graphrt.stores._label_rows import from_token, to_token

from .support import Fails, ask, fan, line, note

GRAPH = line(("a", note("a")), ("b", ask("ok?")), ("c", note("c")))


def listed(runtime, **filters):
    """The items of the inbox, after comparing them with the threads themselves."""
    items = runtime.inbox(limit=None)
    told = {(item.thread, item.interrupt.id): item.interrupt for item in items}
    found = {
        (one.thread, question.id): question
        for one in runtime.threads()
        for question in runtime.state(one.thread).interrupts
    }
    assert told == found
    assert runtime.reindex() == 0
    return [item.interrupt.id for item in runtime.inbox(**filters)]


def test_item_has_the_question_and_its_thread(world):
    runtime = world.runtime(GRAPH)
    result = runtime.run({}, thread="t", title="One", tags={"x"})

    (item,) = runtime.inbox()
    assert (item.thread, item.title, item.tags, item.tenant) == ("t", "One", {"x"}, None)
    assert (item.graph, item.status, item.expires_at) == ("g", "interrupted", None)
    assert item.interrupt == result.interrupts[0]
    assert item.asked_at == runtime.state("t").at
    assert asyncio.run(runtime.ainbox(limit=1))[0].token == item.token


def test_answer_removes_the_question(world):
    runtime = world.runtime(GRAPH)
    runtime.run({}, thread="t")
    assert listed(runtime) == ["t/2.0:b#0"]
    runtime.resume("t", answer="yes")

    assert listed(runtime) == []


def test_answered_question_leaves_the_other_one_with_its_time(world):
    runtime = world.runtime(fan(("a", ask("a")), ("b", ask("b"))))
    runtime.run({}, thread="t")
    assert listed(runtime) == ["t/2.0:a#0", "t/2.1:b#0"]
    before = runtime.inbox()[1].asked_at
    runtime.resume("t", {"t/2.0:a#0": "yes"})

    assert listed(runtime) == ["t/2.1:b#0"]
    assert runtime.inbox()[0].asked_at == before
    assert runtime.state("t").at > before


def test_cancelling_and_abandoning_remove_questions(world):
    runtime = world.runtime(GRAPH)
    for thread in ("cancelled", "abandoned", "kept"):
        runtime.run({}, thread=thread)
    runtime.cancel("cancelled")
    runtime.run({}, thread="abandoned", if_exists="abandon")

    assert listed(runtime) == ["kept/2.0:b#0", "abandoned/4.0:b#0"]
    runtime.retry("cancelled")
    assert listed(runtime)[-1] == "cancelled/2.0:b#0:2"  # asked again


def test_an_edit_makes_a_question_stale(world):
    runtime = world.runtime(GRAPH)
    runtime.run({}, thread="t")
    runtime.update("t", {"n": 5})

    listed(runtime)
    assert runtime.inbox()[0].interrupt.stale
    runtime.retry("t")
    assert not runtime.inbox()[0].interrupt.stale


def test_edit_as_the_node_removes_its_question(world):
    runtime = world.runtime(GRAPH)
    runtime.run({}, thread="t")
    runtime.update("t", {"notes": ["edited"]}, as_node="b")

    assert listed(runtime) == []


def test_expired_question_is_listed_again_after_retry(world):
    runtime = world.runtime(line(("b", ask("ok?", expires_s=10))))
    runtime.run({}, thread="t")
    (item,) = runtime.inbox()
    assert item.expires_at == item.interrupt.expires_at
    assert item.expires_at is not None
    world.clock.now += 100
    runtime.retry("t")

    (again,) = runtime.inbox()
    assert again.expires_at is not None
    assert again.expires_at > item.expires_at
    listed(runtime)


def test_questions_of_nested_graphs_and_policies_are_listed(world):
    from .support import everything

    runtime = world.runtime(everything())
    runtime.run({}, thread="t")
    assert listed(runtime)
    held = world.runtime(line(("a", note("a")), ("b", note("b")), a={"interrupt_after": True}))
    held.run({}, thread="held")
    assert [item.interrupt.kind for item in held.inbox(kind="after")] == ["after"]
    held.resume("held", answer=True)
    assert held.inbox(kind="after") == ()


def test_a_failed_thread_lists_the_questions_that_are_still_open(world):
    fails = Fails()
    runtime = world.runtime(fan(("a", ask("a")), ("b", fails)))
    with pytest.raises(Exception, match="broken"):
        runtime.run({}, thread="t")
    listed(runtime)
    fails.broken = False
    assert runtime.retry("t").status == "interrupted"
    assert listed(runtime) == ["t/2.0:a#0"]


def test_fork_and_copy_also_ask(world):
    runtime = world.runtime(GRAPH)
    runtime.run({}, thread="t")
    runtime.fork("t", to="forked")
    runtime.copy_thread("t", "copied")

    assert sorted(listed(runtime)) == ["copied/2.0:b#0", "forked/2.0:b#0", "t/2.0:b#0"]
    for item in runtime.inbox():
        assert runtime.resume(item.thread, {item.interrupt.id: "yes"}).status == "completed"
    assert listed(runtime) == []


def test_deleting_a_thread_removes_its_questions(world):
    runtime = world.runtime(GRAPH)
    for thread in "abc":
        runtime.run({}, thread=thread)
    runtime.delete_thread("a")
    world.clock.now += 1_000
    assert runtime.sweep(older_than_s=1, status="interrupted", limit=1) == 1

    assert listed(runtime) == ["c/2.0:b#0"]


def test_inbox_takes_filters_and_pages(world):
    runtime = world.runtime(GRAPH)
    other = world.runtime(line(("other", ask("other?")), name="h"))
    for n in range(6):
        (other if n % 3 == 0 else runtime).run({}, thread=f"t{n}", tags={"odd"} if n % 2 else {"even"})

    def threads(**filters):
        return [item.thread for item in runtime.inbox(**filters)]

    assert threads() == [f"t{n}" for n in range(6)]
    assert threads(graph="h") == ["t0", "t3"]
    assert threads(node="b", tags={"odd"}) == ["t1", "t5"]
    assert threads(kind="approval") == []
    assert threads(graph="g", node="other") == []
    found, after = [], None
    while page := runtime.inbox(limit=2, after=after):
        found += [item.thread for item in page]
        after = page[-1].token
        runtime.resume(page[0].thread, answer="yes") if page[0].graph == "g" else other.resume(
            page[0].thread, answer="yes"
        )
    assert found == [f"t{n}" for n in range(6)]
    assert threads() == ["t1", "t3", "t5"]


class Parcel(BaseModel):
    due: date
    names: tuple[str, ...] = ()


def test_payload_is_decoded_to_its_class(durable):
    from graphrt.stores import register_type

    register_type(Parcel, tag="tests.Parcel")
    parcel = Parcel(due=date(2026, 1, 2), names=("ann",))

    def node(state, ctx):
        return {"notes": [ctx.interrupt(parcel, answer_type=date)]}

    runtime = durable.runtime(line(("b", node)))
    result = runtime.run({}, thread="t")

    (item,) = runtime.inbox()
    assert item.interrupt.payload == parcel
    assert item.interrupt.answer_schema == result.interrupts[0].answer_schema


def test_older_threads_are_listed_after_reindexing(world):
    runtime = world.runtime(GRAPH)
    runtime.run({}, thread="t", title="One", tags={"x"})
    (item,) = runtime.inbox()
    claim = world.store.claim("t", create=False, lease_s=60, at=0.0)
    from graphrt.stores import Commit, Labels

    head = world.store.head("t")
    world.store.commit(claim, Commit(head.seq, head.updated_at, labels=Labels(), questions=[], release=True))
    assert runtime.inbox() == runtime.threads(tags={"x"}) == ()

    assert runtime.reindex() == 1
    (again,) = runtime.inbox()
    assert (again.asked_at, again.title, again.interrupt) == (item.asked_at, "One", item.interrupt)
    assert [one.thread for one in runtime.threads(tags={"x"})] == ["t"]
    assert world.store.head("t").updated_at == head.updated_at
    assert asyncio.run(runtime.areindex()) == 0


def test_reindexing_skips_a_thread_of_a_live_run(world):
    runtime = world.runtime(GRAPH)
    runtime.run({}, thread="t")
    claim = world.store.claim("t", create=False, lease_s=60, at=0.0)

    assert runtime.reindex() == 0
    world.store.release(claim)


def test_encrypted_store_keeps_questions_secret(tmp_path):
    from graphrt.stores import EncryptedStore

    path = tmp_path / "runs.db"
    shared = open_store(f"sqlite:///{path}")
    store = EncryptedStore(shared, {"k": bytes(range(32))})
    runtime = Runtime(line(("b", ask("a secret question"))), store=store)
    runtime.run({}, thread="t", tags={"x"})

    (item,) = runtime.inbox(tags={"x"})
    assert item.interrupt.payload == {"q": "a secret question"}
    assert b"secret question" not in b"".join(file.read_bytes() for file in tmp_path.iterdir())
    with pytest.raises(Exception, match=r"damaged|encrypted|value"):
        Runtime(line(("b", ask(""))), store=shared).inbox()
    store.close()


def test_invalid_pages_and_filters_are_refused():
    runtime = Runtime(GRAPH, store=MemoryStore())
    runtime.run({}, thread="t")
    token = runtime.inbox()[0].token
    for code, words in (
        ("input", {"after": "nonsense"}),
        ("input", {"after": ""}),
        ("input", {"after": token[:-2]}),
        ("input", {"after": 7}),
        ("input", {"limit": -1}),
        ("input", {"kind": 7}),
        ("input", {"node": b"b"}),
        ("input", {"graph": 7}),
        ("bad-tenant", {"tenant": ""}),
        ("bad-label", {"tags": "x"}),
    ):
        with pytest.raises(InputError) as caught:
            runtime.inbox(**words)
        assert caught.value.code == code
    assert runtime.inbox(kind="no such kind") == ()
    assert runtime.inbox(after=token) == ()


def test_token_reveals_nothing_about_other_tenants(world):
    """Tokens do not depend on the number of threads of others, and a token that names another tenant's thread is
    refused.
    """
    with TenantStore(world.store, "acme") as acme, TenantStore(world.store, "globex") as globex:
        mine, theirs = (world.runtime(GRAPH, store=store) for store in (acme, globex))
        mine.run({}, thread="t")
        token = mine.inbox()[0].token
        mine.delete_thread("t")
        theirs.run({}, thread="x")
        world.runtime(GRAPH).run({}, thread="x")
        mine.run({}, thread="t")
        again = mine.inbox()[0]

        assert from_token(again.token).thread == from_token(token).thread == "acme~t"
        assert mine.inbox(after=again.token) == ()
        for thread in ("globex~x", "globex~absent", "x"):
            with pytest.raises(InputError) as caught:
                mine.inbox(after=to_token(from_token(token)._replace(thread=thread)))
            assert caught.value.code == "input"
