"""Graphs as tools of an agent, and graphs as harnesses.

A graph that runs inside an agent shares the budget, depth limit, stream and usage of the calling run. It finds its
caller through the ambient context (`_ambient`), because a compiled graph has no argument for that. `agent` is the
`Place` of the running agent: its budget ledger, depth, stream and the services of the task (`host`). Agents and budgets
inside a graph use `above` to find the agent run that contains the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, Protocol, Unpack, final

from graphrt._agents.graph_input import GraphInput
from graphrt._ambient import Above, inside, running_context, surroundings
from graphrt._engine.open_interrupt import ASKED_BY_CODE
from graphrt._usage.amounts import used_amounts
from graphrt.errors import InputError, names
from graphrt.errors._codes.agents import GRAPH_NOT_ENDED, NESTED_TOO_DEEP
from graphrt.errors._codes.arguments import ARGUMENTS_EXCLUDE_EACH_OTHER
from graphrt.errors._codes.threads import ANSWER_DOES_NOT_FIT
from graphrt.harness.agent._host import Billed, Place, Question
from graphrt.harness.agent.events import SubAgentItem
from graphrt.harness.messages import Prompt, ToolSpec
from graphrt.harness.protocol import AgentReply
from graphrt.harness.request import RunOptions
from graphrt.harness.tools._options import check_name
from graphrt.harness.tools.protocol import ToolContext, ToolPolicy, ToolResult
from graphrt.harness.tools.results import to_result

if TYPE_CHECKING:
    from graphrt.events import Usage
    from graphrt.harness.budget._ledger import Ledger

__all__ = ["GraphHarness", "GraphTool"]

_ANY_DEPTH: Final = 1 << 30
"""Depth limit of agents in a graph that is not run by an agent: unlimited."""


class Runs(Protocol):
    """The part of a compiled graph that is used here.

    The class itself is in a layer above, which this package may not import.
    """

    @property
    def name(self) -> str:
        """The graph's name."""
        ...

    # A property, not a method: its options are `Unpack[RuntimeOptions]`, a type in a layer above that this protocol
    # cannot name.
    @property
    def arun(self) -> Callable[..., Coroutine[Any, Any, Any]]:
        """The async method that runs the graph once with an input and options."""
        ...


