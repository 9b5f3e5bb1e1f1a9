"""SQL agent: tables and schema first, then a query that is checked and run; a failed query is rewritten."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel
from tests.testing.langgraph_examples.example import Example

from graphrt import END, START, Context, GraphBuilder
from graphrt.graph import CompiledGraph
from graphrt.harness import Agent, FunctionModel
from graphrt.reducers import append

TABLES = {"albums": ["title", "year"]}
writer = Agent("test/model", name="query-writer")
answerer = Agent("test/model", name="answerer")


class State(BaseModel):
    question: str
    tables: dict[str, list[str]] = {}
    query: str = ""
    problem: str = ""
    errors: Annotated[list[str], append] = []
    rows: list[str] | None = None
    answer: str = ""


def list_tables(_state: State) -> dict[str, Any]:
    return {"tables": TABLES}


async def write_query(state: State, ctx: Context) -> dict[str, Any]:
    return {"query": (await ctx.bind(writer).run(f"{state.question} {state.errors[-1:]}")).text, "problem": ""}


def check_query(state: State) -> dict[str, Any]:
    return {"problem": "" if state.query.startswith("SELECT ") else "only SELECT is allowed"}


def run_query(state: State) -> dict[str, Any]:
    column = state.query.split()[1]
    if not any(column in columns for columns in state.tables.values()):
        raise LookupError(f"no such column: {column}")
    return {"rows": [f"{column} of Blue"]}


def note_problem(state: State, ctx: Context) -> dict[str, Any]:
    return {"errors": [str(ctx.error) if ctx.error else state.problem]}


async def answer(state: State, ctx: Context) -> dict[str, Any]:
    return {"answer": (await ctx.bind(answerer).run(f"{state.question}: {state.rows}")).text}


def give_up(state: State) -> dict[str, Any]:
    return {"answer": f"No query worked: {'; '.join(state.errors)}"}


def allowed(state: State) -> Literal["run", "refused"]:
    return "refused" if state.problem else "run"


def graph() -> CompiledGraph[State, Any]:
    g = GraphBuilder(State, name="sql-agent")
    g.add_node("list_tables", list_tables)
    g.add_node("write_query", write_query, max_visits=3, on_fatigue="give_up")
    g.add_node("check_query", check_query)
    g.add_node("run_query", run_query, on_error="note_problem")
    g.add_node("note_problem", note_problem)
    g.add_node("answer", answer)
    g.add_node("give_up", give_up)
    g.add_sequence([START, "list_tables", "write_query", "check_query"])
    g.add_conditional_edges("check_query", allowed, {"run": "run_query", "refused": "note_problem"})
    g.add_edge("note_problem", "write_query")
    g.add_sequence(["run_query", "answer", END])
    g.add_edge("give_up", END)
    return g.compile()


def options() -> dict[str, Any]:
    return {
        "models": {
            "query-writer": FunctionModel(lambda r: "SELECT title" if "no such" in r.text else "SELECT name"),
            "answerer": FunctionModel(lambda request: f"Found {request.text}"),
        }
    }


EXAMPLE = Example(
    name="sql-agent",
    graph=graph,
    input={"question": "Which albums are there?"},
    options=options,
    replies={"query-writer": ["SELECT title", "SELECT name", "DROP albums"], "answerer": ["Blue."]},
)
