"""`recursive`, a node that answers a question about a text of any length, and `RecursiveHarness`, its harness form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar, final

import typing_extensions as te
from pydantic import BaseModel

from graphrt._arguments import MappingError, a_kind
from graphrt._cancellations import failures
from graphrt.commands import END, START
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.graph import CompiledGraph, GraphBuilder
from graphrt.harness import (
    Agent,
    AgentLimits,
    AgentReply,
    ChatModel,
    GraphHarness,
    Prompt,
    RunOptions,
    Template,
    UserMessage,
)
from graphrt.nodes._recursive.desk import Sandbox, reading_tools
from graphrt.nodes._recursive.limits import CostBound, RecursiveLimits
from graphrt.nodes._recursive.long_text import LongText
from graphrt.nodes._recursive.prompts import room_needed
from graphrt.nodes._recursive.reader import Setup, reader_graph
from graphrt.nodes._state_access import checked_names, read

__all__ = ["ReaderOptions", "RecursiveHarness", "recursive"]

S = TypeVar("S")
_READ: Final = "read"


class ReaderOptions(te.TypedDict, total=False):
    """Models and bounds of a reading. All are optional."""

    piece_model: str | ChatModel | None
    """The model of sub-calls, usually a smaller one; None uses the reader's model."""
    fallbacks: Sequence[str | ChatModel]
    """Models that are called in turn when the reader's model has failed permanently."""
    limits: RecursiveLimits | None
    sandbox: Sandbox | None
    """Runs code that the model writes, as the tool `run_code`; None offers no such tool."""
    system: str
    """Further instructions for readers."""
    name: str
    """Name of the readers' agent, "recursive" by default. The agent of sub-calls has the suffix "-piece"."""


def recursive(
    state: type[S],
    question: str | Template | Callable[[S], str],
    *,
    context: str | Callable[[S], Any],
    into: str,
    model: str | ChatModel,
    **options: te.Unpack[ReaderOptions],
) -> CompiledGraph[S, Mapping[str, Any]]:
    """Return a graph for `add_node` that answers a question about a text that is longer than any prompt.

    The text is never part of a prompt. A model inspects it by tools: it searches, reads ranges, asks a smaller model
    about many pieces in parallel, asks another reader about a long range, and keeps notes. Each sub-call is a task:
    recorded, with a separate budget, and shown by the stream mode `live`. Sub-calls name ranges, so the journal never
    contains the text again.

    `RecursiveLimits.bound()` is the maximum cost of a reading; a budget enforces it.

    Args:
        state: The state class of the graph around it.
        question: The text of a Template over fields of the state, a Template, or a function of the state.
        context: The field with the text, or a function of the state that returns it: a str, a sequence or mapping of
            str, a path of a file in UTF-8, or a LongText. It must not change before the run has ended.
        into: The field for the answer, a text.
        model: The model of the readers. It must be able to call tools.
        **options: See `ReaderOptions`.

    Raises:
        InputError: An argument is wrong (`input`, or the code of a template or an agent).

    Source:
        Alex L. Zhang, Tim Kraska, Omar Khattab: Recursive Language Models, 2025. There the text is a variable of a
        Python shell and the model writes code. Here it is a value behind tools, so that no model-written code is
        executed.
    """
    setup = _setup(model, options)
    question_source: Any = Template(question) if isinstance(question, str) else question
    if isinstance(question_source, Template):
        question_source.check(state)
    source: Any = context
    if not callable(source):
        if not isinstance(source, str) or not source.isidentifier():
            raise INVALID_ARGUMENT(
                argument="context= of recursive()",
                value=context,
                wanted="the name of a field, or a function of the state",
            )
        Template(f"{{{source}}}").check(state)  # defines the fields
    (target,) = checked_names("into", into, "recursive()", least=1)
    if target.isidentifier():
        Template(f"{{{target}}}").check(state)

    def text_of(values: Any) -> LongText:
        return LongText.of(source(values) if callable(source) else read(values, source))

    def words_of(values: Any) -> str:
        if isinstance(question_source, Template):
            return question_source.render(values)
        words: Any = question_source(values)
        if not isinstance(words, str):
            raise TypeError(f"it returned {a_kind(words)}, not a text")
        return words

    context_argument = "context=" if callable(source) else f"context={source!r}"

    def begin(values: Any) -> dict[str, Any]:
        text = _taken(text_of, values, f"{context_argument} of recursive()")
        words = _taken(words_of, values, "question= of recursive()")
        return {"source": text, "question": words, "start": 0, "end": text.length, "allowed": setup.limits.calls}

    builder: GraphBuilder[S, Mapping[str, Any]] = GraphBuilder(state, name=setup.name)
    builder.add_node(_READ, reader_graph(setup), input=begin, output={target: "answer"}, budget=setup.limits.budget)
    builder.add_edge(START, _READ).add_edge(_READ, END)
    return builder.compile()


