"""Converts a manifest to calls of a builder: looks up names, and collects all problems with their paths.

It executes no part of the graph; only factories run, with checked arguments. Building and compiling belong to `graph`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ValidationError

from graphrt._arguments import is_list, is_mapping
from graphrt._plan.hints import UNRESOLVED, labels_of, return_hint
from graphrt._plan.nodes import NESTING
from graphrt._plan.reachability import JUDGEMENTS
from graphrt.commands import END
from graphrt.errors import DefinitionError, GraphrtError, Problem, closest
from graphrt.errors._codes.findings import DEFINITION
from graphrt.errors._codes.specs import (
    BAD_SPEC,
    MISSING_STATE,
    UNKNOWN_KIND,
    UNKNOWN_LABEL,
    UNKNOWN_PART,
)
from graphrt.limits import Limits
from graphrt.specs.forms import AgentForm, Form, Section, TemplateRef
from graphrt.specs.manifest import (
    BudgetSpec,
    ConditionalSpec,
    EnumLabel,
    FunctionRef,
    GraphSpec,
    NodeSpec,
    PolicySpec,
    RouteSpec,
)
from graphrt.specs.plain_data import DEFAULT_LIMITS, SpecLimits, joined, plain_data, within
from graphrt.specs.policies import GONE, budget_of, policy_of, ref
from graphrt.specs.problems import problems_of_error, problems_of_validation
from graphrt.specs.registry import Registry, known_names
from graphrt.specs.states import StateClasses

Call: TypeAlias = tuple[Literal["node", "edge", "branch", "join"], tuple[Any, ...], str]
"""The declaration, its arguments in order, and its path in the manifest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadGraph:
    """A manifest whose names have been looked up."""

    state: type[Any]
    update: type[Any] | None
    name: str
    version: int
    hands_over_to: tuple[Any, ...]
    overwrite: bool
    reducer: Any
    """The reducer of the whole state; None if fields have reducers."""
    schemas: Mapping[str, type[Any]]
    """`input` and `output` of the builder, where they are given."""
    calls: Sequence[Call]
    limits: Limits
    allow: tuple[str, ...]


Assemble = Callable[[ReadGraph], Any]
"""Returns the compiled graph; raises a DefinitionError."""


class _Nothing:
    """Replaces a state that could not be made, so that the rest can be checked."""


def read_graph(
    spec: Any, registry: Registry | None, assemble: Assemble, state: Any, limits: SpecLimits | None
) -> ReadGraph:
    """Parse a manifest.

    Args:
        spec: A GraphSpec, a mapping, or JSON text or bytes.
        registry: Resolves its names; with None, every name is unknown.
        assemble: Compiles nested graphs.
        state: The state class to use instead of the manifest's; None for the manifest's.
        limits: Size limits of the manifest; None for the defaults.

    Raises:
        InputError: It is not plain data, or too large (`bad-spec-text`).
        DefinitionError: It has problems. `.problems` has all of them, each with its path as `where`.
    """
    data = plain_data(spec.to_data() if isinstance(spec, GraphSpec) else spec, limits or DEFAULT_LIMITS)
    reader = _Reader(Registry() if registry is None else registry, assemble)
    result = reader.graph(data, "", state)
    if result is None or reader.problems:
        raise invalid(data.get("name"), [*reader.problems, *_found_by_compiling(result, assemble, reader.problems)])
    return result


def invalid(name: Any, problems: Sequence[Problem]) -> DefinitionError:
    """Return the error for a manifest with problems."""
    shown = name if isinstance(name, str) else "graph"
    return DEFINITION(who=f"The manifest of graph {shown!r}", problems=problems)


def _found_by_compiling(result: ReadGraph | None, assemble: Assemble, known: Sequence[Problem]) -> list[Problem]:
    """Also return the findings of `compile()`, so that all problems are reported at once."""
    if result is None or result.state is _Nothing:
        return []
    try:
        assemble(replace(result, allow=tuple(JUDGEMENTS)))  # placeholders have other targets than the originals
    except DefinitionError as error:
        reported = {(problem.where, problem.code) for problem in known}
        return [problem for problem in error.problems if (problem.where, problem.code) not in reported]
    return []


