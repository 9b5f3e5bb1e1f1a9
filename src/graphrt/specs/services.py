"""What forms may ask for: `Parts` while a manifest is read, `Writer` while one is written. Protocols alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, Protocol, TypeAlias, get_args

from graphrt.specs.manifest import NodeSpec, PolicySpec

Section: TypeAlias = Literal["functions", "routers", "reducers", "tools", "models", "agents", "graphs", "types"]
"""A section of a registry."""
SECTIONS: Final[tuple[Section, ...]] = get_args(Section)


class Parts(Protocol):
    """What a form may ask for while it makes its node: names of the registry, nested nodes and graphs."""

    state: Any
    """The state class of the graph around the node."""
    has_default: bool
    """For a router: whether its edge has a default."""
    registry: Any
    """The registry of the manifest."""

    @property
    def failed(self) -> bool:
        """Whether something was not found, so that nothing need be made."""
        ...

    def value(self, value: Any, section: Section | None, name: str) -> Any:
        """Return a field as an argument: names are looked up in *section*, and references are followed.

        Args:
            value: The field's value.
            section: Section of the registry; None for values that are no names.
            name: The field, for the path of problems.
        """
        ...

    def node(self, spec: NodeSpec, name: str) -> Any:
        """Return the node of a nested description, such as one of a batch; *name* is the field it stands in."""
        ...

    def policy(self, spec: PolicySpec, name: str) -> dict[str, Any]:
        """Return a policy that stands in the field *name* as arguments of `add_node`."""
        ...

    def graph(self, data: Mapping[str, Any], name: str) -> Any:
        """Return the compiled graph of a nested manifest."""
        ...

    def problem(self, text: str, name: str) -> None:
        """Report what is wrong with the field *name*."""
        ...


class Writer(Protocol):
    """What a form may ask for while it writes the arguments of its factory."""

    def value(self, value: Any, section: Section | None, field: str, *, is_text: bool = False) -> Any:
        """Return an argument as data.

        Args:
            value: The argument.
            section: Section of the registry, if it is something that has a name there.
            field: The field of the form, for the path of problems.
            is_text: Whether a string in its place is the text of a Template.
        """
        ...

    def item(self, name: str, fn: Any, field: str) -> dict[str, Any]:
        """Return a node that stands in a field of the present one, such as one of a batch."""
        ...

    def policy(self, given: Mapping[str, Any], field: str) -> dict[str, Any]:
        """Return policy arguments of `add_node` as data; *field* is where they stand."""
        ...

    def registered(self, section: Section, value: Any) -> str | None:
        """Return the name of *value* in the registry; None if it has none, or if there is no registry."""
        ...

    def inside(self, field: str, graph: Any) -> dict[str, Any]:
        """Return the manifest of a graph that stands in a field of the present node."""
        ...
