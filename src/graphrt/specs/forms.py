"""`Form`: the fields of one kind of node in a manifest, and their conversion to arguments of its factory and back.

The forms of ready-made nodes are next to their factories. This module has the base, and the three kinds that need no
factory: a function, a compiled graph, and an agent or harness. A form uses `Parts` while a manifest is read, and
`Writer` while one is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, Protocol, TypeAlias, get_args

from pydantic import AfterValidator, WithJsonSchema

from graphrt._arguments import is_list
from graphrt.errors import InputError
from graphrt.harness import Template
from graphrt.specs.manifest import FunctionRef, Name, NodeSpec, PolicySpec, SpecEntry

Section: TypeAlias = Literal["functions", "routers", "reducers", "tools", "models", "agents", "graphs", "types"]
"""A section of a registry."""
SECTIONS: Final[tuple[Section, ...]] = get_args(Section)


class Parts(Protocol):
    """The lookups that a form may use while it makes its node: names of the registry, nested nodes and graphs."""

    state: Any
    """The state class of the node's graph."""
    has_default: bool
    """For a router: whether its edge has a default."""
    registry: Any
    """The registry of the manifest."""

    @property
    def failed(self) -> bool:
        """Whether a name was not found, so that no object needs to be made."""
        ...

    def value(self, value: Any, section: Section | None, name: str) -> Any:
        """Return a field as an argument: names are looked up in *section*, and references are followed.

        Args:
            value: The field's value.
            section: Section of the registry; None for values that are not names.
            name: The field, for the path of problems.
        """
        ...

    def node(self, spec: NodeSpec, name: str) -> Any:
        """Return the node of a nested description, such as one of a batch; *name* is the field it is in."""
        ...

    def policy(self, spec: PolicySpec, name: str, *, of_agent: bool = False) -> dict[str, Any]:
        """Return a policy that is in the field *name* as arguments of `add_node`.

        Args:
            spec: The policy.
            name: The field.
            of_agent: Whether it is the policy of an agent as a node, which may use its own tools if it names none. Any
                other node of a manifest gets only the tools that it names.
        """
        ...

    def graph(self, data: Mapping[str, Any], name: str) -> Any:
        """Return the compiled graph of a nested manifest."""
        ...

    def problem(self, text: str, name: str) -> None:
        """Report a problem of the field *name*."""
        ...


class Writer(Protocol):
    """The lookups that a form may use while it writes the arguments of its factory."""

    def value(self, value: Any, section: Section | None, field: str, *, is_text: bool = False) -> Any:
        """Return an argument as data.

        Args:
            value: The argument.
            section: Section of the registry, if the argument has a name there.
            field: The field of the form, for the path of problems.
            is_text: Whether a string in its place is the text of a Template.
        """
        ...

    def item(self, name: str, fn: Any, field: str) -> dict[str, Any]:
        """Return a node from a field of the current node, such as one of a batch."""
        ...

    def policy(self, given: Mapping[str, Any], field: str, *, of_agent: bool = False) -> dict[str, Any]:
        """Return policy arguments of `add_node` as data; *field* is their field, *of_agent* as in `Parts`."""
        ...

    def registered(self, section: Section, value: Any) -> str | None:
        """Return the name of *value* in the registry; None if it has none, or if there is no registry."""
        ...

    def inside(self, field: str, graph: Any) -> dict[str, Any]:
        """Return the manifest of a graph from a field of the current node."""
        ...


def _template(text: str) -> str:
    try:
        Template(text)
    except InputError as error:
        raise ValueError(error.what.rstrip(".")) from None
    return text


TemplateText = Annotated[str, AfterValidator(_template)]
"""The text of a Template."""


class TemplateRef(SpecEntry):
    """A Template over fields of the state, where a plain text would also be valid."""

    template: TemplateText
    """Its text, with fields in braces."""


