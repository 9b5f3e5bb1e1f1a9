"""Planted bugs that `explore_crashes` and `explore_forks` must find, and correct graphs in which they find nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
import typing_extensions as te

from examples import approval
from graphrt import END, START, Context, GraphBuilder, InputError
from graphrt.stores import MemoryStore
from graphrt.stores.protocol import Claim, Commit
from graphrt.testing import Exploration, explore_crashes, explore_forks

ANSWERS = [{"approved": False, "remark": "shorter"}, {"approved": True, "remark": "fine"}]


def joined(current: list[str], incoming: list[str]) -> list[str]:
    return [*current, *incoming]


class State(te.TypedDict, total=False):
    notes: Annotated[list[str], joined]


class World:
    def __init__(self) -> None:
        self.sent: list[str] = []
        self.executions = 0

    def send(self, text: str) -> str:
        self.sent.append(text)
        return text


def chain(*nodes: Any, state: Any = State) -> Any:
    g = GraphBuilder(state, name="planted")
    for place, node in enumerate(nodes):
        g.add_node(f"n{place}", node)
    g.add_sequence([START, *(f"n{place}" for place in range(len(nodes))), END])
    return g.compile()


def quiet(_: Any) -> Any:
    return {"notes": ["quiet"]}


def explored(graph: Any, **more: Any) -> Exploration:
    return explore_crashes(
        graph, {"notes": []}, options=lambda: {"deps": World()}, once=lambda world: world.sent, **more
    )


def bare_send(_: Any, ctx: Context[World]) -> Any:
    return {"notes": [ctx.deps.send("mail")]}


def idempotent_send(_: Any, ctx: Context[World]) -> Any:
    return {"notes": [ctx.effect("send", ctx.deps.send, "mail")]}


def fresh_name(_: Any, ctx: Context[World]) -> Any:
    return {"notes": [ctx.effect(f"send {len(ctx.deps.sent)}", ctx.deps.send, "mail", kind="once")]}


def sent_once(_: Any, ctx: Context[World]) -> Any:
    return {"notes": [ctx.effect("send", ctx.deps.send, "mail", kind="once")]}


def sent_before_asking(_: Any, ctx: Context[World]) -> Any:
    ctx.deps.send("please answer")
    return {"notes": [ctx.interrupt("?")]}


def rewording(_: Any, ctx: Context[World]) -> Any:
    """Each execution asks in other words, so that no answer fits."""
    ctx.deps.executions += 1
    return {"notes": [ctx.interrupt(f"question {ctx.deps.executions}")]}


def counted(_: Any, ctx: Context[World]) -> Any:
    """What it returns depends on how often it ran in this world."""
    ctx.deps.executions += 1
    return {"notes": [f"execution {ctx.deps.executions}"]}


def giving_up(_: Any, ctx: Context[World]) -> Any:
    """Fails if it runs a second time."""
    ctx.deps.executions += 1
    if ctx.deps.executions > 1:
        raise ValueError("the lock file exists")


def turning(_: Any, ctx: Context[World]) -> Any:
    ctx.deps.executions += 1
    return {"notes": ["a", "b"] if ctx.deps.executions == 1 else ["b", "a"]}


class LossyStore:
    """A store with a bug, in front of a `MemoryStore`."""

    durable = False
    blocking = False

    def __init__(self, bug: str) -> None:
        self.store = MemoryStore()
        self.bug = bug
        self.waiting: list[Callable[[], None]] = []
        self.held: list[Claim] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def claim(self, thread: str, *, create: bool, lease_s: float, at: float) -> Claim:
        if self.bug == "two owners":
            for old in self.held:
                self.store.release(old)
        claim: Claim = self.store.claim(thread, create=create, lease_s=lease_s, at=at)
        self.held.append(claim)
        return claim

    def commit(self, claim: Claim, commit: Commit) -> None:
        if self.bug == "late":
            self.flush()
            if commit.records and not commit.release:
                self.waiting.append(lambda: self.store.commit(claim, commit))
                return
        if self.bug == "unstaged":
            commit = commit._replace(stage=())
        self.store.commit(claim, commit)

    def load(self, thread: str, *, upto: int | None = None) -> Any:
        self.flush()
        return self.store.load(thread, upto=upto)

    def flush(self) -> None:
        while self.waiting:
            self.waiting.pop(0)()

    def crash(self) -> None:
        """What is not written yet is lost with the process."""
        self.waiting.clear()
        for claim in self.held:
            self.store.release(claim)


def lossy(bug: str) -> Callable[[Path], Any]:
    return lambda _: LossyStore(bug)


PLANTED: dict[str, tuple[Callable[[], Exploration], str]] = {
    "an effect outside ctx.effect": (lambda: explored(chain(bare_send, quiet)), "double-effect"),
    "an effect that is not marked once": (lambda: explored(chain(idempotent_send, quiet)), "double-effect"),
    "a once effect with a new name each time": (lambda: explored(chain(fresh_name, quiet)), "double-effect"),
    "a mail before a question": (lambda: explored(chain(sent_before_asking), answers=["yes"]), "double-effect"),
    "a question that is reworded": (
        lambda: explored(chain(rewording), answers=lambda q: "yes", most=40),
        "not-resumable",
    ),
    "a result that depends on the attempt": (lambda: explored(chain(counted, quiet)), "state-differs"),
    "an order that depends on the attempt": (lambda: explored(chain(turning, quiet)), "order-changed"),
    "a node that cannot run again": (lambda: explored(chain(giving_up, quiet)), "not-resumable"),
    "a store that acknowledges before it writes": (
        lambda: explored(chain(quiet, quiet), store=lossy("late")),
        "lost-write",
    ),
    "a store that loses staged bodies": (
        lambda: explored(chain(sent_once, quiet), store=lossy("unstaged")),
        "lost-write",
    ),
    "a store with two owners": (lambda: explored(chain(quiet), store=lossy("two owners")), "second-writer"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_bug_is_found(name: str) -> None:
    search, kind = PLANTED[name]
    found = search()
    assert kind in {one.kind for one in found.findings}, str(found)


def test_replay_line_shows_the_same_finding_alone() -> None:
    graph = chain(bare_send, quiet)
    [finding] = explored(graph).findings
    at = int(finding.replay.rpartition("=")[2].rstrip(")"))
    again = explored(graph, at=at)
    assert again.tried == 1
    assert again.findings == (finding,)


@pytest.mark.parametrize("store", ["memory:", "sqlite:"])
def test_nothing_is_found_if_the_mail_is_a_once_effect(store: str) -> None:
    found = explored(chain(sent_once, quiet), store=store).check()
    assert found.tried > 10


def test_nothing_is_found_in_an_approval() -> None:
    explore_crashes(approval.graph, {"topic": "graphs"}, answers=ANSWERS).check()
    explore_forks(approval.graph, {"topic": "graphs"}, answers=ANSWERS).check()


def test_fork_that_depends_on_the_attempt_is_found() -> None:
    found = explore_forks(chain(quiet, counted), {"notes": []}, options=lambda: {"deps": World()})
    assert [one.kind for one in found.findings] == ["state-differs"]


def test_node_that_differs_in_two_plain_runs_is_named_and_nothing_else_is_tried() -> None:
    numbers = itertools.count()

    def draws(_: Any) -> Any:
        return {"notes": [str(next(numbers))]}

    found = explored(chain(quiet, draws))
    assert [one.kind for one in found.findings] == ["not-deterministic"]
    assert found.findings[0].text.startswith("n1 ")
    assert found.left_out


def test_graph_that_never_ends_is_bounded_by_its_limits() -> None:
    g = GraphBuilder(State, name="endless")
    g.add_node("again", lambda _: None)
    g.add_edge(START, "again")
    g.add_conditional_edges("again", lambda state: "on" if not state["notes"] else "off", {"on": "again", "off": END})
    found = explore_crashes(g.compile(), {"notes": []}, most=6)
    assert found.ok
    assert any("failed" in reason for reason in found.left_out)
    assert any("most=6" in reason for reason in found.left_out)


def test_ctrl_c_keeps_what_was_found() -> None:
    runs = itertools.count()

    def pressed(_: Any, ctx: Context[World]) -> Any:
        if next(runs) > 12:
            raise KeyboardInterrupt
        return bare_send(None, ctx)

    found = explored(chain(pressed, quiet))
    assert found.interrupted
    assert [one.kind for one in found.findings] == ["double-effect"]


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(InputError, match="compiled graph"):
        explore_crashes(GraphBuilder(State), {})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="made anew"):
        explored(chain(quiet), store="sqlite:///runs.db")
    with pytest.raises(InputError, match="no case 999"):
        explored(chain(quiet), at=999)
