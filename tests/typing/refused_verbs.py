"""Misspelled and wrong arguments of the verbs of a runtime and of their async twins, which both checkers report."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from pydantic import BaseModel

from graphrt import CompiledGraph, Context, GraphBuilder, Runtime
from graphrt.testing import RecordedRun, arecord, record, replay_case


class State(BaseModel, frozen=True):
    question: str = ""


def verbs(runtime: Runtime[State], graph: CompiledGraph[State, State], recorded: RecordedRun[State]) -> None:
    runtime.run({}, thred="t")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    runtime.start({}, whle_running="queue")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    runtime.start({}, while_running="wait")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    runtime.steps({}, thred="t")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    runtime.stream({}, thred="t")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    runtime.threads(statuss="failed")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    runtime.threads(status="done")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    runtime.inbox(knd="question")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    runtime.inbox(kind="questions")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    runtime.label("t", titel="x")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    runtime.label("t", title=1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    runtime.label("t", priority="high")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    runtime.erase("x", dryrun=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    runtime.sweep(older_than_s=1, statuss="failed")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    runtime.schedules.add("nightly", "0 3 * * *", {}, timzone="UTC")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    record(graph, {}, hrness=None)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    replay_case(graph, "", dps=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    recorded.resume(anwser=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def twins(
    runtime: Runtime[State], graph: CompiledGraph[State, State], recorded: RecordedRun[State], ctx: Context
) -> None:
    await runtime.arun({}, thred="t")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await runtime.astart({}, whle_running="queue")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await runtime.astart({}, while_running="wait")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await runtime.astart({}, thread=1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await runtime.asteps({}, thred="t")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    await runtime.astream({}, thred="t")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    await runtime.athreads(statuss="failed")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await runtime.athreads(status="done")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await runtime.ainbox(knd="question")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await runtime.ainbox(kind="questions")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await runtime.alabel("t", titel="x")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await runtime.alabel("t", title=1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await runtime.alabel("t", priority="high")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await runtime.aerase("x", dryrun=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await runtime.asweep(older_than_s=1, statuss="failed")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    await runtime.schedules.aadd("nightly", "0 3 * * *", {}, timzone="UTC")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await ctx.astart(graph, {}, nme="child")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await arecord(graph, {}, hrness=None)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await recorded.aresume(anwser=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


# ----- The input, whose content a TypedDict declares


class Chat(TypedDict):
    chat: list[str]
    topic: NotRequired[str]


class Turn(TypedDict, total=False):
    chat: list[str]


chats = GraphBuilder(Chat).compile()
chats.run({"chta": []})  # type: ignore[typeddict-item, typeddict-unknown-key]  # pyright: ignore[reportArgumentType]
chats.run({"chat": "hello"})  # type: ignore[typeddict-item]  # pyright: ignore[reportArgumentType]
chats.run({"chat": [], "more": 1})  # type: ignore[typeddict-unknown-key]  # pyright: ignore[reportArgumentType]
chats.run({"topic": "tea"})  # type: ignore[typeddict-item]  # pyright: ignore[reportArgumentType]
turns = GraphBuilder(Chat, Turn).compile()
turns.run({"chta": []})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
turns.run({"chat": "hello"})  # type: ignore[arg-type, misc]  # pyright: ignore[reportArgumentType]
turns.run({"chat": [], "more": 1})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Runtime(turns).run({"chat": "hello"})  # type: ignore[arg-type, misc]  # pyright: ignore[reportArgumentType]
Runtime(turns).start({"chat": "hello"})  # type: ignore[arg-type, misc]  # pyright: ignore[reportArgumentType]
Runtime(turns).stream({"chat": "hello"}, modes="values")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
asked = GraphBuilder(State, input=Turn).compile()
asked.run({"question": "why?"})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
asked.steps({"chat": "hello"})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def inputs(runtime: Runtime[Chat, Turn]) -> None:
    await runtime.arun({"chat": "hello"})  # type: ignore[arg-type, misc]  # pyright: ignore[reportArgumentType]
    await runtime.astart({"chat": "hello"})  # type: ignore[arg-type, misc]  # pyright: ignore[reportArgumentType]
    await runtime.asteps({"chta": []})  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]


# --- The arguments of an effect


def price(item: str) -> float:
    return 1.0


def effects(ctx: Context) -> None:
    ctx.effect("price", price, 5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    ctx.effect("price", price)  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportArgumentType, reportCallIssue]
    ctx.effect("price", price, "tea", kind="twice")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
