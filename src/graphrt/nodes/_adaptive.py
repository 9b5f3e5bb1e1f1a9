"""`adaptive`: a nested graph that is designed at run time, judged, and run.

```text
   START -> design ==Send(design)==> run: the designed graph
            ask, judge, ask again      under its own budget and limits
```

The design is the argument of a Send, so it is in the journal, and a resumed run makes the same graph of it. Each round
is in the journal too, as the effect "verdict". The designer is asked through `ctx`, so a resumed run does not ask
twice.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

from pydantic import Field
from typing_extensions import Unpack

from graphrt._arguments import is_mapping
from graphrt._drivers.context import Context
from graphrt.commands import START, Command, Send
from graphrt.errors import BadResponseError, InputError, Problem, names
from graphrt.errors._codes.arguments import ARGUMENT_OUT_OF_BOUNDS, INVALID_ARGUMENT, UNKNOWN_NAME_IN_ARGUMENT
from graphrt.errors._codes.ready_nodes import DESIGN_NO_LONGER_VALID, DESIGN_REJECTED
from graphrt.graph import CompiledGraph, GraphBuilder, chosen_graph, declare_fields
from graphrt.harness import OutputSpec, Template
from graphrt.nodes._design_prompt import DesignRequest, request_text
from graphrt.nodes._model_call import ModelCall, ModelForm, ModelOptions, model_call
from graphrt.nodes._topology_validator import TopologyValidator
from graphrt.specs import FunctionRef, Parts, Registry, TemplateText, Writer, declare_form
from graphrt.specs.manifest import Name
from graphrt.specs.states import fields_of

S = TypeVar("S")
_DESIGN, _RUN = "design", "run"


Designer: TypeAlias = str | Template | Callable[[Any, DesignRequest], Any]
"""A prompt for a model, or a function that returns a design: a mapping, JSON text, a GraphSpec, or an awaitable of it."""


def adaptive(
    state: type[S],
    designer: Designer,
    *,
    registry: Registry,
    validator: TopologyValidator,
    attempts: int = 3,
    record: str | None = None,
    graph_name: str = "adaptive",
    **options: Unpack[ModelOptions],
) -> CompiledGraph[S, Mapping[str, Any]]:
    """Return a graph for `add_node` that has a graph designed, validates it, and runs it.

    A design is a manifest over the same state. It is refused unless the validator allows everything in it; then the
    designer is asked again, with all reasons. After the last attempt the node fails with `design-rejected`, which
    `on_error=` routes; no part of a refused design runs.

    An accepted design runs as a nested graph, under the limits and the budget of the validator. A run that is resumed
    runs the same design, and does not ask the designer again.

    Args:
        state: The state class of the graph around it.
        designer: The text of a prompt, a Template over fields of the state, or a function of the state and a
            `DesignRequest`. A function's result is recorded.
        registry: Resolves the names in a design.
        validator: What a design may use. By default it allows nothing.
        attempts: Maximum number of designs that are requested, 1 or more.
        record: A field for the accepted design: a mapping with `design`, `validator` (its digest), `attempts` and
            `fingerprint`.
        graph_name: Name of the nested graph, for messages.
        **options: See `ModelOptions`: who designs, if *designer* is a prompt.

    Raises:
        InputError: An argument is wrong (`input`, or the code of a template or an agent).
    """
    _check(state, registry, validator, attempts)
    call = _call(designer, options, registry, validator)
    allowed = validator.allowed(registry)
    schema = allowed.json_schema()

    @lru_cache(maxsize=64)
    def judged(text: str) -> tuple[Any, tuple[Problem, ...]]:
        return validator.judge(text, registry, state)

    async def design(values: Any, ctx: Context[Any]) -> Command[Any]:
        problems: tuple[Problem, ...] = ()
        proposal: Any = None
        for attempt in range(1, attempts + 1):
            request = DesignRequest(
                attempt=attempt, problems=problems, schema=schema, registry=allowed, validator=validator
            )
            proposal = await _proposed(call, designer, request, proposal, values, ctx)
            graph, problems = _of_text(proposal, judged) if is_mapping(proposal) else (None, _problems_in(proposal))
            verdict: dict[str, Any] = {
                "attempt": attempt,
                "accepted": graph is not None,
                "design": proposal,
                "problems": _as_data(problems),
                "validator": validator.digest,
            }
            ctx.effect("verdict", verdict.copy, kind="pure")
            if graph is not None:
                accepted: dict[str, Any] = {
                    "design": proposal,
                    "validator": validator.digest,
                    "attempts": attempt,
                    "fingerprint": graph.fingerprint,
                }
                return Command(update={} if record is None else {record: accepted}, goto=[Send(_RUN, accepted)])
        raise DESIGN_REJECTED(attempts=attempts, reasons=_told(problems), values=_as_data(problems))

    def choose(stored: Mapping[str, Any]) -> CompiledGraph[Any, Any, Any]:
        graph, problems = _of_text(stored["design"], judged)
        if graph is not None and graph.fingerprint != stored["fingerprint"]:
            graph, problems = None, (Problem(code="design-changed", message="It is another graph now"),)
        if graph is None:
            raise DESIGN_NO_LONGER_VALID(reasons=_told(problems), values=_as_data(problems))
        accepted: CompiledGraph[Any, Any, Any] = graph
        return accepted

    states = [graph.state_type for graph in allowed.section("graphs").values()]
    builder = GraphBuilder(state, name=graph_name)
    told_fields = {"reads": () if call is None else call.reads, "writes": () if record is None else (record,)}
    builder.add_node(_DESIGN, declare_fields(design, **told_fields), goto=[_RUN])
    builder.add_node(_RUN, chosen_graph(choose, states=states), budget=validator.budget)
    builder.add_edge(START, _DESIGN)
    compiled = builder.compile()
    arguments = {"designer": designer, "validator": validator, "attempts": attempts, "record": record}
    arguments["graph_name"] = graph_name
    return declare_form(compiled, AdaptiveForm, {**arguments, **options})


class AdaptiveForm(ModelForm):
    """Has a graph designed at run time, validates it, and runs it."""

    kind: Literal["adaptive"] = "adaptive"
    designer: TemplateText | FunctionRef
    """The prompt for a model that designs the graph, or a function of the registry."""
    validator: dict[str, Any] = Field(default={})
    """The things that a design may use, by name; others are not allowed."""
    attempts: int = 3
    """Maximum number of designs that are requested."""
    record: Name | None = None
    """The field for the accepted design."""
    graph_name: Name = "adaptive"

    factory: ClassVar[Any] = staticmethod(adaptive)
    texts: ClassVar[frozenset[str]] = frozenset({"designer"})

    def make(self, parts: Parts) -> Any:
        """Return the nested graph."""
        arguments = self.arguments(parts)
        if parts.failed:
            return None
        arguments |= {"validator": TopologyValidator.from_data(self.validator), "registry": parts.registry}
        return adaptive(parts.state, **arguments)

    @classmethod
    def written(cls, arguments: Mapping[str, Any], writer: Writer) -> dict[str, Any]:
        """Return the arguments as data, the validator by its lists and limits."""
        plain = {name: value for name, value in arguments.items() if name != "validator"}
        validator = {
            name: value
            for name, value in arguments["validator"].to_data().items()
            if value != TopologyValidator().to_data()[name]
        }
        return {**super().written(plain, writer), "validator": validator}


def _check(state: type[Any], registry: Any, validator: Any, attempts: Any) -> None:
    if not isinstance(registry, Registry):
        raise INVALID_ARGUMENT(
            argument="The registry of adaptive()", value=registry, wanted="graphrt.nodes.registry(...)"
        )
    if not isinstance(validator, TopologyValidator):
        raise INVALID_ARGUMENT(
            argument="The validator of adaptive()", value=validator, wanted="a TopologyValidator(...)"
        )
    if isinstance(attempts, bool) or not isinstance(attempts, int) or attempts < 1:
        raise INVALID_ARGUMENT(argument="attempts= of adaptive()", value=attempts, wanted="a whole number of 1 or more")
    known = fields_of(state)
    for option in ("reads", "writes"):
        unknown = [field for field in getattr(validator, option) if field not in known]
        if unknown:
            raise UNKNOWN_NAME_IN_ARGUMENT(
                argument=f"{option}= of the validator", name=unknown[0], what="field of the state", known_names=known
            )
    unreadable = [
        field for field, required in known.items() if required and field not in (*validator.reads, *validator.writes)
    ]
    if unreadable:
        raise ARGUMENT_OUT_OF_BOUNDS(
            problem=f"The state requires {names(unreadable)}, which designs may not read: no design could start",
            wanted="reads= of the validator with them, or give the fields defaults",
        )


def _call(
    designer: Any, options: Mapping[str, Any], registry: Registry, validator: TopologyValidator
) -> ModelCall | None:
    """Return the call of the model that designs; None if a function does."""
    if isinstance(designer, (str, Template)):
        schema = validator.allowed(registry).json_schema()
        output = OutputSpec(name="graph", schema=schema, strict=False)
        model_options: Any = options
        return model_call(designer, model_options, of="adaptive", output=output)
    if not callable(designer) or options:
        raise INVALID_ARGUMENT(
            argument="The designer of adaptive()",
            value=designer,
            wanted="the text of a prompt for a model, a Template, or a function of the state and the request",
        )
    return None


async def _proposed(
    call: ModelCall | None, designer: Any, request: DesignRequest, before: Any, values: Any, ctx: Context[Any]
) -> Any:
    """Return a design as plain data, or a description of its problem."""
    plain = request.validator.plain
    if call is not None:
        template: Any = call.prompt
        text = request_text(template.render(values), request, before)
        try:
            reply = await replace(call, prompt=_always(text)).ask(values, ctx)
        except BadResponseError as error:
            return f"bad-response: {error.what}"
        return _plain(reply.text if reply.output is None else reply.output, plain)

    async def asked() -> Any:
        design = designer(values, request)
        return _plain(await design if inspect.isawaitable(design) else design, plain)

    return await ctx.effect("designer", asked)


def _always(text: str) -> Callable[[Any], str]:
    return lambda _: text


def _plain(design: Any, plain: Callable[[Any], dict[str, Any]]) -> Any:
    """Return a design as plain data that can be stored, or a text that describes the problem."""
    try:
        return plain(design)
    except InputError as error:
        return f"{error.code}: {error.what}"


def _problems_in(text: Any) -> tuple[Problem, ...]:
    code, _, message = str(text).partition(": ")
    return (Problem(code=code, message=message),)


def _of_text(
    design: Mapping[str, Any], judged: Callable[[str], tuple[Any, tuple[Problem, ...]]]
) -> tuple[Any, tuple[Problem, ...]]:
    """Validate a design by its text, so that equal designs are validated and compiled once."""
    return judged(json.dumps(design))


def _as_data(problems: Sequence[Problem]) -> list[dict[str, str]]:
    return [{"code": problem.code, "message": problem.message, "where": problem.where} for problem in problems]


def _told(problems: Sequence[Problem]) -> str:
    return "; ".join(
        f"[{problem.code}] {problem.where and f'{problem.where}: '}{problem.message.rstrip('.')}"
        for problem in problems
    )
