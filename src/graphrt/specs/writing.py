"""Converts a compiled graph to its manifest: declarations become entries, and objects become names.

With a registry, its names are used. Without one, names are derived from the objects' own names, and `GraphWriter.used`
has the objects.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import fields
from enum import Enum
from math import isfinite
from typing import Any, Final

from graphrt import reducers
from graphrt._arguments import is_list, is_mapping
from graphrt._plan.fields import describe
from graphrt._plan.node_attributes import form_of
from graphrt._plan.specs import BranchSpec, EdgeSpec, JoinSpec, NodeSpec, Policy
from graphrt._plan.tables import Plan
from graphrt.commands import EndType, StartType, node_name
from graphrt.errors import Problem
from graphrt.errors._codes.findings import DEFINITION
from graphrt.errors._codes.specs import UNREGISTERED, UNWRITABLE_VALUE
from graphrt.limits import Limits, RetryPolicy
from graphrt.specs.forms import PLAIN_KINDS, SECTIONS, Form, Section, kind_of
from graphrt.specs.manifest import VERSION, GraphSpec
from graphrt.specs.plain_data import joined, within
from graphrt.specs.registry import Registry

_PLAIN: Final = {kind_of(form): form for form in PLAIN_KINDS}
_NOTHING: Final = Policy()
_DEFAULT_LIMITS: Final = Limits()
_MOST: Final = 10**19


def write(graph: Any, registry: Registry | None) -> GraphSpec:
    """Return the manifest of a compiled graph.

    Raises:
        DefinitionError: Something cannot be written, or is not in the registry.
    """
    return GraphSpec.model_validate(GraphWriter(registry).whole(graph))


def registry_of(graph: Any, kinds: Sequence[type[Form]]) -> Registry:
    """Return a registry with everything that a graph uses, under the names of its manifest."""
    writer = GraphWriter(None)
    writer.whole(graph)
    return Registry(kinds=kinds, **{section: writer.used[section] for section in SECTIONS})


class GraphWriter:
    """Writes one graph. Forms see it as a `Writer`."""

    def __init__(self, registry: Registry | None) -> None:
        self.registry = registry
        self.problems: list[Problem] = []
        self.used: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
        """Names by section, with their objects."""
        self._path = ""
        self._node = "it"

    def whole(self, graph: Any) -> dict[str, Any]:
        """Return the manifest of *graph* as data.

        Raises:
            DefinitionError: Something cannot be written.
        """
        data = self.graph(graph)
        if self.problems:
            raise DEFINITION(who=f"The manifest that graph {graph.name!r} should become", problems=self.problems)
        return data

    # -- graphs ------------------------------------------------------------------------------------------------------

    def graph(self, graph: Any) -> dict[str, Any]:
        """Return the manifest of a graph; parts that cannot be written are reported as problems."""
        plan: Plan = graph.__graphrt_plan__
        spec = plan.spec
        data: dict[str, Any] = {"spec_version": VERSION, "name": plan.name, "state": self._state(plan)}
        if spec.version:
            data["version"] = spec.version
        if spec.hands_over_to:
            data["hands_over_to"] = [_ref(target) for target in spec.hands_over_to]
        if plan.update.kind == "overwrite":
            data["overwrite"] = True
        elif plan.update.cls is not None:
            cls = plan.update.cls  # a union of classes, which has no name
            data["update"] = self.name("types", cls, getattr(cls, "__name__", "Update"))
        if plan.update.reducer is not None:
            data["reducer"] = self.name("reducers", plan.update.reducer.fn, _own_name(plan.update.reducer.fn))
        for option, cls in (("input", spec.input), ("output", spec.output)):
            if cls is not None:
                data[option] = self.name("types", cls, cls.__name__)
        around = self._path
        nodes: list[dict[str, Any]] = []
        for item in spec.declared:
            if isinstance(item, NodeSpec):
                self._path = f"{joined(around, 'nodes')}[{len(nodes)}]"
                nodes.append(self.node(item.name, item.fn, item.policy, fields=item.fields))
        data["nodes"] = nodes
        self._path = around
        edges = [{"from": _ref(item.src), "to": _ref(item.dst)} for item in spec.declared if isinstance(item, EdgeSpec)]
        branches = [self._branch(item) for item in spec.declared if isinstance(item, BranchSpec)]
        joins = [_join(item) for item in spec.declared if isinstance(item, JoinSpec)]
        lists = {"edges": edges, "conditional_edges": branches, "joins": joins}
        data |= {name: several for name, several in lists.items() if several}
        changed = {
            name: value for name, value in plan.limits.to_dict().items() if value != getattr(_DEFAULT_LIMITS, name)
        }
        if changed:
            data["limits"] = changed
        if graph._allow:
            data["allow"] = sorted(graph._allow)
        return data

    def inside(self, field: str, graph: Any) -> dict[str, Any]:
        """Return the manifest of a graph that is in a field of the present node."""
        around, node = self._path, self._node
        self._path = within(around, field)
        try:
            return self.graph(graph)
        finally:
            self._path, self._node = around, node

    def node(self, name: str, fn: Any, policy: Policy = _NOTHING, *, fields: Any = None) -> dict[str, Any]:
        """Return a node as data.

        Args:
            name: Name of the node.
            fn: Its function, graph, agent or harness.
            policy: Its policy.
            fields: The fields that it declares; identical writes are not repeated in the policy.
        """
        around, self._node = self._node, name
        declared = form_of(fn)
        if declared is not None:
            form: type[Form] = declared.form if isinstance(declared.form, type) else _PLAIN[declared.form]
            arguments = declared.arguments
        elif hasattr(fn, "__graphrt_plan__"):
            form, arguments = _PLAIN["graph"], {"graph": fn}
        elif not callable(fn) and inspect.iscoroutinefunction(getattr(fn, "run", None)):
            form, arguments = _PLAIN["agent"], {"agent": fn}
        else:
            form, arguments = _PLAIN["function"], {"function": fn}
        data = {"name": name, "kind": kind_of(form), **form.written(arguments, self)}
        policy_data = self._policy(policy, fields, "policy", of_agent=form is _PLAIN["agent"])
        self._node = around
        return {**data, "policy": policy_data} if policy_data else data

    def item(self, name: str, fn: Any, field: str) -> dict[str, Any]:
        """Return a node that is in a field of the present one, such as one of a batch."""
        around = self._path
        self._path = within(around, field)
        try:
            return self.node(name, fn)
        finally:
            self._path = around

    def policy(self, given: Mapping[str, Any], field: str, *, of_agent: bool = False) -> dict[str, Any]:
        """Return policy arguments of `add_node` as data; *field* is where they stand, *of_agent* as in `Parts`."""
        read = dict(given)
        if isinstance(read.get("retry"), int):
            read["retry"] = RetryPolicy(read["retry"])
        for name in ("writes", "goto", "hands_over_to", "tools"):
            if read.get(name) is not None:
                several: Any = (read[name],) if isinstance(read[name], str) else read[name]
                read[name] = tuple(node_name(item) if name in ("goto", "hands_over_to") else item for item in several)
        for name in ("on_error", "on_fatigue"):
            if read.get(name) is not None:
                read[name] = node_name(read[name])
        return self._policy(Policy(**read), None, field, of_agent=of_agent)

    # -- names and values ------------------------------------------------------------------------------------------

    def name(self, section: Section, value: Any, wish: object) -> str:
        """Return the name of an object, and record the object as used.

        Args:
            section: Section of the registry.
            value: The object.
            wish: The name to use if there is no registry and the name is free.
        """
        if self.registry is not None:
            known = self.registry.name_of(section, value)
            if known is None:
                self.problems.append(
                    UNREGISTERED(value=_shown(value), section=section, node=self._node, where=self._path)
                )
            return known or str(wish)
        used = self.used[section]
        for name, registered in used.items():
            if registered is value or (isinstance(value, str) and registered == value):
                return name
        wished = str(wish)
        base = wished if wished.isidentifier() or isinstance(value, str) else self._node
        name, number = base, 1
        while name in used:
            number += 1
            name = f"{base}_{number}"
        used[name] = value
        return name

    def registered(self, section: Section, value: Any) -> str | None:
        """Return the name of *value* in the registry; None if it has none, or if there is no registry."""
        return None if self.registry is None else self.registry.name_of(section, value)

    def value(self, value: Any, section: Section | None, field: str, *, is_text: bool = False) -> Any:
        """Return an argument as data.

        Args:
            value: The argument.
            section: Section of the registry, if it is something that has a name there.
            field: The field of the form, for the path of problems.
            is_text: Whether a string in its place is the text of a Template.
        """
        if value is None or (isinstance(value, bool) and section is None):
            return value
        if section is not None:
            if is_list(value):
                return [self.value(item, section, field) for item in value]
            return self.name(section, value, _own_name(value))
        if isinstance(value, Enum):
            return self._unwritable(value, field)
        if isinstance(value, str):
            return value
        if isinstance(value, int) and abs(value) < _MOST:
            return value
        if isinstance(value, float) and isfinite(value):
            return value
        return self._compound(value, field, is_text=is_text)

    def _compound(self, value: Any, field: str, *, is_text: bool) -> Any:
        from graphrt.harness import Budget, Template

        if isinstance(value, Template):
            return value.text if is_text else {"template": value.text}
        if isinstance(value, Budget):
            return _budget(value)
        if is_mapping(value):
            if all(isinstance(key, str) for key in value):
                return {key: self.value(value[key], None, joined(field, key)) for key in value}
            return self._unwritable(value, field)
        if is_list(value):
            return [self.value(item, None, f"{field}[{at}]") for at, item in enumerate(value)]
        if callable(value) and not isinstance(value, type):
            return {"function": self.name("functions", value, _own_name(value))}
        return self._unwritable(value, field)

    def _unwritable(self, value: Any, field: str) -> None:
        where = within(self._path, field)
        self.problems.append(UNWRITABLE_VALUE(value=_shown(value), node=self._node, where=where))

    # -- parts of a graph ----------------------------------------------------------------------------------------------

    def _state(self, plan: Plan) -> dict[str, Any]:
        schema = plan.state
        fields: dict[str, Any] = {}
        for name, field in schema.fields.items():
            data: dict[str, Any] = {"type": describe(field.annotation)}
            if field.reducer_name != "overwrite":
                data["reducer"] = field.reducer_name
                if not reducers.is_own(field.reduce):
                    data["reducer"] = self._reducer(field)
            for mark in ("ephemeral", "redacted", "untracked"):
                if getattr(field, mark):
                    data[mark] = True
            if field.required:
                data["required"] = True
            elif field.make_default is not None:
                default = field.make_default()
                if _is_data(default, 0):
                    data["default"] = default
            fields[name] = data
        name = self.name("types", schema.cls, schema.cls.__name__)
        return {"class": name, "kind": schema.kind, "fields": fields}

    def _reducer(self, field: Any) -> str:
        """Return the name of a reducer: its label, as in fingerprints, or its name in the registry."""
        if self.registry is not None:
            return self.registered("reducers", field.reduce) or str(field.reducer_name)
        self.used["reducers"].setdefault(field.reducer_name, field.reduce)
        return str(field.reducer_name)

    def _branch(self, branch: BranchSpec) -> dict[str, Any]:
        source = _ref(branch.src)
        self._node = source
        declared = form_of(branch.router)
        router: Any
        if declared is not None:
            form: type[Form] = declared.form
            router = {"kind": kind_of(form), **form.written(declared.arguments, self)}
        else:
            router = self.name("routers", branch.router, _own_name(branch.router))
        data: dict[str, Any] = {"from": source, "router": router, "routes": _routes(branch.routes)}
        if branch.default is not None:
            data["default"] = _ref(branch.default)
        return data

    def _policy(self, policy: Policy, fields: Any, field: str, *, of_agent: bool) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for name in Policy.__slots__:
            value = getattr(policy, name)
            if value == getattr(_NOTHING, name) and type(value) is type(getattr(_NOTHING, name)):
                continue
            if name == "writes" and fields is not None and tuple(fields.writes) == tuple(value):
                continue
            if name == "tools" and not value and not of_agent:
                continue  # a node in a manifest gets only what it names
            match name:
                case "retry":
                    data[name] = self._retry(value)
                case "on_error" | "on_fatigue":
                    data[name] = _ref(value)
                case "goto" | "hands_over_to":
                    data[name] = [_ref(target) for target in value]
                case "key":
                    data[name] = self.name("functions", value, _own_name(value))
                case "budget":
                    data[name] = _budget(value)
                case _:
                    data[name] = self.value(value, None, joined(field, name))
        return data

    def _retry(self, retry: RetryPolicy) -> Any:
        default = RetryPolicy()
        data: dict[str, Any] = {"attempts": retry.attempts}
        for name in ("wait_initial_s", "wait_max_s", "growth", "jitter"):
            if getattr(retry, name) != getattr(default, name) or type(getattr(retry, name)) is not type(
                getattr(default, name)
            ):
                data[name] = getattr(retry, name)
        on: Any = retry.retry_on
        if is_list(on):
            data["retry_on"] = [self._exception(cls) for cls in on]
        elif on is not None:
            data["retry_on"] = (
                self._exception(on) if isinstance(on, type) else self.name("functions", on, _own_name(on))
            )
        return data

    def _exception(self, cls: Any) -> str:
        if Registry().exception(cls.__name__) is cls:
            return str(cls.__name__)
        return self.name("types", cls, cls.__name__)


def _ref(ref: Any) -> Any:
    return ref.name if isinstance(ref, (StartType, EndType)) else ref


def _join(join: JoinSpec) -> dict[str, Any]:
    data: dict[str, Any] = {"from": [_ref(source) for source in join.sources], "to": _ref(join.dst)}
    if join.when != "all":
        data["when"] = join.when
    if join.starved != "error":
        data["starved"] = join.starved
    return data


def _routes(routes: Any) -> Any:
    if not is_mapping(routes):
        return [_ref(target) for target in routes]
    if routes and all(type(label) is str for label in routes):
        return {label: _ref(routes[label]) for label in routes}
    return [{"label": _label(label), "to": _ref(routes[label])} for label in routes]


def _label(label: Any) -> Any:
    if isinstance(label, EndType):
        return {"enum": "END.END"}
    return {"enum": f"{type(label).__name__}.{label.name}"} if isinstance(label, Enum) else label


def _budget(budget: Any) -> dict[str, Any]:
    options = ((field.name, getattr(budget, field.name), field.default) for field in fields(budget))
    return {name: value for name, value, default in options if value != default}


def _own_name(value: Any) -> object:
    return getattr(value, "__name__", None) or getattr(value, "name", None) or (value if isinstance(value, str) else "")


def _shown(value: Any) -> str:
    name = getattr(value, "__name__", None)
    text = name if isinstance(name, str) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _is_data(value: object, depth: int) -> bool:
    """Return whether a default is plain data that reads back as the same value."""
    if value is None or type(value) in (bool, str):
        return True
    if type(value) is int:
        return abs(value) < _MOST
    if type(value) is float:
        return isfinite(value)
    if depth > 20:
        return False
    if is_list(value):
        return value.__class__ is list and all(_is_data(item, depth + 1) for item in value)
    if is_mapping(value):
        return value.__class__ is dict and all(type(key) is str and _is_data(value[key], depth + 1) for key in value)
    return False