def _taken(fn: Callable[[Any], Any], values: Any, argument: str) -> Any:
    """Return `fn(values)`, which *argument* of `recursive` defines.

    Raises:
        MappingError: It failed. The error of the run then names *argument*, not the graph inside.
    """
    try:
        return fn(values)
    except failures() as error:
        raise MappingError(argument, error) from error


def _setup(model: Any, options: ReaderOptions) -> Setup:
    limits = options.get("limits") or RecursiveLimits()
    sandbox: Any = options.get("sandbox")
    if sandbox is not None and not callable(getattr(sandbox, "run", None)):
        raise INVALID_ARGUMENT(
            argument="sandbox= of recursive()", value=sandbox, wanted="an object with `async def run(code, text)`"
        )
    name, system = options.get("name", "recursive"), options.get("system", "")
    # One model call per run of the agent. The graph is the loop, so that every turn and sub-call is a task.
    reader = Agent(
        model,
        name=name,
        tools=reading_tools(sandbox=sandbox is not None),
        fallbacks=options.get("fallbacks", ()),
        max_tokens=limits.answer_tokens,
        limits=AgentLimits(model_calls=1, tool_calls=limits.tool_calls, on_limit="stop"),
    )
    min_chars = room_needed(reader.tools.specs, limits, system)
    if limits.prompt_chars < min_chars:
        taken = min_chars - min_chars // 8
        raise INVALID_ARGUMENT(
            argument="prompt_chars=",
            value=limits.prompt_chars,
            wanted=f"{min_chars} or more, or make notes_chars and question_chars smaller",
            known=f"instructions, tools, question and notes take up to {taken}",
        )
    piece = Agent(
        options.get("piece_model") or model,
        name=f"{name}-piece",
        max_tokens=limits.finding_tokens,
        limits=AgentLimits(model_calls=1),
    )
    return Setup(name=name, reader=reader, piece=piece, limits=limits, sandbox=sandbox, system=system)


class _Asked(BaseModel):
    """The state of a RecursiveHarness's graph."""

    question: str
    answer: str = ""


@final
class RecursiveHarness:
    """A harness that answers questions about one long text: for code outside graphs, or as `harness=` of a node.

    In a node its reply is recorded once it is complete; after a crash in the middle it starts over. A node made by
    `recursive` continues instead.

    Args:
        context: The text, as for `LongText.of`.
        model: The model of the readers.
        **options: See `ReaderOptions`.

    Raises:
        InputError: An argument is wrong.
    """

    def __init__(self, context: Any, *, model: str | ChatModel, **options: te.Unpack[ReaderOptions]) -> None:
        self.text: Final = LongText.of(context)
        """The text."""
        self.bound: Final[CostBound] = (options.get("limits") or RecursiveLimits()).bound()
        """The maximum cost of an answer."""
        graph = recursive(_Asked, "{question}", context=lambda _: self.text, into="answer", model=model, **options)
        self._graph: Final = GraphHarness(
            graph, input=lambda prompt: {"question": _question(prompt)}, output=lambda state: state.answer
        )

    async def run(self, prompt: Prompt, /, **options: te.Unpack[RunOptions]) -> AgentReply:
        """Answer the last message of *prompt*.

        Raises:
            InputError: Options were given; it has none.
            LimitError: No answer was found within the limits.
            HarnessError: A model call of a reader failed.
        """
        return await self.__graphrt_within__(None, prompt, **options)

    async def __graphrt_within__(self, ledger: Any, prompt: Prompt, /, **options: Any) -> AgentReply:
        """Answer, as `run`. Each model call must fit the budget of *ledger*, if there is one."""
        reply = await self._graph.__graphrt_within__(ledger, prompt, **options)
        return AgentReply(text=reply.text, usage=reply.usage, model=reply.model)


def _question(prompt: Prompt) -> str:
    if isinstance(prompt, str):
        return prompt
    texts = [message.text for message in prompt if isinstance(message, UserMessage)]
    return texts[-1] if texts else ""