class _Parts:
    """The `Parts` of one node or router."""

    def __init__(self, reader: _Reader, path: str, state: Any) -> None:
        self._reader = reader
        self._known_problems = len(reader.problems)
        self._path = path
        self.state: Any = state
        """The state class of the graph around the node."""
        self.registry: Any = reader.registry
        self.has_default: bool = False
        """For a router: whether its edge has a default."""

    @property
    def failed(self) -> bool:
        """Whether something was not found, so that nothing needs to be made."""
        return len(self._reader.problems) > self._known_problems

    def value(self, value: Any, section: Section | None, name: str) -> Any:
        """Return a field as an argument: names are looked up in *section*, and references are followed.

        Args:
            value: The field's value.
            section: Section of the registry; None for values that are not names.
            name: The field, for the path of problems.
        """
        path = within(self._path, name)
        if section is not None and isinstance(value, str):
            return self._reader.named(section, value, path)
        if isinstance(value, FunctionRef):
            return self._reader.named("functions", value.function, f"{path}.function")
        if isinstance(value, TemplateRef):
            from graphrt.harness import Template

            return Template(value.template)
        if isinstance(value, BudgetSpec):
            return budget_of(self._reader, value, path)
        if is_list(value):
            return [self.value(item, section, f"{name}[{at}]") for at, item in enumerate(value)]
        if is_mapping(value):
            return {key: self.value(item, section, joined(name, key)) for key, item in value.items()}
        return value

    def node(self, spec: NodeSpec, name: str) -> Any:
        """Return the node of a nested description, such as one of a batch; *name* is the field it is in."""
        return self._reader.node(spec, within(self._path, name), self.state)[0]

    def policy(self, spec: PolicySpec, name: str, *, of_agent: bool = False) -> dict[str, Any]:
        """Return a policy that is in the field *name* as arguments of `add_node`."""
        return policy_of(self._reader, spec, within(self._path, name), of_agent=of_agent)

    def graph(self, data: Mapping[str, Any], name: str) -> Any:
        """Return the compiled graph of a nested manifest."""
        return self._reader.nested(data, within(self._path, name), self.state)

    def problem(self, text: str, name: str) -> None:
        """Report problems of the field *name*."""
        self._reader.problems.append(BAD_SPEC(problem=text, where=within(self._path, name)))


