"""`Runtime.as_user`: one runtime for many users, whose journals name the user of each action."""

from __future__ import annotations

from typing import TypedDict

import pytest

from graphrt import END, START, Context, GraphBuilder, InputError, Runtime
from graphrt.audit import AuditLog


class Order(TypedDict, total=False):
    paid: bool


def asking():
    g = GraphBuilder(Order, name="order")

    @g.node
    def pay(state: Order, ctx: Context) -> Order:
        return {"paid": ctx.interrupt("pay?", key="pay")}

    g.add_sequence([START, pay, END])
    return g.compile()


def users(runtime: Runtime, thread: str) -> list[str]:
    return [entry.event.user for entry in runtime.entries(thread) if hasattr(entry.event, "user")]


def test_each_start_answer_and_edit_names_its_user() -> None:
    with Runtime(asking(), store="memory:", audit=AuditLog(user="service")) as runtime:
        runtime.as_user("ada").run({}, thread="t")
        runtime.as_user("ben").resume("t", answer=True)
        runtime.as_user("eve").update("t", {"paid": False})
        runtime.label("t", title="an order")

        assert users(runtime, "t") == ["ada", "ben", "eve", "service"]


def test_closing_the_runtime_of_as_user_leaves_the_store_open(tmp_path) -> None:
    with Runtime(asking(), store=f"sqlite:///{tmp_path}/runs.db") as runtime:
        runtime.as_user("ada").close()

        assert runtime.run({}, thread="t").status == "interrupted"


def test_user_is_a_string() -> None:
    with Runtime(asking(), store="memory:") as runtime, pytest.raises(InputError):
        runtime.as_user(7)  # type: ignore[arg-type]
