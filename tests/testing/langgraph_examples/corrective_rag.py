"""Corrective retrieval: documents are graded, a poor search is widened to the web once, and the answer is checked."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel
from tests.testing.langgraph_examples.example import Example

from graphrt import END, START, Context, GraphBuilder
from graphrt.graph import CompiledGraph
from graphrt.harness import Agent, FunctionModel

grader = Agent("test/model", name="grader", output=bool)
rewriter = Agent("test/model", name="rewriter")
answerer = Agent("test/model", name="answerer")
checker = Agent("test/model", name="checker", output=bool)


class State(BaseModel):
    question: str
    documents: list[str] = []
    relevant: list[str] = []
    searched_web: bool = False
    answer: str = ""
    grounded: bool = False
    tries: int = 0


def retrieve(state: State) -> dict[str, Any]:
    return {"documents": [f"on {state.question}"]}


async def grade(state: State, ctx: Context) -> dict[str, Any]:
    kept = [text for text in state.documents if (await ctx.bind(grader).run(text)).output]
    return {"relevant": kept}


async def rewrite(state: State, ctx: Context) -> dict[str, Any]:
    return {"question": (await ctx.bind(rewriter).run(state.question)).text}


def search_web(state: State) -> dict[str, Any]:
    return {"documents": [f"web on {state.question}"], "searched_web": True}


async def generate(state: State, ctx: Context) -> dict[str, Any]:
    answer = (await ctx.bind(answerer).run(f"{state.question}: {state.relevant}")).text
    return {"answer": answer, "tries": state.tries + 1}


async def check(state: State, ctx: Context) -> dict[str, Any]:
    return {"grounded": (await ctx.bind(checker).run(state.answer)).output}


def useful(state: State) -> Literal["generate", "rewrite"]:
    return "generate" if state.relevant or state.searched_web else "rewrite"


def good(state: State) -> Literal["done", "again"]:
    return "done" if state.grounded or state.tries >= 2 else "again"


def graph() -> CompiledGraph[State, Any]:
    g = GraphBuilder(State, name="corrective-rag")
    for node in (retrieve, grade, rewrite, search_web, generate, check):
        g.add_node(node.__name__, node)
    g.add_sequence([START, "retrieve", "grade"])
    g.add_conditional_edges("grade", useful, {"generate": "generate", "rewrite": "rewrite"})
    g.add_sequence(["rewrite", "search_web", "grade"])
    g.add_edge("generate", "check")
    g.add_conditional_edges("check", good, {"done": END, "again": "generate"})
    return g.compile()


def options() -> dict[str, Any]:
    return {
        "models": {
            "grader": FunctionModel(lambda request: "web" in request.text),
            "rewriter": FunctionModel(lambda request: f"{request.text}, precisely"),
            "answerer": FunctionModel(lambda request: f"Answer to {request.text}"),
            "checker": FunctionModel(lambda _: True),
        }
    }


EXAMPLE = Example(
    name="corrective-rag",
    graph=graph,
    input={"question": "tea"},
    options=options,
    replies={
        "grader": [True, False],
        "rewriter": ["green tea"],
        "answerer": ["An answer."],
        "checker": [True, False],
    },
)
