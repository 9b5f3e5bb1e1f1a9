"""Shared graphs of the tests of the test kit, and runs of pytest in subprocesses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel
from tests.testing.warm_python import warm_python

from graphrt import END, START, Context, GraphBuilder, RetryPolicy, Send
from graphrt.harness import Agent, ScriptedModel, ToolCall
from graphrt.reducers import add, append
from graphrt.testing import golden_trace, record


class State(BaseModel):
    question: str = "tea"
    notes: Annotated[list[str], append] = []
    calls: Annotated[int, add] = 0
    answer: str | None = None


def search(state: State) -> dict[str, Any]:
    return {"notes": [f"on {state.question}"], "calls": 1}


def enough(state: State) -> Literal["more", "done"]:
    return "done" if state.calls >= 2 else "more"


def answer(state: State) -> dict[str, Any]:
    return {"answer": " and ".join(state.notes)}


def research(**policy: Any) -> Any:
    """search, again until there are two notes, then answer."""
    g = GraphBuilder(State, name="research")
    g.add_node("search", search, **policy)
    g.add_node("answer", answer)
    g.add_edge(START, "search")
    g.add_conditional_edges("search", enough, {"more": "search", "done": "answer"})
    g.add_edge("answer", END)
    return g.compile()


def mapped() -> Any:
    """plan starts a task of fetch for each word, and total follows them."""
    g = GraphBuilder(State, name="mapped")
    g.add_node("plan", lambda state: None)
    g.add_node("fetch", lambda state, ctx: {"notes": [ctx.arg], "calls": 1})
    g.add_node("total", lambda state: {"answer": str(state.calls)})
    g.add_edge(START, "plan")
    g.add_conditional_edges("plan", lambda state: [Send("fetch", w) for w in state.question.split()], ["fetch"])
    g.add_edge("fetch", "total")
    return g.compile()


def asking() -> Any:
    """draft, then a person decides whether it is sent."""
    g = GraphBuilder(State, name="asking")
    g.add_node("draft", lambda state: {"notes": ["a draft"]})

    def review(state: State, ctx: Context) -> dict[str, Any]:
        return {"answer": ctx.interrupt({"draft": state.notes[-1]}, key="review")}

    g.add_node("review", review)
    g.add_node("send", lambda state: {"calls": 1})
    g.add_edge(START, "draft")
    g.add_edge("draft", "review")
    g.add_conditional_edges("review", lambda state: state.answer == "yes", {True: "send", False: END})
    g.add_edge("send", END)
    return g.compile()


RETRY = RetryPolicy(attempts=3, wait_initial_s=1.0, jitter=False)


def price(of: str) -> int:
    """The price of a good."""
    return {"tea": 3}[of]


writer = Agent("openai/gpt-4o", name="writer", system="Write one sentence.", tools=[price])


def report(prompt: str = "What is {}?", *, upper: bool = True, again: bool = False, extra: bool = False) -> Any:
    """draft calls an agent, check decides whether send follows; the arguments plant bugs."""
    g = GraphBuilder(State, name="report")

    async def draft(state: State, ctx: Context) -> dict[str, Any]:
        return {"notes": [(await writer.run(prompt.format(state.question))).text]}

    def check(state: State) -> dict[str, Any]:
        return {"answer": state.notes[-1].upper() if upper else state.notes[-1]}

    g.add_node("draft", draft)
    g.add_node("check", check)
    g.add_node("send", lambda state: {"calls": 1})
    g.add_node("extra", lambda state: None)
    g.add_edge(START, "draft")
    g.add_edge("extra", "check")
    g.add_conditional_edges("draft", lambda state: extra, {True: "extra", False: "check"})
    g.add_conditional_edges("check", lambda state: not again or len(state.notes) > 1, {True: "send", False: "draft"})
    g.add_edge("send", END)
    return g.compile()


def reported(graph: Any) -> str:
    script: list[Any] = [ToolCall(id="c1", name="price", arguments={"of": "tea"}), "A leaf.", "A drink."]
    model = ScriptedModel(script)
    run = record(graph, {}, models={"writer": model})
    return golden_trace(run, requests={"writer": model.calls})


def run_pytest(folder: Path, *options: str, warm: bool = True, **files: str) -> tuple[int, str]:
    """Run pytest in *folder* on *files*; return its exit code and its output.

    The run is a fork of a process that has imported graphrt, or a new interpreter without *warm*.
    """
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    env = {key: value for key, value in os.environ.items() if not key.startswith(("GRAPHRT_", "PYTEST_"))}
    env |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    arguments = ["-m", "pytest", "-p", "pytest_graphrt", "-p", "no:cacheprovider", *options]
    if warm:
        done = warm_python().run(arguments, cwd=folder, env=env)
    else:
        command = [sys.executable, *arguments]
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, done.stdout + done.stderr
