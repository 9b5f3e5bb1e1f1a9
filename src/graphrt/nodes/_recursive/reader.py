"""The graph of a reader: one model call with its tool calls per superstep, and a task for each sub-call.

```text
   START -> think ==Sends==> piece, reader -> think ... -> END
              |  ^
              +--+
```

`reader` is the graph of a reader one level below, until the deepest level. Tasks find the text in an untracked field:
it is passed by reference, and no journal entry contains it.

A failed call that the model can handle is reported to it as a finding of the task. Any other failure fails the task, so
that `retry` repeats only this task.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import BaseModel

from graphrt._drivers.context import Context
from graphrt.commands import END, START, Command, Send
from graphrt.errors import (
    AgentLimitError,
    AuthenticationError,
    BudgetExceededError,
    HarnessError,
    ModelRequestForbiddenError,
    ScriptError,
)
from graphrt.errors._codes.recursion import LONG_TEXT_CHANGED, QUESTION_TOO_LONG, READING_WITHOUT_ANSWER
from graphrt.graph import CompiledGraph, GraphBuilder
from graphrt.harness import Agent, AssistantMessage, ToolMessage
from graphrt.limits import Limits
from graphrt.nodes._recursive.desk import DESK, Desk, Sandbox
from graphrt.nodes._recursive.limits import RecursiveLimits, clipped, size_of
from graphrt.nodes._recursive.long_text import LongText
from graphrt.nodes._recursive.planning import outcome_of
from graphrt.nodes._recursive.prompts import Situation, Turn, piece_prompt, reader_prompt
from graphrt.nodes._recursive.sub_calls import Finding, Plan, as_text, combined, findings_of
from graphrt.reducers import add, append, merge, untracked

__all__ = ["Reading", "Setup", "reader_graph"]

_THINK, _PIECE, _READER = "think", "piece", "reader"


class Reading(BaseModel):
    """The state of a reader."""

    source: Annotated[Any, untracked] = None
    """The text, a LongText."""
    question: str = ""
    start: int = 0
    end: int = 0
    allowed: int = 0
    """Model calls that it may make, including everything below it."""
    plan: str = ""
    """Key of the plan, in the graph above, that it answers."""
    at: int = 0
    """Number of its piece in that plan."""
    seen: str = ""
    """Mark of the text with which it began."""
    turns: Annotated[list[dict[str, Any]], append] = []
    """Each turn: the model's message (`said`), and the `results` of the tools."""
    notes: list[str] = []
    plans: Annotated[dict[str, Any], merge] = {}
    found: Annotated[list[Any], append] = []
    """Findings of all plans."""
    calls: Annotated[int, add] = 0
    """Model calls so far, including everything below."""
    answer: str = ""
    failed: bool = False
    """Whether it found no answer; `answer` then has the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The settings that all readers of one `recursive` share."""

    name: str
    reader: Agent[Any]
    """Harness for the calls of readers, with the tools."""
    piece: Agent[Any]
    """Harness for sub-calls about single pieces."""
    limits: RecursiveLimits
    sandbox: Sandbox | None
    system: str
    """Instructions of the caller, after the built-in ones."""


def reader_graph(setup: Setup, level: int = 0) -> CompiledGraph[Reading, Mapping[str, Any]]:
    """Return the graph of a reader that is *level* levels below the first."""
    limits = setup.limits
    deeper = level < limits.depth
    g: GraphBuilder[Reading, Mapping[str, Any]] = GraphBuilder(Reading, name=f"{setup.name}-{level}")

    async def think(state: Reading, ctx: Context[Any]) -> Command[Mapping[str, Any]]:
        try:
            return await _think(setup, state, ctx, level=level)
        except Exception as error:
            if not level or not _is_told(limits, error):
                raise
            return Command(update={"answer": _told(error, limits), "failed": True, "calls": 1}, goto=END)

    async def piece(state: Reading, ctx: Context[Any]) -> dict[str, Any]:
        return await _piece(setup, state, ctx)

    targets: list[Any] = [_THINK, _PIECE, *([_READER] if deeper else []), END]
    g.add_node(_THINK, think, goto=targets, max_visits=None)
    g.add_node(_PIECE, piece, max_visits=None)
    if deeper:
        g.add_node(
            _READER,
            reader_graph(setup, level + 1),
            input={"source": "source"},
            output=_finding_of,
            budget=limits.reader_budget,
            max_visits=None,
        )
        g.add_edge(_READER, _THINK)
    g.add_edge(START, _THINK)
    g.add_edge(_PIECE, _THINK)
    rooms = Limits(max_tasks=limits.calls + 1, max_steps=2 * limits.turns + 2, max_concurrency=limits.concurrency)
    return g.compile(limits=rooms)


# ---------------------------------------------------------------------------------------------------------- thinking