@final
class GraphTool:
    """A graph as a tool: the model writes its input and reads its output.

    Args:
        graph: A compiled graph.
        description: Tells the model when to use the tool.
        input: The type of the arguments; by default the `input=` of the GraphBuilder, else the graph's state. Only
            fields of this type are passed on to the graph.
        output: Turns the final state into the result of the tool; by default the result is the whole state.
        name: Name of the tool; by default the graph's.
        policy: Policy of the tool; by default `ToolPolicy()`.
        options: Options of `graph.arun`, for instance `harness=` and `limits=`.

    The graph may ask: if the agent runs in a node on a thread, the run pauses with the graph's questions, and continues
    with the answers. Without such a thread, a question is an error of the run (`interrupt-needs-thread`).

    Raises:
        InputError: No JSON schema can be made of the arguments (`tool-schema`), or the name is not valid for a tool
            (`input`).
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
        self.origin: Final = f"graph {graph.name!r} as a tool"
        name = check_name(graph.name if name is None else name, where=self.origin)
        self._input = GraphInput(graph, input)
        self._graph = graph
        self._output = output
        self._options = options
        self.spec: Final = ToolSpec(name=name, description=description, parameters=self._input.schema)
        self.policy: Final = policy if policy is not None else ToolPolicy()

    def check(self, arguments: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Validate *arguments* and return the graph's input, without undeclared fields.

        Raises:
            ToolArgumentsError: They do not fit; `what` is written for the model.
        """
        return self._input.read(arguments, self.spec.name)

    async def call(self, arguments: Mapping[str, Any], context: ToolContext, /) -> Any:
        """Run the graph. The usage of its model calls counts for the agent, and for the agent's task if it has one.

        Raises:
            ToolError: The run ended with a different status from "completed" (`graph-not-ended`).
        """
        options = {"deps": context.deps, **self._options}  # the agent's `deps`, unless the options override them
        place: Place | None = surroundings().agent
        if place is not None and place.host.thread is not None and "store" not in options:
            resume = getattr(self._graph, "__graphrt_resume__", None)
            if resume is not None:
                return await self._with_questions(place, arguments, context, options, resume)
        result = await self._run(place, lambda: self._graph.arun(dict(arguments), **options))
        _check_ended(self._graph, result)
        return self._told(result)

    async def _with_questions(
        self,
        place: Place,
        arguments: Mapping[str, Any],
        context: ToolContext,
        options: Mapping[str, Any],
        resume: Callable[..., Coroutine[Any, Any, Any]],
    ) -> Any:
        """Run the graph on a separate thread, in memory, and pass its questions on to the agent's task.

        The task runs again when they are answered. To avoid repeating work, each part of the graph's run, up to its
        next pause, is recorded as an effect of the task, together with the graph's thread. A run without a pause
        records nothing.

        Args:
            place: Place of the agent.
            arguments: Input of the graph.
            context: The tool's context.
            options: Options of the graph's run.
            resume: Answers questions of the graph's thread and continues it.

        Raises:
            ToolError: The run ended with a different status from "completed" (`graph-not-ended`).
        """
        from hashlib import sha256

        from graphrt.stores import MemoryStore

        # Derived from the call, so that the idempotency keys of the graph's effects are the same at every execution.
        thread = f"tool-{sha256(context.idempotency_key.encode()).hexdigest()[:32]}"
        values, answers, part = dict(arguments), dict[str, Any](), 0
        paused: Any = None  # result of the previous part; None before the first

        async def make() -> dict[str, Any]:
            """Run the graph up to its next pause or its end. Raises `_Ended` if the first part completes the run."""
            store = MemoryStore()
            store.offers -= {"memory"}  # items that a node stores there would be lost after the call
            if paused is None:
                result = await self._run(place, lambda: self._graph.arun(values, thread=thread, store=store, **options))
            else:
                store.import_thread(BytesIO(paused["thread"]))
                result = await self._run(place, lambda: resume(thread, answers, store=store, **options))
            if result.status == "interrupted" and all(interrupt.answerable for interrupt in result.interrupts):
                buffer = BytesIO()
                store.export_thread(thread, buffer)
                questions = {
                    interrupt.id: {"payload": interrupt.payload, "kind": interrupt.kind}
                    for interrupt in result.interrupts
                }
                return {"thread": buffer.getvalue(), "questions": questions}
            _check_ended(self._graph, result)
            output = self._told(result)
            if paused is None:
                raise _Ended(output)
            tool_result = to_result(output, tool=self.spec.name)
            return {"text": tool_result.text, "error": tool_result.error}

        refusal = ""  # why the graph rejected the last answers; repeated questions show it, under new keys
        times = 1
        while True:
            try:
                paused = await place.host.effect(f"{place.path}part/{part}", make, "idempotent", {})
            except _Ended as ended:
                return ended.result
            except InputError as error:
                if error.code != ANSWER_DOES_NOT_FIT.code or paused is None:
                    raise
                refusal, times = error.what, times + 1
            else:
                part, refusal, times = part + 1, "", 1
            if "questions" not in paused:
                return ToolResult(text=paused["text"], error=paused["error"])
            answers = _answers(place, f"{part}.{times}", paused["questions"], refusal)

    def _told(self, result: Any) -> Any:
        """Return the result of the tool for the final state in *result*."""
        return result.state if self._output is None else self._output(result.state)

    async def _run(self, place: Place | None, run: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Await one *run* of the graph as part of the agent run *place*, and count the usage of its model calls."""
        usages: list[Usage] = []  # usage of each graph run, added when it ends, whether or not it completed
        try:
            with _part_of(place, self._graph.name, usages):
                return await run()
        finally:
            # Also after a failure, because the model calls were billed. The usage counts towards the agent's total and
            # the task's totals, under a key that identifies this agent run and the graph; the graph's name replaces a
            # model's. Without an agent there is no total to add it to.
            if place is not None:
                for usage in usages:
                    place.took.append(usage)
                    await place.host.record(Billed(f"{place.path}{self._graph.name}", usage, self._graph.name))


class _Ended(Exception):  # noqa: N818 - control flow: it keeps a result from being recorded
    """Raised when a graph's run completes without a question: recording the tool call is then enough."""

    def __init__(self, result: Any) -> None:
        super().__init__()
        self.result = result


def _answers(place: Place, part: str, questions: Mapping[str, Mapping[str, Any]], refusal: str) -> dict[str, Any]:
    """Return the answers to the graph's *questions*, by id. The task pauses until all of them are answered.

    Args:
        place: Place of the agent.
        part: Distinguishes the questions of one pause from those of other pauses, and from repeated questions.
        questions: Payload and kind by id.
        refusal: Why the graph rejected the previous answers; empty if there were none.
    """
    requests = [
        Question(
            key=f"{place.path}{part}/{id_.partition('/')[2]}",
            payload={"question": question["payload"], "refused_answer": refusal} if refusal else question["payload"],
            # Other kinds come from a policy of a node.
            kind=question["kind"] if question["kind"] in ASKED_BY_CODE else "question",
        )
        for id_, question in questions.items()
    ]
    return dict(zip(questions, place.host.ask(requests), strict=True))


@final
class GraphHarness:
    """A graph as a harness: the prompt becomes its input, and its final state the reply.

    Args:
        graph: A compiled graph.
        input: Turns the prompt into the graph's input.
        output: Turns the final state into the reply's text; the state itself is `AgentReply.output`.
        options: Options of `graph.arun`.
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
            InputError: Options were passed; a graph used as a harness accepts none.
            ToolError: The run ended with a different status from "completed" (`graph-not-ended`).
        """
        return await self.__graphrt_within__(None, prompt, **options)

    async def __graphrt_within__(self, ledger: Ledger | None, prompt: Prompt, /, **options: Any) -> AgentReply:
        """Run the graph once, as `run`. Each of its model calls must fit the budget of *ledger*, if there is one."""
        passed = [name for name, value in options.items() if value is not None]  # None counts as not passed
        if passed:
            raise ARGUMENTS_EXCLUDE_EACH_OTHER(
                argument=f"Giving {names(passed)} to run()",
                other=f"graph {self._graph.name!r}, which is used as a harness and takes no options",
                superfluous="them. Options of the graph's run are given where the harness is made: GraphHarness(graph, ...)",
            )
        usages: list[Usage] = []
        try:
            with _part_of(surroundings().agent, self._graph.name, usages, ledger):
                result = await self._graph.arun(self._input(prompt), **self._options)
            # A compiled graph reports its usage to *usages*. For other objects with `arun`, the result may contain it.
            if not usages and result.usage is not None:
                usages.append(result.usage)
                if ledger is not None:
                    ledger.charge(used_amounts(result.usage))
            _check_ended(self._graph, result)
            text = self._output(result.state)
        except BaseException:
            # A failed run has no reply that reports its usage.
            await _paid(self._graph.name, usages, counted=ledger is not None)
            raise
        usage = sum(usages[1:], usages[0]) if usages else None
        return AgentReply(text=text, usage=usage, model=self._graph.name, output=result.state)


async def _paid(graph: str, usages: list[Usage], *, counted: bool) -> None:
    """Add *usages*, the usage of a failed run of *graph*, to the totals of the node's task.

    It is added to the task's budgets too, unless it was *counted* there call by call.
    """
    node = running_context()  # the Context; None outside a graph, and for background work whose node has ended
    if node is None:
        return
    services = node._agents()
    for usage in usages:
        # An agent's ledger already counted the calls.
        if services.ledger is not None and surroundings().agent is None and not counted:
            services.ledger.charge(used_amounts(usage))
        await services.record(Billed(f"graph/{graph}", usage, graph))


@contextmanager
def _part_of(
    place: Place | None, graph: str, usages: list[Usage], ledger: Ledger | None = None
) -> Generator[None, None, None]:
    """Within this block, make a graph run part of the agent run *place*: it shares that run's budget, depth and stream.

    Args:
        place: Place of the agent that runs the graph as a tool; None if none does.
        graph: Name of the graph.
        usages: Receives the usage of each run inside.
        ledger: Budget that bounds the graph's model calls where no agent runs it; None leaves that of an outer caller.

    Raises:
        AgentLimitError: The graph would exceed the depth limit.
    """
    if place is None:  # not called by an agent: keep the values of an outer caller, and only collect usage here
        run_by = surroundings().above
        # A new one has no enclosing agents, no depth limit and no stream.
        if run_by is None:
            above = Above(ledger, 0, _ANY_DEPTH, None, usages)
        else:
            above = run_by._replace(took=usages, ledger=run_by.ledger if ledger is None else ledger)
        with inside(above=above):
            yield
        return
    # From here on, an agent runs the graph as a tool.
    if place.depth + 1 > place.most_depth:
        raise NESTED_TOO_DEEP(
            called=f"Graph {graph!r}",
            depth=place.depth + 1,
            limit=place.most_depth,
            where=" > ".join((*place.names, graph)),
        )
    show = place.emit

    def emit(node: str, item: Any) -> None:
        """Publish *item* of the inner node *node* to the agent's stream, labelled with the names of graph and node."""
        assert show is not None  # noqa: S101 - otherwise this function is not passed on
        show(SubAgentItem(agent=f"{graph}/{node}", item=item))

    # Ledger, number of enclosing agents, depth limit, stream, and the list that collects usage.
    above = Above(
        place.ledger, place.depth + 1, place.most_depth, None if show is None else emit, usages, streams=place.streams()
    )
    # Agents inside the graph belong to its nodes, so hide this agent and its node from them.
    with inside(above=above, agent=None, node=None):
        yield


def _check_ended(graph: Runs, result: Any) -> None:
    """Check that the run with this *result*, a `RunResult`, has a final state.

    Raises:
        ToolError: It paused, or was cancelled (`graph-not-ended`).
    """
    if result.status != "completed":
        raise GRAPH_NOT_ENDED(tool=graph.name, status=result.status)
