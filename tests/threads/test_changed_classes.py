"""Threads whose state holds instances of classes that a release changed (rule R14)."""

from __future__ import annotations

from enum import Enum
from typing import Any

import pydantic
import pytest

from graphrt import START, GraphBuilder
from graphrt.errors import InputError
from graphrt.migrations import Migration

from .support import refused


def release(price: dict[str, Any], colours: str = "RED BLUE", order: dict[str, Any] | None = None) -> Any:
    """Return a graph that writes an order, and pauses. Each call creates the classes again, like a release."""
    members: Any = Enum("Colour", {name: name.lower() for name in colours.split()})
    of_price: Any = pydantic.create_model("Price", colour=(members, members.RED), **price)
    of_order: Any = pydantic.create_model("Order", prices=(dict[str, list[of_price]], {}), **(order or {}))
    state_class: Any = pydantic.create_model("State", order=(of_order | None, None), n=(int, 0))

    def write(state: Any) -> Any:
        return {"order": of_order(prices={"tea": [of_price(amount=12.5, colour=list(members)[-1])]})}

    def ask(state: Any, ctx: Any) -> Any:
        ctx.interrupt("?")
        return {"n": 1}

    graph: Any = GraphBuilder(state_class, name="shop").add_node("write", write).add_node("ask", ask)
    return graph.add_sequence([START, "write", "ask"]).compile()


AMOUNT: dict[str, Any] = {"amount": (float, ...)}
TEXT: dict[str, Any] = {"amount": (str, ...)}


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (release(TEXT), "the type of field 'order.prices.amount' changed (order.prices.amount: float -> str)"),
        (release({}), "field 'order.prices.amount' is gone from Price"),
        (release(AMOUNT | {"tax": (int, ...)}), "field 'order.prices.tax' is new in Price and has no default"),
        (release(AMOUNT, "RED"), "members 'BLUE' of Colour, in field 'order.prices.colour', are gone"),
    ],
    ids=["type", "field gone", "field without a default", "member gone"],
)
def test_class_that_may_not_fit_stored_values_is_refused_with_its_path(lite, changed, reason):
    older = release(AMOUNT)
    lite.runtime(older).run({}, thread="t")
    runtime = lite.runtime(changed)
    (found,) = runtime.check_threads()

    assert (found.kind, found.reasons) == ("incompatible", (reason,))
    error = refused("graph-changed", lambda: runtime.resume("t", "ok"), reason, "Migration(", error=InputError)
    assert "backup" not in str(error)
    assert lite.runtime(older).resume("t", "ok").state.n == 1


@pytest.mark.parametrize(
    "changed",
    [
        release({"amount": (float | str, ...)}),
        release(AMOUNT | {"tax": (int, 7)}),
        release(AMOUNT, "RED BLUE GREEN"),
        release(AMOUNT, order={"note": (str | None, None)}),
    ],
    ids=["wider type", "field with a default", "member added", "field of the outer class"],
)
def test_class_that_was_only_widened_is_compatible(lite, changed):
    lite.runtime(release(AMOUNT)).run({}, thread="t")
    runtime = lite.runtime(changed)
    (found,) = runtime.check_threads()
    price = runtime.resume("t", "ok").state.order.prices["tea"][0]

    assert (found.kind, len(found.reasons), found.classes) == ("compatible", 1, ())
    assert (price.amount, price.colour.name, getattr(price, "tax", 7)) == (12.5, "BLUE", 7)


@pytest.mark.parametrize(("older", "now", "kind"), [(int, int | str, "compatible"), (int | str, int, "incompatible")])
def test_types_of_the_state_itself_are_compared_by_the_same_rules(lite, older, now, kind):
    def graph(annotation: Any) -> Any:
        state = pydantic.create_model("State", x=(annotation, 1))
        made: Any = GraphBuilder(state, name="g").add_node("ask", lambda state, ctx: ctx.interrupt("?"))
        return made.add_sequence([START, "ask"]).compile()

    lite.runtime(graph(older)).run({}, thread="t")
    (found,) = lite.runtime(graph(now)).check_threads()

    assert (found.kind, found.pending) == (kind, ("ask",)), "the run has made no commit, and START has no router"
    assert found.reasons[0].startswith("the type of field 'x' changed (x: ")


def to_text(values: Any) -> dict[str, Any]:
    (price,) = values["order"]["prices"]["tea"]  # plain data, not an Order
    assert price == {"colour": "BLUE", "amount": 12.5}
    return {"n": values["n"], "order": {"prices": {"tea": [{"amount": str(price["amount"]), "colour": "red"}]}}}


