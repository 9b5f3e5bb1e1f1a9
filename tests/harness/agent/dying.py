"""A process with an agent in a graph that kills itself at a point: `python dying.py STORE LOG KIND NODES POINT VERB
LIFE`.

Each call of a model or a tool appends a line to the log. Not a test.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel

from graphrt import GraphBuilder, Runtime
from graphrt.events import Usage
from graphrt.harness import Agent, FunctionModel, ToolCall, ToolContext, tool
from graphrt.harness.protocol import AgentReply
from graphrt.reducers import append

_, STORE, LOG, KIND, NODES, POINT, VERB, LIFE = sys.argv


class State(BaseModel):
    said: Annotated[list[Any], append] = []


def reached(point: str) -> None:
    if point == POINT:
        os.kill(os.getpid(), signal.SIGKILL)


def did(what: str) -> None:
    with Path(LOG).open("a") as log:
        log.write(f"{what}\n")
        log.flush()
        os.fsync(log.fileno())


@tool(effect=KIND)  # type: ignore[arg-type]  # one of the kinds
def act(x: int, context: ToolContext) -> str:
    """Perform a side effect."""
    reached(f"before act {x}")
    Path(f"{LOG}.{x}").write_text(context.idempotency_key)  # as the outside world would record it
    did(f"act {x}")
    reached(f"after act {x}")
    return f"acted {x}"


def answer(request: Any) -> AgentReply:
    turn = sum(said.role == "assistant" for said in request.messages) + 1
    reached(f"before model {turn}")
    did(f"model {turn}")
    reached(f"after model {turn}")
    calls = [
        ToolCall(id=f"c{turn}-{x}", name="act", arguments_text=json.dumps({"x": x})) for x in (2 * turn, 2 * turn + 1)
    ]
    used = Usage(input_tokens=1, calls=1)
    return (
        AgentReply(tool_calls=tuple(calls[: 3 - turn]), usage=used) if turn < 3 else AgentReply(text="done", usage=used)
    )


agent = Agent(FunctionModel(answer), tools=[act])


async def body(state: State, ctx: Any) -> Any:
    reply = await ctx.bind(agent).run("go")
    reached("before end")
    return {"said": [said.text for said in reply.messages]}


def sync_body(state: State, ctx: Any) -> Any:
    return ctx.call(body, state, ctx)


builder = GraphBuilder(State, name="dying")
builder.add_node("n", body if NODES == "async" else sync_body)
builder.set_entry("n").set_finish("n")
# No earlier lease lasts until this life: an hour lies between them.
with Runtime(builder.compile(), store=STORE, clock=lambda: time.time() + 3600 * int(LIFE)) as runtime:
    answers = json.loads(VERB) if VERB.startswith("{") else None
    if answers is not None:
        result = runtime.resume("t", {one.id: answers["answer"] for one in runtime.state("t").interrupts})
    elif VERB == "run":
        result = runtime.run({}, thread="t")
    else:
        result = getattr(runtime, VERB)("t")
    calls = result.usage.calls if result.usage else 0
    told = ("problem", "effect", "arguments", "idempotency_key")
    asked = [[one.payload[name] for name in told] for one in result.interrupts]
    end = json.dumps({"said": result.state.said, "calls": calls, "status": result.status, "asked": asked})
    sys.stdout.write(end)