async def _think(setup: Setup, state: Reading, ctx: Context[Any], *, level: int) -> Command[Mapping[str, Any]]:
    """Make one model call and its tool calls, and start the requested sub-calls.

    Raises:
        InputError: The question is too long, or the text changed.
        LimitError: The model did not answer in its last turn (`no-answer`).
    """
    limits, text = setup.limits, _text_of(state)
    if size_of(state.question) > limits.question_chars:
        raise QUESTION_TOO_LONG(size=size_of(state.question), limit=limits.question_chars)
    calls_left = state.allowed - state.calls - 2  # one for this call, and one to answer
    turn = len(state.turns)
    last = turn + 1 >= limits.turns or calls_left < 0
    derived = _derived(state)
    reads_deeper = level < limits.depth
    desk = Desk(text=text, start=state.start, end=state.end, derived=derived, limits=limits, sandbox=setup.sandbox)
    now = Situation(
        question=state.question,
        start=state.start,
        end=state.end,
        documents=len(text.documents.between(state.start, state.end)),
        notes=state.notes,
        turns=_turns(state, limits.result_chars),
        derived={name: item.length for name, item in derived.items()},
        left=max(0, calls_left),
        reads_deeper=reads_deeper,
        last=last,
    )
    prompt = reader_prompt(now, setup.reader.tools.specs, limits, setup.system)
    token = DESK.set(desk)
    try:
        reply = await ctx.bind(setup.reader).run(prompt, tool_choice="none" if last else "auto")
    finally:
        DESK.reset(token)
    message, *results = reply.new_messages
    assert isinstance(message, AssistantMessage)  # noqa: S101 - for type checkers
    seen = {} if state.seen else {"seen": text.mark}
    if not message.tool_calls:
        return Command(update={"answer": reply.text, "calls": 1, **seen}, goto=END)
    if last:
        option, bound = ("turns", limits.turns) if turn + 1 >= limits.turns else ("calls", state.allowed)
        raise READING_WITHOUT_ANSWER(
            model=reply.model or setup.reader.models[0].profile.name, option=option, limit=bound, calls=state.calls + 1
        )
    outcome = outcome_of(
        message.tool_calls,
        [result for result in results if isinstance(result, ToolMessage)],
        desk=desk,
        question=state.question,
        notes=state.notes,
        turn=turn,
        known=len(state.plans),
        left=max(0, calls_left),
        reads_deeper=reads_deeper,
    )
    update = {
        "turns": [{"said": message, "results": outcome.results}],
        "notes": outcome.notes,
        "plans": outcome.plans,
        "calls": 1,
    }
    sends = [send for key, plan in outcome.plans.items() for send in _sends(key, plan, outcome.allowed.get(key, 0))]
    return Command(update={**update, **seen}, goto=sends or _THINK)


def _sends(key: str, plan: Plan, allowed: int) -> list[Send]:
    """Return a Send for each sub-call of a plan. It names a range; only a reader's Send also holds the question."""
    bounds = plan["bounds"]
    if plan["reader"]:
        start, end = bounds
        arg = {"question": plan["question"], "start": start, "end": end, "allowed": allowed, "plan": key, "at": 0}
        return [Send(_READER, arg)]
    return [Send(_PIECE, {"plan": key, "at": at}) for at in range(len(bounds) - 1)]


def _turns(state: Reading, max_chars: int) -> list[Turn]:
    """Return the turns with the results of sub-calls filled in."""
    turns: list[Turn] = []
    for number, turn in enumerate(state.turns):
        results: list[ToolMessage] = []
        for index, result in enumerate(turn["results"]):
            key = f"{number}.{index}"
            plan = state.plans.get(key)
            if plan is None:
                results.append(result)
                continue
            text = clipped(combined(plan, findings_of(key, state.found)), max_chars)
            results.append(ToolMessage(tool_call_id=result.tool_call_id, text=text))
        turns.append(Turn(said=turn["said"], results=results))
    return turns


def _derived(state: Reading) -> dict[str, LongText]:
    """Return the texts built from the answers of maps, by name."""
    plans: Mapping[str, Plan] = state.plans
    return {
        plan["name"]: LongText.of(as_text(plan, findings_of(key, state.found)))
        for key, plan in plans.items()
        if plan["combine"] != "answer"
    }


def _text_of(state: Reading) -> LongText:
    """Return the text.

    Raises:
        InputError: It is not the text with which the reader began (`long-text-changed`).
    """
    text: LongText = state.source
    if state.seen and text.mark != state.seen:
        raise LONG_TEXT_CHANGED(before=state.seen, now=text.mark)
    return text


# --------------------------------------------------------------------------------------------------------- sub-calls


async def _piece(setup: Setup, state: Reading, ctx: Context[Any]) -> dict[str, Any]:
    """Ask about one piece."""
    key, at = ctx.arg["plan"], ctx.arg["at"]
    plan: Plan = state.plans[key]
    start, end = plan["bounds"][at : at + 2]
    text = _text_of(state) if plan["of"] == "text" else _derived(state)[plan["of"]]
    try:
        piece = ctx.bind(setup.piece, budget=setup.limits.piece_budget)
        reply = await piece.run(piece_prompt(plan, text.read(start, end), start, end))
    except Exception as error:
        if not _is_told(setup.limits, error):
            raise
        return {"found": [Finding(plan=key, at=at, text=_told(error, setup.limits), failed=True)], "calls": 1}
    answer = clipped(reply.text, setup.limits.finding_chars)
    return {"found": [Finding(plan=key, at=at, text=answer, failed=False)], "calls": 1}


def _finding_of(state: Reading) -> dict[str, Any]:
    """Convert a reader's last state to an update of the graph above it."""
    return {
        "found": [Finding(plan=state.plan, at=state.at, text=state.answer, failed=state.failed)],
        "calls": state.calls,
    }


_PASSING: Final = (AuthenticationError, ModelRequestForbiddenError, ScriptError)
"""Failures that the next call would meet as well."""


def _is_told(limits: RecursiveLimits, error: Exception) -> bool:
    """Return whether a failure is reported to the model: of a failed call, a missing answer, or a slice that is used up."""
    if isinstance(error, BudgetExceededError):
        own: Any = error.limit
        return own != limits.budget and own in (limits.piece_budget, limits.reader_budget)
    if isinstance(error, _PASSING):
        return False
    return (
        isinstance(error, HarnessError | AgentLimitError) or getattr(error, "code", "") == READING_WITHOUT_ANSWER.code
    )


def _told(error: Exception, limits: RecursiveLimits) -> str:
    text = getattr(error, "what", "") or str(error)
    return clipped(f"{type(error).__name__}: {text}", limits.finding_chars)
