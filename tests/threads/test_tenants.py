"""A tenant's store has the tenant's threads, and no call, error or listing reveals others."""

from __future__ import annotations

from typing import Annotated

import pytest
from typing_extensions import TypedDict

from graphrt import END, START, ChildThread, GraphBuilder, Runtime
from graphrt.errors import ConflictError, GraphrtError, InputError, NodeError, StoreError
from graphrt.harness import Agent, ScriptedModel, TokenTracker
from graphrt.reducers import append
from graphrt.stores import Commit, EncryptedStore, MemoryStore, Record, TenantStore, open_store
from graphrt.stores.filters import ThreadFilter
from graphrt.stores.ids import beside
from graphrt.testing import drive_due

from .support import ask, line, note

GRAPH = line(("a", note("a")), ("b", ask("ok?")))


@pytest.fixture
def acme(world):
    with TenantStore(world.store, "acme") as store:  # closing it releases the claims of the test
        yield world.runtime(GRAPH, store=store)


@pytest.fixture
def globex(world):
    with TenantStore(world.store, "globex") as store:
        yield world.runtime(GRAPH, store=store)


def told(call):
    """Class, code and text of the error that *call* raises."""
    with pytest.raises(GraphrtError) as caught:
        call()
    return type(caught.value), caught.value.code, str(caught.value), {**caught.value.__dict__}, caught.value.args


def test_two_tenants_may_have_threads_with_equal_ids(world, acme, globex):
    acme.run({}, thread="t", title="of acme", tags={"x"})
    globex.run({}, thread="t", title="of globex", tags={"x"})
    shared = world.runtime(GRAPH)

    for runtime, tenant in ((acme, "acme"), (globex, "globex")):
        (info,) = runtime.threads()
        assert (info.thread, info.tenant, info.title) == ("t", tenant, f"of {tenant}")
        assert runtime.threads(tags={"x"})[0].title == info.title
        assert [item.interrupt.id for item in runtime.inbox()] == ["t/2.0:b#0"]
        assert runtime.state("t").tenant == tenant
    assert [one.thread for one in shared.threads()] == ["acme~t", "globex~t"]
    assert [one.thread for one in shared.threads(tenant="globex")] == ["globex~t"]
    assert [item.thread for item in shared.inbox(tenant="acme")] == ["acme~t"]

    acme.resume("t", answer="yes")
    assert globex.state("t").status == "interrupted"
    assert shared.resume("globex~t", answer="yes").status == "completed"
    for runtime in (acme, globex):
        assert runtime.state("t").status == "completed"
        runtime.replay("t")
        assert runtime.verify(replay=True).ok
        assert runtime.verify().threads == 1
    assert shared.verify().threads == 2


