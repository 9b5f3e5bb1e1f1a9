"""A small app of a newcomer, and the mistakes of newcomers: each error names the fix."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, TypedDict

import pydantic
import pytest

from graphrt import END, START, Context, GraphBuilder, Runtime
from graphrt.errors import InputError, StoreError
from graphrt.reducers import append

from .support import line, note, refused


class Order(pydantic.BaseModel):
    item: str
    quantity: int = 1
    log: Annotated[list[str], append] = []
    paid: str | None = None


class Change(TypedDict, total=False):
    log: list[str]
    paid: str


def shop():
    g = GraphBuilder(Order, Change, name="shop")

    @g.node
    def check(state: Order) -> Change:
        return {"log": [f"checked {state.quantity} x {state.item}"]}

    @g.node
    def approve(state: Order, ctx: Context) -> Change:
        who = ctx.interrupt({"approve": state.item}, answer_type=str)
        return {"log": [f"approved by {who}"]}

    @g.node
    def pay(state: Order, ctx: Context) -> Change:
        return {"paid": ctx.effect("charge", lambda: f"receipt for {state.item}", kind="once")}

    g.add_sequence([check, approve, pay])
    g.add_edge(START, check)
    g.add_edge(pay, END)
    return g.compile()


@pytest.fixture
def app(tmp_path, monkeypatch):
    """The app, with one order that waits; its file is in the current folder."""
    monkeypatch.chdir(tmp_path)
    with Runtime(shop(), store="sqlite:///runs.db") as runtime:
        runtime.run({"item": "tea", "quantity": 2}, thread="order-1")
        yield runtime


def test_app_survives_its_process_and_answers_later(app):
    """Three runtimes, like three processes of a day: one starts, one reads, one continues."""
    with Runtime(shop(), store="sqlite:///runs.db") as later:
        assert [info.thread for info in later.threads(status="interrupted")] == ["order-1"]
        assert later.state("order-1").interrupts[0].payload == {"approve": "tea"}
    with Runtime(shop(), store="sqlite:///runs.db") as next_day:
        result = next_day.resume("order-1", "Ann")

    assert result.state == Order(
        item="tea", quantity=2, log=["checked 2 x tea", "approved by Ann"], paid="receipt for tea"
    )
    assert next(s.status for s in app.history("order-1")) == "completed"


def test_app_tries_another_answer_from_the_past(app):
    app.resume("order-1", "Ann")
    waiting = next(s for s in app.history("order-1") if s.interrupts)
    other = app.fork("order-1", at=waiting.seq)

    assert app.resume(other, "Bob").state.log[-1] == "approved by Bob"
    assert app.diff("order-1", other) is not None


def test_result_or_interrupt_instead_of_the_thread_is_refused(app):
    result = app.run({"item": "milk"}, thread="order-2")

    refused(
        "bad-thread", lambda: app.resume(result, "Ann"), "RunResult", "Pass its thread: 'order-2'", error=InputError
    )
    refused("bad-thread", lambda: app.fork(app.state("order-2")), "Snapshot", "Pass its thread: 'order-2'")
    refused("bad-thread", lambda: app.state(app.threads()[0]), "ThreadInfo", "Pass its thread: 'order-1'")
    refused("bad-thread", lambda: app.resume(result.interrupts[0].id, "Ann"), "interrupt", "'order-2'", "answers")
    refused("bad-thread", lambda: app.state(None), "NoneType")
    assert app.resume("order-2", "Ann").status == "completed"


def test_snapshot_instead_of_its_seq_is_refused(app):
    snapshot = app.history("order-1")[-1]

    refused("unknown-entry", lambda: app.fork("order-1", at=snapshot), "seq", error=InputError)
    refused("unknown-entry", lambda: app.state("order-1", at=snapshot), "seq", error=InputError)


def test_node_name_instead_of_the_interrupt_id_is_refused(app):
    refused("unknown-interrupt", lambda: app.resume("order-1", {"approve": "Ann"}), "order-1/2.0:approve#0", "answer=")


def test_missing_answer_error_names_the_question(app):
    refused("no-answer", lambda: app.resume("order-1"), "'approve'", "tea")


def test_run_on_a_thread_that_waits_names_resume(app):
    refused(
        "wrong-verb", lambda: app.run({"item": "milk"}, thread="order-1"), "interrupted", "resume('order-1', answers)"
    )


def test_runtime_after_its_with_block_raises(app):
    app.close()

    refused("store-closed", lambda: app.state("order-1"), "closed", error=StoreError)


def test_asking_without_a_thread_explains_how_to_get_one():
    refused(
        "interrupt-needs-thread", lambda: shop().run({"item": "tea"}), 'store="memory:"', "thread=", error=InputError
    )
    refused("thread-without-store", lambda: shop().run({"item": "tea"}, thread="t"), 'store="memory:"')


def test_two_memory_stores_are_separate():
    with Runtime(shop(), store="memory:") as one, Runtime(shop(), store="memory:") as two:
        one.run({"item": "tea"}, thread="t")

        refused("unknown-thread", lambda: two.state("t"), "no thread 't'")


@pytest.mark.parametrize(
    ("store", "meant"),
    [
        ("memory", "'memory:'"),
        (":memory:", "'memory:'"),
        ("sqlite:///:memory:", '"memory:"'),
        ("runs.db", "'sqlite:///runs.db'"),
        ("sqlite:runs.db", "'sqlite:///runs.db'"),
        ("sqlite://runs.db", "'sqlite:///runs.db'"),
        ("sqlit:///runs.db", "'sqlite'"),
        ("postgress://localhost/x", "'postgres"),
        (Path("runs.db"), "sqlite:///runs.db"),
    ],
)
def test_misspelled_store_url_is_refused_with_a_suggestion(tmp_path, monkeypatch, store, meant):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        Runtime(shop(), store=store)

    assert meant in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_diff_with_an_unknown_run_is_refused(app):
    refused("unknown-run", lambda: app.diff("order-1", "order-1", run="yesterday"), "'yesterday'", "run_id")


def test_typo_in_an_edit_names_the_fields(app):
    refused("unknown-key", lambda: app.update("order-1", {"quantty": 3}), "'quantty'", "'quantity'")
    refused(
        "bad-input", lambda: app.update("order-1", {"quantity": "three"}), "quantity: Input should be a valid integer"
    )
    refused("unknown-node", lambda: app.update("order-1", {}, as_node="chek"), "Did you mean 'check'")
    refused("unknown-node", lambda: app.update("order-1", {}, as_node=END), "END")


def test_sync_verb_inside_a_coroutine_works_and_the_async_one_does_not_block(app):
    async def go():
        first = app.resume("order-1", "Ann")
        second = await app.arun({"item": "milk"}, thread="order-2")
        return first.status, second.status

    assert asyncio.run(go()) == ("completed", "interrupted")


def test_object_in_the_state_names_the_field_and_the_alternatives(durable):
    class Client:
        pass

    runtime = durable.runtime(line(("a", lambda state: {"x": {"client": Client()}}), ("b", note("b"))))

    refused(
        "not-storable",
        lambda: runtime.run({"notes": []}, thread="t"),
        "x",
        "client",
        "Client",
        "untracked",
        "register_type",
    )
