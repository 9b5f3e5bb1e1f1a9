"""`Registry`: resolves the names in a manifest. Only its objects can become part of a graph that is read.

It holds objects without checking them; `compile()` does that.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, final

from graphrt import errors
from graphrt._arguments import is_iterable, is_mapping
from graphrt.errors import names
from graphrt.errors._codes.specs import BAD_SECTION
from graphrt.specs.forms import PLAIN_KINDS, SECTIONS, Form, Section, kind_of
from graphrt.specs.schema import json_schema

Named: TypeAlias = Mapping[str, Any] | Iterable[Any]
"""A mapping of names to objects, or objects that have names: functions, classes, agents."""


@final
class Registry:
    """The parts that manifests may name. Immutable.

    Each section is a mapping of names, or a list of objects that have names.

    Args:
        functions: Functions of nodes, prompts, cache keys, and of the mappings of nested graphs.
        routers: Routers.
        reducers: Reducers that are not built in.
        tools: Functions for nodes of the kind `tool`.
        models: Models, or their names as strings.
        agents: Agents and harnesses.
        graphs: Compiled graphs.
        types: Classes: states, updates, outputs of models, enums of labels, exceptions.
        kinds: Forms of nodes and routers, beside "function", "graph" and "agent". `graphrt.nodes.registry` has those of
            the ready-made nodes.

    Raises:
        InputError: A section is neither, or has a name twice (`bad-registry`).
    """

    __slots__ = ("_sections", "kinds")

    def __init__(
        self,
        *,
        functions: Named = (),
        routers: Named = (),
        reducers: Named = (),
        tools: Named = (),
        models: Named = (),
        agents: Named = (),
        graphs: Named = (),
        types: Named = (),
        kinds: Iterable[type[Form]] = (),
    ) -> None:
        sections = (functions, routers, reducers, tools, models, agents, graphs, types)
        self._sections: dict[str, dict[str, Any]] = {
            section: _by_name(section, objects) for section, objects in zip(SECTIONS, sections, strict=True)
        }
        self.kinds: Mapping[str, type[Form]] = {kind_of(form): form for form in (*PLAIN_KINDS, *kinds)}
        """Forms by kind."""

    def section(self, section: Section) -> Mapping[str, Any]:
        """Return the names of a section with their objects."""
        return dict(self._sections[section])

    def find(self, section: Section, name: str) -> Any:
        """Return the object named *name*.

        Raises:
            KeyError: The section does not have it.
        """
        return self._sections[section][name]

    def name_of(self, section: Section, value: Any) -> str | None:
        """Return the name of *value*; None if the section does not have it."""
        for name, known in self._sections[section].items():
            if known is value or (isinstance(value, str) and known == value):
                return name
        return None

    def exception(self, name: str) -> Any:
        """Return the exception class *name* from the section `types`, Python or graphrt; None if there is none."""
        for candidate in (
            self._sections["types"].get(name),
            getattr(builtins, name, None),
            getattr(errors, name, None),
        ):
            if isinstance(candidate, type) and issubclass(candidate, Exception):
                return candidate
        return None

    def only(self, *, kinds: Iterable[str] | None = None, **allowed: Iterable[str]) -> Registry:
        """Return a registry with only these names.

        Args:
            kinds: Kinds of nodes; None keeps all.
            **allowed: Names by section; omitted sections are kept whole. Unknown names are ignored.
        """
        registry = Registry()
        registry._sections = {
            section: {name: value for name, value in known.items() if name in set(allowed.get(section, known))}
            for section, known in self._sections.items()
        }
        wanted = set(self.kinds if kinds is None else kinds)
        registry.kinds = {kind: form for kind, form in self.kinds.items() if kind in wanted}
        return registry

    def extended(self, **more: Named) -> Registry:
        """Return a registry that also has these names, by section; existing names are replaced."""
        wider = self.only()
        for section, named in more.items():
            wider._sections[section] |= _by_name(section, named)
        return wider

    def json_schema(self, *, kinds: Iterable[str] | None = None) -> dict[str, Any]:
        """Return the JSON schema of manifests, for instance to pass it to a model.

        Args:
            kinds: Kinds of nodes to describe; None describes all.
        """
        wanted = set(self.kinds if kinds is None else kinds)
        return json_schema({kind: form for kind, form in self.kinds.items() if kind in wanted})

    def __repr__(self) -> str:
        sections = ", ".join(f"{section}=[{', '.join(known)}]" for section, known in self._sections.items() if known)
        return f"Registry({sections})"


def _by_name(section: str, objects: Any) -> dict[str, Any]:
    by_name: dict[str, Any] = {}
    pairs: list[tuple[Any, Any]]
    if is_mapping(objects):
        pairs = list(objects.items())
    elif is_iterable(objects) and not isinstance(objects, (str, bytes)):
        pairs = [(_own_name(value), value) for value in objects]
    else:
        raise BAD_SECTION(section=section, problem=f"{objects!r}")
    for name, value in pairs:
        if not isinstance(name, str) or not name:
            raise BAD_SECTION(section=section, problem=f"{value!r}, which has no name")
        if name in by_name:
            raise BAD_SECTION(section=section, problem=f"the name {name!r} twice")
        # A handle from @g.node is replaced by its function.
        by_name[name] = getattr(value, "__wrapped__", value) if hasattr(value, "__graphrt_node__") else value
    return by_name


def _own_name(value: Any) -> Any:
    name = getattr(value, "__name__", None) or getattr(value, "name", None)
    return value if name is None and isinstance(value, str) else name


def known_names(section: Mapping[str, Any]) -> str:
    """Return the names of a section for messages."""
    return names(section) or "nothing"