def test_migration_gets_plain_data_of_classes_that_changed(durable):
    """Later loads still read the older entries: values that no longer fit are plain data in their place."""
    older, changed = release(AMOUNT), release(TEXT, "RED")
    durable.runtime(older).run({}, thread="t")
    migrating = durable.runtime(changed, migrations=[Migration(source=older.fingerprint, values=to_text)])
    (found,) = migrating.check_threads()
    migrating.resume("t", "ok")
    runtime = durable.runtime(changed)
    prices = [one.values.order.prices["tea"][0] for one in runtime.history("t") if one.values.order is not None]

    assert (found.kind, found.classes) == ("migrated", ("Colour", "Order", "Price"))
    assert (prices[0].amount, prices[0].colour.name) == ("12.5", "RED")
    assert (prices[-1].amount, prices[-1].colour) == (12.5, "BLUE")
    assert runtime.replay("t").values.order.prices["tea"][0].amount == "12.5"
    runtime.prune("t")
    assert runtime.state("t").values.order.prices["tea"][0].amount == "12.5"


def test_migration_that_passes_on_an_unfit_value_is_refused(lite):
    older, changed = release(AMOUNT), release(TEXT)
    lite.runtime(older).run({}, thread="t")
    runtime = lite.runtime(changed, migrations=[Migration(source=older.fingerprint, values=dict)])

    refused("migration-failed", lambda: runtime.resume("t", "ok"), "amount", error=InputError)


def test_a_migration_may_replace_a_class(lite):
    older = release(AMOUNT)
    lite.runtime(older).run({}, thread="t")
    state: Any = pydantic.create_model("State", amount=(float, 0.0), n=(int, 0))
    graph: Any = GraphBuilder(state, name="shop").add_node("ask", lambda state, ctx: ctx.interrupt("?"))

    def amount_alone(values: Any) -> dict[str, Any]:
        return {"amount": values["order"]["prices"]["tea"][0]["amount"]}

    migration = Migration(source=older.fingerprint, values=amount_alone)
    runtime = lite.runtime(graph.add_sequence([START, "ask"]).compile(), migrations=[migration])

    assert runtime.resume("t", None).state.amount == 12.5
    assert "ThreadMigrated" in [type(entry.event).__name__ for entry in runtime.entries("t")]


@pytest.mark.parametrize("changed", [True, False], ids=["class changed", "field gone"])
def test_update_that_waits_for_its_commit_is_not_migrated(lite, changed):
    """A finished task of the open superstep has it; the migration gets the committed values."""

    def graph(**fields: Any) -> Any:
        made: Any = GraphBuilder(pydantic.create_model("State", n=(int, 0), **fields), name="g")
        made.add_node("write", lambda state: {"price": price(amount=1.0)})
        made.add_node("ask", lambda state, ctx: ctx.interrupt("?"))
        return made.set_entry("write").set_entry("ask").compile()

    price: Any = pydantic.create_model("Price", **AMOUNT)
    older = graph(price=(price | None, None))
    lite.runtime(older).run({}, thread="t")
    now = graph(**({"price": (pydantic.create_model("Price", **TEXT) | None, None)} if changed else {}))
    migration = Migration(source=older.fingerprint, values=lambda values: {"n": values["n"]})
    (found,) = lite.runtime(now, migrations=[migration]).check_threads()

    assert found.kind == "incompatible"
    assert found.reasons[0].startswith("a finished task waits to write field 'price', ")


def test_entries_of_an_older_release_can_be_read(lite):
    lite.runtime(release(AMOUNT)).run({}, thread="t")
    shown = str([entry.event for entry in lite.runtime(release({}, "RED")).entries("t")])

    assert "'amount': 12.5" in shown


def test_a_changed_class_of_a_pending_nested_graph_is_judged_by_its_own_change(lite):
    def outer(price: dict[str, Any], colours: str) -> Any:
        made: Any = GraphBuilder(pydantic.create_model("Outer", n=(int, 0)), name="outer")
        return made.add_node("inner", release(price, colours)).add_sequence([START, "inner"]).compile()

    lite.runtime(outer(AMOUNT, "RED BLUE")).run({}, thread="t")
    (wider,) = lite.runtime(outer(AMOUNT, "RED BLUE GREEN")).check_threads()
    (narrower,) = lite.runtime(outer(TEXT, "RED BLUE")).check_threads()

    assert (wider.kind, narrower.kind) == ("compatible", "incompatible")
    assert narrower.reasons[0] == (
        "the type of field 'inner/order.prices.amount' changed (inner/order.prices.amount: float -> str)"
    )
