"""The path of a model call of a node: the files of graphrt that it crosses, and how deep its calls nest.

A reader who follows a call opens each of these files. The trace begins where the node calls its harness, and ends when
the node has the reply. Imports are warm, like in every call after the first.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, TypedDict

import graphrt
from graphrt import END, START, GraphBuilder
from graphrt.harness import Agent, FunctionModel, MockHarness, ModelRequest

PACKAGE = f"{Path(graphrt.__file__).parent}{os.sep}"


class State(TypedDict, total=False):
    said: str


@dataclass
class Way:
    """The calls of functions of graphrt between `begin` and `end`."""

    files: list[str] = field(default_factory=list)
    """File of each call, in order."""
    depth: int = 0
    """Maximal number of frames of graphrt on the stack, with those of the node and below it counted from 1."""
    again: set[tuple[str, ...]] = field(default_factory=set)
    """Packages from the node inwards, for each stack on which a package is entered, left for another, and entered
    again.
    """

    def walk(self, ask: Callable[[], Any]) -> Any:
        """Trace the calls of *ask*, and return its result."""
        base = len(self._stack(sys._getframe()))

        def see(frame: Any, event: str, _arg: Any) -> None:
            if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
                stack = self._stack(frame)[base:]
                self.files.append(stack[-1])
                self.depth = max(self.depth, len(stack))
                rooms = entered(stack)
                if len({*rooms}) < len(rooms):
                    self.again.add(tuple(rooms))

        before = sys.getprofile()
        sys.setprofile(see)
        try:
            return ask()
        finally:
            sys.setprofile(before)

    @staticmethod
    def _stack(frame: Any) -> list[str]:
        """Files of graphrt on the stack of *frame*, the outermost first."""
        files: list[str] = []
        while frame is not None:
            if frame.f_code.co_filename.startswith(PACKAGE):
                files.append(frame.f_code.co_filename.removeprefix(PACKAGE))
            frame = frame.f_back
        return files[::-1]

    @property
    def rooms(self) -> list[str]:
        """Packages in the order in which the calls enter them, once for each entry.

        A lock does not count as a package, nor does the variable with the context of a call.
        """
        return entered([name for name in self.files if name not in ("_forks.py", "_ambient.py")])


def entered(files: list[str]) -> list[str]:
    """The packages of *files*, once for each time that they follow another one."""
    return [room for room, _ in groupby(name.partition(os.sep)[0].removesuffix(".py") for name in files)]


def way_of(harness: Any) -> Way:
    """The path of a call, in an async node of a run without a store."""
    ways: list[Way] = []

    async def node(state: State, ctx: graphrt.Context) -> Any:
        def ask() -> Any:
            try:
                ctx.harness.run("one").send(None)
            except StopIteration as done:
                return done.value
            raise AssertionError("a call of a double waits for nothing")

        ways.append(Way())
        return {"said": ways[-1].walk(ask).text}

    g = GraphBuilder(State, name="g")
    g.add_node("q", node)
    g.add_edge(START, "q").add_edge("q", END)
    graph = g.compile()
    for _ in range(2):  # the first run imports modules on first use
        graph.run({}, harness=harness)
    return ways[-1]


def test_call_of_a_mock_crosses_few_files_and_packages() -> None:
    way = way_of(MockHarness(["yes", "yes"]))

    assert len(set(way.files)) <= 23, sorted(set(way.files))
    assert way.depth <= 12
    assert not way.again  # no callee enters a package of its callers again
    # Packages alternate where a call is bound, recorded and answered, but not for each option.
    assert len(way.rooms) <= 24, way.rooms


def test_call_through_an_agent_crosses_few_files_and_packages() -> None:
    async def yes(_request: ModelRequest) -> str:
        return "yes"

    way = way_of(Agent(FunctionModel(yes)))  # a sync function would be called in a worker thread

    assert len(set(way.files)) <= 29, sorted(set(way.files))
    assert way.depth <= 18
    assert len(way.rooms) <= 20, way.rooms