class Form(SpecEntry):
    """Base of the forms. A form of your own needs `kind`, the fields, and `factory`.

    The factory declares what it made with `declare_form(node, MyForm, arguments)`, and the registry has the form in
    `kinds=`.
    """

    names: ClassVar[Mapping[str, Section]] = {}
    """Fields with names of the registry, and its section: a name, or a list of names."""
    texts: ClassVar[frozenset[str]] = frozenset()
    """Fields in which a string is the text of a Template."""
    renamed: ClassVar[Mapping[str, str]] = {}
    """Fields whose argument has another name that would be unclear or already taken in a manifest."""
    is_router: ClassVar[bool] = False
    """Whether it is the form of a router instead of a node."""
    factory: ClassVar[Any] = None
    """Called with the fields that are set."""

    def make(self, parts: Parts) -> Any:
        """Return the node for `add_node`.

        Args:
            parts: Looks names up. If a name is missing, it reports that, and the result of this call is not used.
        """
        arguments = self.arguments(parts)
        return None if parts.failed else type(self).factory(**arguments)

    def arguments(self, parts: Parts) -> dict[str, Any]:
        """Return the fields that are set as arguments of the factory."""
        return {
            self.renamed.get(name, name): parts.value(getattr(self, name), self.names.get(name), name)
            for name in type(self).model_fields
            if name in self.model_fields_set and name != "kind"
        }

    def policy(self, parts: Parts) -> dict[str, Any]:  # noqa: ARG002 - for forms that have one
        """Return policy arguments of `add_node` that belong to the kind."""
        return {}

    @classmethod
    def written(cls, arguments: Mapping[str, Any], writer: Writer) -> dict[str, Any]:
        """Return the arguments of the factory as data, without those that have their default."""
        fields = {argument: field for field, argument in cls.renamed.items()}
        data: dict[str, Any] = {}
        for argument, value in arguments.items():
            name = fields.get(argument, argument)
            known = cls.model_fields.get(name)
            if (
                known is not None
                and not known.is_required()
                and _same(value, known.get_default(call_default_factory=True))
            ):
                continue
            data[name] = writer.value(value, cls.names.get(name), name, is_text=name in cls.texts)
        return data


def _same(value: Any, default: Any) -> bool:
    if is_list(value):  # defaults of factories are tuples, and those of forms are lists
        value = list(value)
    return type(value) is type(default) and bool(value == default)


def kind_of(form: type[Form]) -> str:
    """Return the kind of node that a form describes."""
    return str(form.model_fields["kind"].default)


class FunctionForm(Form):
    """A function of the registry."""

    kind: Literal["function"] = "function"
    function: Name
    """Its name in the registry."""

    names: ClassVar[Mapping[str, Section]] = {"function": "functions"}

    def make(self, parts: Parts) -> Any:
        """Return the function."""
        return parts.value(self.function, "functions", "function")


MANIFEST: Final = {"type": "object", "title": "GraphSpec"}
"""Schema of a nested manifest. `schema` replaces it by a reference to the whole, which pydantic cannot express."""
Nested = Annotated[str | dict[str, Any], WithJsonSchema({"anyOf": [{"type": "string"}, MANIFEST]})]
"""A compiled graph of the registry, or a manifest."""


class GraphForm(Form):
    """A nested graph."""

    kind: Literal["graph"] = "graph"
    graph: Nested
    """A graph of the registry, or a manifest."""

    def make(self, parts: Parts) -> Any:
        """Return the compiled graph."""
        if isinstance(self.graph, str):
            return parts.value(self.graph, "graphs", "graph")
        return parts.graph(self.graph, "graph")

    @classmethod
    def written(cls, arguments: Mapping[str, Any], writer: Writer) -> dict[str, Any]:
        """Return the name of a registered graph, else its manifest."""
        graph = arguments["graph"]
        known = writer.registered("graphs", graph)
        return {"graph": known if known is not None else writer.inside("graph", graph)}


class AgentForm(Form):
    """An agent or harness of the registry, as `add_node` takes it."""

    kind: Literal["agent"] = "agent"
    agent: Name
    """Its name in the registry."""
    input: Name | TemplateRef | FunctionRef | None = None
    """The field that is the prompt, a template, or a function; null continues the conversation."""
    output: Name | dict[Name, str] | None = None
    """The field for the answer, or fields to attributes of the reply."""

    names: ClassVar[Mapping[str, Section]] = {"agent": "agents"}

    def make(self, parts: Parts) -> Any:
        """Return the agent."""
        return parts.value(self.agent, "agents", "agent")

    def policy(self, parts: Parts) -> dict[str, Any]:
        """Return the source of its prompt and the target of its reply."""
        return {
            name: parts.value(getattr(self, name), None, name)
            for name in ("input", "output")
            if getattr(self, name) is not None
        }


PLAIN_KINDS: Final[tuple[type[Form], ...]] = (FunctionForm, GraphForm, AgentForm)