class _Reader:
    def __init__(self, registry: Registry, assemble: Assemble) -> None:
        self.registry = registry
        self.problems: list[Problem] = []
        self._assemble = assemble
        self._classes = StateClasses(registry, self.problems)

    def graph(self, data: Mapping[str, Any], path: str, given_state: Any) -> ReadGraph | None:
        """Parse the manifest at *path*; None if its outline is wrong."""
        spec: GraphSpec | None = self.checked(GraphSpec, data, path)
        if spec is None:
            self._rest(data, path, given_state)
            return None
        before = len(self.problems)
        state = self._classes.of(spec.state, joined(path, "state"), given_state)
        if state is None and len(self.problems) == before:
            self.problems.append(MISSING_STATE(where=joined(path, "state")))
        state = _Nothing if state is None else state
        calls: list[Call] = []
        for at, node in enumerate(spec.nodes):
            where = f"{joined(path, 'nodes')}[{at}]"
            implementation, more = self.node(node, where, state)
            is_agent = self.registry.kinds.get(node.kind) is AgentForm
            policy = policy_of(self, node.policy, joined(where, "policy"), of_agent=is_agent) | more
            if implementation is _stand_in:  # a function, which takes less than the nested graph in whose place it is
                policy = {name: value for name, value in policy.items() if name not in NESTING}
            calls.append(("node", (node.name, implementation, policy), where))
        for at, edge in enumerate(spec.edges):
            calls.append(("edge", (ref(edge.source), ref(edge.target)), f"{joined(path, 'edges')}[{at}]"))
        for at, conditional in enumerate(spec.conditional_edges):
            calls.append(self.conditional(conditional, f"{joined(path, 'conditional_edges')}[{at}]", state))
        for at, join in enumerate(spec.joins):
            sources = [ref(source) for source in join.sources]
            calls.append(
                ("join", (sources, ref(join.target), join.when, join.starved), f"{joined(path, 'joins')}[{at}]")
            )
        return ReadGraph(
            state=state,
            update=None if spec.update is None else self._class(spec.update, joined(path, "update")),
            name=spec.name,
            version=spec.version,
            hands_over_to=tuple(ref(target) for target in spec.hands_over_to),
            overwrite=spec.overwrite,
            reducer=None if spec.reducer is None else self._reducer(spec.reducer, joined(path, "reducer")),
            schemas=self._schemas(spec, path, state),
            calls=calls,
            limits=Limits(**spec.limits.model_dump(exclude_unset=True)),
            allow=tuple(spec.allow),
        )

    def _rest(self, data: Mapping[str, Any], path: str, state: Any) -> None:
        """Check the nodes of a manifest whose outline is wrong, so that all problems are reported at once."""
        nodes = data.get("nodes")
        for at, entry in enumerate(nodes if is_list(nodes) else ()):
            if is_mapping(entry):
                with suppress(ValidationError):  # it has no name or kind; that problem is already reported
                    node = NodeSpec.model_validate({key: value for key, value in entry.items() if key != "policy"})
                    self.node(node, f"{joined(path, 'nodes')}[{at}]", state or _Nothing)

    def checked(self, form: type[BaseModel], data: Any, path: str) -> Any:
        """Return *data* as an instance of *form*; None, and problems, if it does not fit."""
        try:
            return form.model_validate(data)
        except ValidationError as error:
            self.problems += problems_of_validation(error, data, path, form)
        return None

    def named(self, section: Section, name: str, path: str) -> Any:
        """Resolve a name; `GONE`, with a problem, if it is unknown."""
        try:
            return self.registry.find(section, name)
        except KeyError:
            known = self.registry.section(section)
            guess = closest(name, known)
            self.problems.append(
                UNKNOWN_PART(section=section, name=name, known_names=known_names(known), where=path, guess=guess)
            )
        return GONE

    def node(self, spec: NodeSpec, path: str, state: Any) -> tuple[Any, dict[str, Any]]:
        """Return the node at *path* and the policy arguments of its kind; a placeholder if it has problems."""
        form = self.registry.kinds.get(spec.kind)
        before = len(self.problems)
        if form is None or form.is_router:
            known = [kind for kind, other in self.registry.kinds.items() if not other.is_router]
            guess = closest(spec.kind, known)
            self.problems.append(
                UNKNOWN_KIND(kind=spec.kind, kinds=known, node=spec.name, where=joined(path, "kind"), guess=guess)
            )
            return _stand_in, {}
        result = self._made(form, {"kind": spec.kind, **spec.arguments}, path, _Parts(self, path, state), spec.name)
        return (_stand_in, {}) if len(self.problems) > before or result is None else result

    def _made(
        self, form: type[Form], data: Mapping[str, Any], path: str, parts: _Parts, node: str | None
    ) -> tuple[Any, dict[str, Any]] | None:
        checked: Form | None = self.checked(form, data, path)
        if checked is None:
            return None
        try:
            return checked.make(parts), checked.policy(parts)
        except GraphrtError as error:
            if not (parts.state is _Nothing and isinstance(error, DefinitionError)):  # it would name absent fields
                self.problems += problems_of_error(error, path, node)
        return None

    def nested(self, data: Mapping[str, Any], path: str, state: Any) -> Any:
        """Return the compiled graph of a manifest at *path*; None, and problems, if it has any."""
        before = len(self.problems)
        result = self.graph(data, path, None if data.get("state") is not None else state)
        if result is None or result.state is _Nothing:
            return None
        try:
            return self._assemble(result)
        except DefinitionError as error:
            reported = {(problem.where, problem.code) for problem in self.problems[before:]}
            self.problems += [item for item in error.problems if (item.where, item.code) not in reported]
        return None

    def conditional(self, spec: ConditionalSpec, path: str, state: Any) -> Call:
        """Return the call for a conditional edge."""
        router: Any = GONE
        if isinstance(spec.router, str):
            router = self.named("routers", spec.router, joined(path, "router"))
        else:
            kind = spec.router.get("kind")
            form = self.registry.kinds.get(kind) if isinstance(kind, str) else None
            where = joined(path, "router")
            if form is None or not form.is_router:
                known = [name for name, other in self.registry.kinds.items() if other.is_router]
                self.problems.append(UNKNOWN_KIND(kind=kind, kinds=known, where=f"{where}.kind"))
            else:
                parts = _Parts(self, where, state)
                parts.has_default = spec.default is not None
                result = self._made(form, spec.router, where, parts, None)
                router = GONE if result is None else result[0]
        before = len(self.problems)
        routes = self._routes(spec, router, path)
        default = None if spec.default is None else ref(spec.default)
        if router is GONE or len(self.problems) > before:
            router = _any_label
        return ("branch", (ref(spec.source), router, routes, default), path)

    def _routes(self, spec: ConditionalSpec, router: Any, path: str) -> Any:
        routes = spec.routes
        if is_mapping(routes):
            return {label: ref(target) for label, target in routes.items()}
        targets: dict[Any, Any] = {}
        names: list[Any] = []
        for at, route in enumerate(routes):
            if isinstance(route, RouteSpec):
                label = route.label
                if isinstance(label, EnumLabel):
                    label = self._member(label.enum, router, spec, f"{joined(path, 'routes')}[{at}].label.enum")
                targets[label] = ref(route.target)
            else:
                names.append(ref(str(route)))
        return targets or names

    def _member(self, text: str, router: Any, spec: ConditionalSpec, path: str) -> Any:
        """Return the enum member that a label names, from the router's annotation or a registered type."""
        if text == _END_LABEL:
            return END
        hint = UNRESOLVED if router is GONE else return_hint(router, {})
        for label in (labels_of(hint) or ((), False))[0]:
            if isinstance(label, Enum) and f"{type(label).__name__}.{label.name}" == text:
                return label
        cls, _, name = text.partition(".")
        known = self.registry.section("types").get(cls)
        if isinstance(known, type) and issubclass(known, Enum) and name in known.__members__:
            return known[name]
        if router is not GONE:
            shown = spec.router if isinstance(spec.router, str) else spec.router.get("kind")
            self.problems.append(UNKNOWN_LABEL(label=text, router=shown, where=path))
        return text

    def _class(self, name: str, path: str) -> Any:
        cls = self.named("types", name, path)
        return None if cls is GONE else cls

    def _reducer(self, name: str, path: str) -> Any:
        reducer = self.named("reducers", name, path)
        return None if reducer is GONE else reducer

    def _schemas(self, spec: GraphSpec, path: str, state: Any) -> dict[str, type[Any]]:
        schemas: dict[str, type[Any]] = {}
        for option, schema in (("input", spec.input), ("output", spec.output)):
            where = joined(path, option)
            if isinstance(schema, str):
                cls = self._class(schema, where)
            else:
                cls = None if schema is None or state is _Nothing else self._classes.part(state, schema, where)
            if cls is not None:
                schemas[option] = cls
        return schemas


_END_LABEL: Final = "END.END"


def _stand_in(state: Any) -> None:
    """Placeholder for a node that could not be made."""


def _any_label(state: Any) -> Any:
    """Placeholder for a router that could not be made."""