VERBS = {
    "state": lambda r, t: r.state(t),
    "history": lambda r, t: r.history(t),
    "entries": lambda r, t: list(r.entries(t)),
    "resume": lambda r, t: r.resume(t, answer="yes"),
    "retry": lambda r, t: r.retry(t),
    "label": lambda r, t: r.label(t, title="mine"),
    "fork": lambda r, t: r.fork(t),
    "copy": lambda r, t: r.copy_thread(t),
    "delete": lambda r, t: r.delete_thread(t),
    "prune": lambda r, t: r.prune(t),
    "replay": lambda r, t: r.replay(t),
    "why": lambda r, t: r.why(t, "notes"),
    "page": lambda r, t: r.threads(after=t),
    "newest page": lambda r, t: r.threads(after=t, newest_first=True),
    "head": lambda r, t: r.store.head(t),
    "load": lambda r, t: r.store.load(t),
    "records": lambda r, t: list(r.store.records(t)),
    "claim": lambda r, t: r.store.claim(t, create=False, lease_s=60, at=0.0),
    "questions": lambda r, t: r.store.questions(t),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("held", [False, True], ids=["free", "held"])
def test_error_for_another_tenants_thread_equals_that_for_an_unknown_thread(world, acme, globex, verb, held):
    globex.run({}, thread="secret")
    if held:
        globex.store.claim("secret", create=False, lease_s=60, at=0.0)
    theirs = told(lambda: VERBS[verb](acme, "secret"))
    nobodys = told(lambda: VERBS[verb](acme, "absent"))

    assert repr(theirs).replace("secret", "absent") == repr(nobodys)
    assert theirs[1] == "unknown-thread"
    assert "globex" not in repr(theirs)
    assert "acme" not in repr(theirs)


def test_id_that_another_tenant_uses_can_be_started(acme, globex):
    globex.run({}, thread="t")
    globex.store.claim("t", create=False, lease_s=60, at=0.0)

    assert acme.run({}, thread="t").status == "interrupted"
    acme.copy_thread("t", "u")
    assert [one.thread for one in globex.threads()] == ["t"]


def test_lookups_outside_the_tenant_find_nothing(acme, globex):
    globex.run({}, thread="t")

    assert acme.cancel("t") is False
    assert acme.store.blobs("t", ["x"]) == {}
    assert acme.store.delete_many(["t"]) == []
    assert acme.sweep(older_than_s=0, status="interrupted") == 0
    assert acme.threads(tenant="globex") == acme.inbox(tenant="globex") == ()
    assert acme.threads(prefix="globex~") == ()
    for thread in ("globex~t", "acme~t", "acme~globex~t", "~t"):
        code = "unknown-thread" if thread in ("globex~t", "acme~t") else "bad-thread"
        assert told(lambda thread=thread: acme.state(thread))[1] == code
        assert told(lambda thread=thread: acme.run({}, thread=thread))[1] == "bad-thread"
    assert globex.state("t").status == "interrupted"
    assert acme.check_threads() == ()
    assert acme.reindex() == 0


def test_errors_name_threads_by_the_ids_of_the_tenant(acme):
    acme.run({}, thread="t")
    acme.store.claim("t", create=False, lease_s=60, at=0.0)
    for call in (lambda: acme.resume("t", answer="yes"), lambda: acme.delete_thread("t")):
        with pytest.raises(ConflictError) as caught:
            call()
        assert "acme" not in f"{caught.value} {caught.value.args} {caught.value.__dict__}"
        assert caught.value.thread == "t"


def test_diff_of_a_tenants_fork_and_its_source_begins_after_the_fork(acme):
    acme.run({}, thread="t")
    acme.fork("t", to="forked")
    assert acme.diff("t", "forked") is None
    assert acme.diff("forked", "t") is None


def test_idempotency_keys_contain_the_tenant(world):
    keys = []

    def node(state, ctx):
        keys.append((ctx.thread, ctx.idempotency_key))
        return {}

    graph = line(("a", node))
    for store in (TenantStore(world.store, "acme"), TenantStore(world.store, "globex"), world.store):
        world.runtime(graph, store=store).run({}, thread="t")

    assert keys == [("t", "acme~t/1.0:a"), ("t", "globex~t/1.0:a"), ("t", "t/1.0:a")]


def test_logs_of_two_tenants_are_two_files(lite, tmp_path):
    from graphrt.audit import AuditLog

    for tenant in ("acme", "globex"):
        log = AuditLog(tmp_path / "logs")
        with Runtime(GRAPH, store=TenantStore(lite.store, tenant), audit=log) as runtime:
            runtime.run({}, thread="t")
    assert sorted(file.name for file in (tmp_path / "logs").glob("*.jsonl")) == ["acme~t.jsonl", "globex~t.jsonl"]


def test_an_encrypted_store_inside_binds_bodies_to_the_tenant(tmp_path):
    shared = EncryptedStore(open_store(f"sqlite:///{tmp_path}/runs.db"), {"k": bytes(range(32))})
    with shared, Runtime(GRAPH, store=TenantStore(shared, "acme")) as runtime:
        runtime.run({}, thread="t", tags={"x"})
        assert runtime.inbox(tags={"x"})[0].interrupt.payload == {"q": "ok?"}
        runtime.copy_thread("t", "u")
        assert runtime.store.encrypted
        assert runtime.verify().ok
        assert runtime.resume("u", answer="yes").status == "completed"


def test_closing_a_tenants_store_releases_only_its_own_claims(world):
    with TenantStore(world.store, "globex") as globex:
        acme = TenantStore(world.store, "acme")
        for store in (acme, globex):
            claim = store.claim("t", create=True, lease_s=60, at=0.0)
            store.commit(claim, Commit(0, 0.0, [Record(1, 1, b"{}")]))
        acme.close()
        acme.close()

        assert [head.owned for head in world.store.query(ThreadFilter())] == [False, True]
        with pytest.raises(StoreError):
            acme.query(ThreadFilter())
        with pytest.raises(ConflictError):  # a claim of the shared store does not belong to the tenant
            globex.commit(claim.inner, Commit(1, 0.0))


@pytest.mark.parametrize("name", ["", "a b", "a~b", "a/b", "é", "x" * 65, "-a", None, 7, b"acme"])
def test_tenant_requires_a_name(name):
    with pytest.raises(InputError) as caught:
        TenantStore(MemoryStore(), name)
    assert caught.value.code == "bad-tenant"
    if name is not None:
        with pytest.raises(InputError) as caught:
            open_store("memory:", tenant=name)
        assert caught.value.code == "bad-tenant"


def test_tenants_store_has_no_tenants():
    with pytest.raises(InputError) as caught:
        TenantStore(TenantStore(MemoryStore(), "acme"), "globex")
    assert caught.value.code == "bad-tenant"


def test_tenants_name_is_not_a_prefix_of_another(world):
    for tenant in ("a", "ab", "a.b"):
        world.runtime(GRAPH, store=TenantStore(world.store, tenant)).run({}, thread="t")

    assert [head.thread for head in TenantStore(world.store, "a").query(ThreadFilter())] == ["t"]
    assert [one.thread for one in world.runtime(GRAPH).threads(tenant="a")] == ["a~t"]


def test_the_shared_store_names_tenants_in_ids(world):
    shared = world.runtime(GRAPH)
    shared.run({}, thread="acme~t")
    shared.run({}, thread="mine")
    shared.copy_thread("mine", "acme~u")

    acme = world.runtime(GRAPH, store=TenantStore(world.store, "acme"))
    assert [one.thread for one in acme.threads()] == ["t", "u"]
    assert [one.thread for one in acme.threads(tags=set(), newest_first=True)] == ["u", "t"]
    assert [item.thread for item in acme.inbox()] == ["t", "u"]
    assert acme.resume("u", answer="yes").status == "completed"
    for thread in ("~t", "acme~", "acme~t~u", "a b~t", "x" * 65 + "~t"):
        with pytest.raises(InputError):
            shared.run({}, thread=thread)


def test_store_may_be_opened_for_a_tenant(tmp_path):
    url = f"sqlite:///{tmp_path}/runs.db"
    store = open_store(url, tenant="acme")
    Runtime(GRAPH, store=store).run({}, thread="t")
    store.close()
    with open_store(url) as shared, open_store(url, tenant="globex") as other:
        assert [head.thread for head in shared.query(ThreadFilter())] == ["acme~t"]
        assert other.query(ThreadFilter()) == []


# -- ids in a state: the same for every driver, and never those of another tenant ------------------------------


class Order(TypedDict, total=False):
    """State of a parent, which keeps the id of its child and the ids that nodes see."""

    child: str
    got: str
    seen: Annotated[list[str | None], append]


class Page(TypedDict, total=False):
    """State of a child."""

    secret: str


def page_graph():
    g = GraphBuilder(Page, name="page")
    g.add_node("work", lambda state: {})
    return g.add_sequence([START, "work", END]).compile()


PAGE = page_graph()


def order_graph():
    g = GraphBuilder(Order, name="order")

    @g.node
    def begin(state, ctx):
        if state.get("child"):
            return {"seen": [ctx.thread]}
        return {"child": ctx.start(PAGE, {"secret": "mine"}).thread, "seen": [ctx.thread]}

    @g.node
    def finish(state, ctx):
        child = ChildThread(PAGE, state["child"])
        return {"got": ctx.wait(child)["secret"], "seen": [ctx.thread, child.thread]}

    return g.add_sequence([START, begin, finish, END]).compile()


ORDER = order_graph()
DRIVERS = ("tenant", "shared")


def drivers(world, graph):
    """Runtimes of the tenant alpha and of the shared store, and the prefix that alpha's threads have there."""
    alpha = world.runtime(graph, store=TenantStore(world.store, "alpha"))
    return {"tenant": (alpha, ""), "shared": (world.runtime(graph), "alpha~")}


@pytest.mark.parametrize("begins", DRIVERS)
@pytest.mark.parametrize("goes_on", DRIVERS)
def test_thread_is_the_same_from_every_store_of_its_drivers(world, begins, goes_on):
    parents, children = drivers(world, ORDER), drivers(world, PAGE)
    runtime, prefix = parents[begins]
    assert runtime.run({}, thread=f"{prefix}t").status == "interrupted"
    drive_due(parents[goes_on][0], children[goes_on][0])

    values = parents["tenant"][0].state("t").values
    assert values["got"] == "mine"
    assert values["seen"] == ["t", "t", values["child"]]
    assert "~" not in values["child"]


@pytest.mark.parametrize("drives", DRIVERS)
@pytest.mark.parametrize("named", ["beta~bx", "bx", "alpha~a0", "sh"])
def test_id_in_a_state_never_reaches_another_tenants_thread(world, drives, named):
    world.runtime(PAGE, store=TenantStore(world.store, "beta")).run({"secret": "TOP"}, thread="bx")
    world.runtime(PAGE).run({"secret": "TOP"}, thread="sh")
    parents = drivers(world, ORDER)
    parents["tenant"][0].start({"child": named}, thread="a0")
    runtime, prefix = parents[drives]
    with pytest.raises(NodeError) as caught:
        runtime.drive(f"{prefix}a0")

    refused = "bad-thread" if "~" in named else "child-ended"  # the text for an unknown thread
    assert refused in str(caught.value)
    assert "got" not in parents["tenant"][0].state("a0").values


def test_tracker_and_second_execution_distinguish_threads_of_tenants(world):
    """Entries name their thread with its tenant, and a second execution in memory has the same keys as the first."""
    tracker, agent = TokenTracker(), Agent(ScriptedModel(["one", "two"]), name="writer")

    async def node(state, ctx):
        await ctx.bind(agent).run("write")
        return {"seen": [ctx.idempotency_key]}

    g = GraphBuilder(Order, name="tracked")
    g.add_sequence([START, g.node(node), END])
    for tenant in ("acme", "globex"):
        runtime = world.runtime(g.compile(), store=TenantStore(world.store, tenant), sinks=[tracker])
        runtime.run({}, thread="t")

        assert runtime.reexecute("t").same
        assert world.runtime(g.compile()).reexecute(f"{tenant}~t").same
        assert {entry.event.thread for entry in runtime.entries("t") if hasattr(entry.event, "thread")} == {
            f"{tenant}~t"
        }
    assert {node: usage.calls for node, usage in tracker.by_node().items()} == {"node": 2}


def test_ids_of_journals_never_lead_to_another_tenant():
    """A forged journal may name any parent and child: letters go to a thread of the journal's own tenant."""
    assert [beside(thread, "beta~x") for thread in ("t", "alpha~t")] == ["x", "alpha~x"]
