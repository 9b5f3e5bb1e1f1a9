"""What an agent may call besides plain tools: another agent, or a graph; and a graph that is spoken to as an agent."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol, Unpack, final

from graphrt._ambient import NODE, PARENT_AGENT, Above, live
from graphrt.errors import AgentLimitError, InputError, ToolArgumentsError, ToolError, count
from graphrt.harness.agent._services import HERE, Place
from graphrt.harness.agent.events import SubAgentItem
from graphrt.harness.messages import Prompt, ToolSpec
from graphrt.harness.protocol import AgentReply
from graphrt.harness.request import RunOptions
from graphrt.harness.tools._options import check_name
from graphrt.harness.tools.protocol import ToolContext, ToolPolicy, ToolResult

if TYPE_CHECKING:
    from graphrt.events import Usage
    from graphrt.harness.agent.agent import Agent

__all__ = ["GraphHarness", "GraphTool"]

_QUESTION: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"question": {"type": "string", "description": "All that it has to know, in full sentences."}},
    "required": ["question"],
    "additionalProperties": False,
}


_ANY_DEPTH: Final = 1 << 30


@final
class AgentTool:
    """An agent as a tool of another one: see `Agent.as_tool`."""

    def __init__(
        self, agent: Agent, name: str, description: str, *, approval: bool = False, timeout_s: float | None = None
    ) -> None:
        self.agent: Final = agent
        check_name(name, where=f"agent {agent.name!r} as a tool")
        self.spec: Final = ToolSpec(name=name, description=description, parameters=_QUESTION)
        self.policy: Final = ToolPolicy(effect="idempotent", approval=approval, timeout_s=timeout_s)

    def check(self, arguments: Mapping[str, Any], /) -> Mapping[str, Any]:
        """One question, a text."""
        if set(arguments) != {"question"} or not isinstance(arguments["question"], str):
            raise ToolArgumentsError("Give exactly one argument, `question`, a text.", tool=self.spec.name)
        return arguments

    async def call(self, arguments: Mapping[str, Any], context: ToolContext, /) -> Any:
        """Ask the agent."""
        reply = await self.agent.run(arguments["question"], deps=context.deps)
        return ToolResult(text=reply.text, value=reply.output if reply.output is not None else reply.text)

    def __repr__(self) -> str:
        return f"AgentTool({self.spec.name!r}, {self.agent!r})"


class Runs(Protocol):
    """What is used of a compiled graph."""

    @property
    def name(self) -> str:
        """Of the graph."""
        ...

    # A property: no signature of a protocol fits options that are `Unpack[RuntimeOptions]`, which live floors above.
    @property
    def arun(self) -> Callable[..., Coroutine[Any, Any, Any]]:
        """Run it once, on an input, with options."""
        ...


@final
class GraphTool:
    """A graph as a tool: the model gives its input, and is told its output.

    Args:
        graph: A compiled graph.
        description: Tells the model what it is good for.
        input: The type of the arguments; by default the `input=` of its GraphBuilder, else its state. Only what it has
            fields for is passed on to the graph.
        output: Makes of the final state what the model is told; by default the whole state.
        name: Of the tool; by default the graph's.
        options: Of `graph.arun`, for instance `harness=` and `limits=`.

    Raises:
        InputError: No schema can be made of the arguments (`tool-schema`), or the name is none for a tool (`bad-tool`).
    """

    def __init__(
        self,
        graph: Runs,
        *,
        description: str,
        input: Any = None,
        output: Callable[[Any], Any] | None = None,
        name: str | None = None,
        policy: ToolPolicy | None = None,
        **options: Any,
    ) -> None:
        from graphrt.harness.agent._graph_input import GraphInput

        name = check_name(graph.name if name is None else name, where=f"graph {graph.name!r} as a tool")
        self._input = GraphInput(graph, input)
        self._graph = graph
        self._output = output
        self._options = options
        self.spec: Final = ToolSpec(name=name, description=description, parameters=self._input.schema)
        self.policy: Final = policy if policy is not None else ToolPolicy()

    def check(self, arguments: Mapping[str, Any], /) -> Mapping[str, Any]:
        """The graph's input: what its type makes of the arguments, and nothing that it does not name.

        Raises:
            ToolArgumentsError: They do not fit; `what` is written for the model.
        """
        return self._input.read(arguments, self.spec.name)

    async def call(self, arguments: Mapping[str, Any], context: ToolContext, /) -> Any:
        """Run the graph. What its model calls used is counted for the agent, and where that works for a graph.

        Raises:
            ToolError: The run did not come to its end.
        """
        options = {"deps": context.deps, **self._options}
        here = HERE.get()
        took: list[Usage] = []
        try:
            with _part_of(here, self._graph.name, took):
                result = await self._graph.arun(dict(arguments), **options)
        finally:
            if isinstance(here, Place):
                for usage in took:
                    here.took.append(usage)
                    await here.host.spent(f"{here.path}{self._graph.name}", usage, self._graph.name)
        _check_ended(self._graph, result)
        return result.state if self._output is None else self._output(result.state)


@final
class GraphHarness:
    """A graph that is spoken to as a harness: a prompt becomes its input, its output the reply.

    Args:
        graph: A compiled graph.
        input: Makes the graph's input of the prompt.
        output: Makes the reply's text of the final state.
        options: Of `graph.arun`.
    """

    def __init__(
        self, graph: Runs, *, input: Callable[[Prompt], Any], output: Callable[[Any], str], **options: Any
    ) -> None:
        self._graph = graph
        self._input = input
        self._output = output
        self._options = options

    async def run(self, prompt: Prompt, /, **options: Unpack[RunOptions]) -> AgentReply:
        """Run the graph once.

        Raises:
            InputError: Options were given; a graph has none.
            ToolError: The run did not come to its end.
        """
        if any(value is not None for value in options.values()):
            raise InputError("A graph as a harness takes no options.", known=", ".join(options))
        took: list[Usage] = []
        try:
            with _part_of(HERE.get(), self._graph.name, took):
                result = await self._graph.arun(self._input(prompt), **self._options)
        except BaseException:
            await _paid(self._graph.name, took)
            raise
        _check_ended(self._graph, result)
        usage = sum(took[1:], took[0]) if took else result.usage
        return AgentReply(text=self._output(result.state), usage=usage, model=self._graph.name, output=result.state)


async def _paid(graph: str, took: list[Usage]) -> None:
    """Count what a run used that failed: there is no reply that tells it."""
    node = live(NODE.get())
    if node is None:
        return
    for usage in took:
        await node._host().spent(f"graph/{graph}", usage, graph)


@contextmanager
def _part_of(here: Any, graph: str, took: list[Usage]) -> Generator[None, None, None]:
    """What runs inside is a part of the agent's run *here*: of its budget, its depth and its stream; *took* gets usage.

    Raises:
        AgentLimitError: It would be too deep.
    """
    if not isinstance(here, Place):
        run_by = PARENT_AGENT.get()
        token = PARENT_AGENT.set(
            Above(None, 0, _ANY_DEPTH, None, took) if run_by is None else run_by._replace(took=took)
        )
        try:
            yield
        finally:
            PARENT_AGENT.reset(token)
        return
    if here.depth + 1 > here.most_depth:
        raise AgentLimitError(
            f"Graph {graph!r} is run {count(here.depth + 1, 'level')} deep.",
            where=" > ".join((*here.names, graph)),
            known=f"depth={here.most_depth}",
            fix="Raise AgentLimits(depth=...) of the agents above, if the nesting is meant.",
            limit=here.most_depth,
        )
    show = here.emit

    def emit(node: str, item: Any) -> None:
        assert show is not None  # noqa: S101 - else it is not passed on
        show(SubAgentItem(agent=f"{graph}/{node}", item=item))

    above = Above(here.ledger, here.depth + 1, here.most_depth, None if show is None else emit, took)
    outer, inner, node_ = PARENT_AGENT.set(above), HERE.set(None), NODE.set(None)
    try:
        yield
    finally:
        NODE.reset(node_)
        HERE.reset(inner)
        PARENT_AGENT.reset(outer)


def _check_ended(graph: Runs, result: Any) -> None:
    if result.status != "completed":
        raise ToolError(
            f"Graph {graph.name!r} was {result.status} before it came to its end.",
            code="graph-not-ended",
            known="its run has no thread that could be resumed from here",
            fix="Ask in a node of the outer graph instead, or nest the graph there as a node.",
            tool=graph.name,
        )
