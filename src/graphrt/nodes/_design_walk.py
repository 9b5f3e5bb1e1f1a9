"""Walks the raw form of a design: checks it against the validator before it is read, and adds limits to it.

A design may be any data, so every step checks the types that it meets. Names and edges are left to `from_spec` and
`compile()`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, Protocol

from graphrt._arguments import is_list, is_mapping
from graphrt.errors import Problem
from graphrt.errors._codes.ready_nodes import FORBIDDEN_DESIGN
from graphrt.specs import Registry
from graphrt.specs.plain_data import joined
from graphrt.specs.states import part_of

_OUTLINE: Final = ("state", "update", "reducer", "overwrite", "input", "output", "allow")
"""Parts that a design must not have: it uses the parent's state, and must not waive findings."""
_UPDATE: Final = "FieldsToWrite"
_MODEL_FIELDS: Final = ("model", "harness")


class Rules(Protocol):
    """The limits and lists of a `TopologyValidator` that are checked here."""

    @property
    def kinds(self) -> Collection[str]: ...
    @property
    def tools(self) -> Collection[str]: ...
    @property
    def queues(self) -> Collection[str]: ...
    @property
    def reads(self) -> Collection[str]: ...
    @property
    def writes(self) -> Collection[str]: ...
    @property
    def forbidden_words(self) -> Collection[str]: ...
    @property
    def run_harness(self) -> bool: ...
    @property
    def max_nodes(self) -> int: ...
    @property
    def max_depth(self) -> int: ...
    @property
    def max_fan_out(self) -> int: ...
    @property
    def max_steps(self) -> int: ...
    @property
    def max_attempts(self) -> int: ...
    @property
    def max_prompt(self) -> int: ...
    @property
    def max_tokens(self) -> int: ...
    @property
    def timeout_s(self) -> float | None: ...
    @property
    def adaptive_depth(self) -> int: ...
    def to_data(self) -> dict[str, Any]: ...


class DesignWalk:
    """Finds what a validator refuses in a design."""

    def __init__(self, validator: Rules) -> None:
        self._rules = validator
        self._found: list[Problem] = []
        self._nodes = 0

    def problems(self, data: Mapping[str, Any]) -> list[Problem]:
        """Return the problems of a design, in document order."""
        self._graph(data, "", 0)
        if self._nodes > self._rules.max_nodes:
            self._refuse(f"It has {self._nodes} nodes, and {self._rules.max_nodes} are allowed", "nodes")
        self._texts(data, "")
        return self._found

    def _refuse(self, problem: str, where: str) -> None:
        self._found.append(FORBIDDEN_DESIGN(problem=problem, where=where))

    def _graph(self, data: Mapping[str, Any], path: str, depth: int) -> None:
        for name in _OUTLINE:
            if name in data:
                self._refuse(f"A design may not set {name}", joined(path, name))
        self._limits(data.get("limits"), joined(path, "limits"))
        for at, node in _entries(data.get("nodes")):
            self._node(node, f"{joined(path, 'nodes')}[{at}]", depth)
        for at, edge in _entries(data.get("conditional_edges")):
            if is_mapping(edge.get("router")):
                self._fields(edge["router"], joined(f"{joined(path, 'conditional_edges')}[{at}]", "router"))
        self._fan_out(data, path)

    def _limits(self, limits: Any, path: str) -> None:
        if not is_mapping(limits):
            return
        rules = self._rules
        for name, limit in (("max_steps", rules.max_steps), ("max_tasks", rules.max_fan_out)):
            self._most(limits.get(name), limit, joined(path, name))
        if "max_visits" in limits:
            if limits["max_visits"] is None:
                self._refuse("A limit cannot be switched off", joined(path, "max_visits"))
            self._most(limits["max_visits"], rules.max_steps, joined(path, "max_visits"))
        if rules.timeout_s is not None and "deadline_s" in limits:
            self._most(limits["deadline_s"] or float("inf"), rules.timeout_s, joined(path, "deadline_s"))

    def _most(self, value: Any, limit: float, path: str) -> None:
        if isinstance(value, (int, float)) and value > limit:
            self._refuse(f"{value:,} is more than {limit:,}", path)

    def _node(self, node: Mapping[str, Any], path: str, depth: int) -> None:
        self._nodes += 1
        rules, kind = self._rules, node.get("kind")
        if kind == "adaptive":
            self._adaptive(node, path)
        if "options" in node:
            self._refuse("Options of a provider are not allowed", joined(path, "options"))
        if node.get("terminal") not in (None, False):
            self._refuse("A design may not ask at the terminal", joined(path, "terminal"))
        if _asks(node) and not rules.run_harness and all(node.get(name) is None for name in _MODEL_FIELDS):
            self._refuse("The run's harness may not be asked: name a model or an agent", path)
        self._fields(node, path)
        self._budget(node.get("budget"), joined(path, "budget"))
        for name in ("policy", "each"):
            if is_mapping(node.get(name)):
                self._policy(node[name], joined(path, name))
        self._most(node.get("max_tokens"), rules.max_tokens, joined(path, "max_tokens"))
        inner = node.get("graph")
        work = node.get("work")
        if (is_mapping(inner) or work is not None) and depth >= rules.max_depth:
            self._refuse(f"It is nested more than {rules.max_depth} levels deep", path)
            self._nodes += sum(1 for _ in _entries(work))
            return
        if is_mapping(inner):
            self._graph(inner, joined(path, "graph"), depth + 1)
        for at, inner_node in _entries(work):
            self._node(inner_node, f"{joined(path, 'work')}[{at}]", depth + 1)
        if work is not None:
            self._most(len(work) if is_list(work) else 0, rules.max_fan_out, joined(path, "work"))
            self._most(node.get("max_items"), rules.max_fan_out, joined(path, "max_items"))

    def _adaptive(self, node: Mapping[str, Any], path: str) -> None:
        if self._rules.adaptive_depth < 1:
            self._refuse("A design may not have adaptive nodes", path)
        for name in ("validator", "attempts"):
            if name in node:
                self._refuse(f"A design may not set {name}: it is inherited", joined(path, name))

    def _policy(self, policy: Mapping[str, Any], path: str) -> None:
        rules = self._rules
        retry = policy.get("retry")
        attempts = retry.get("attempts") if is_mapping(retry) else retry
        self._most(attempts, rules.max_attempts, joined(path, "retry"))
        if is_mapping(retry):
            for name in ("wait_initial_s", "wait_max_s"):
                self._most(retry.get(name), rules.timeout_s or 60, joined(joined(path, "retry"), name))
        if "max_visits" in policy and policy["max_visits"] is None:
            self._refuse("A limit cannot be switched off", joined(path, "max_visits"))
        self._most(policy.get("max_visits"), rules.max_steps, joined(path, "max_visits"))
        self._most(policy.get("cache"), 100, joined(path, "cache"))
        tools = policy.get("tools")
        for at, tool in enumerate(tools if is_list(tools) else ()):
            if tool not in rules.tools:
                self._refuse(f"The tool {tool!r} is not allowed", f"{joined(path, 'tools')}[{at}]")
        queue = policy.get("queue")
        if queue is not None and queue not in rules.queues:
            self._refuse(f"The queue {queue!r} is not allowed", joined(path, "queue"))
        if policy.get("inline") not in (None, False):
            self._refuse("A design may not run a node on the event loop", joined(path, "inline"))
        if "human" not in rules.kinds:
            for name in ("interrupt_before", "interrupt_after"):
                if policy.get(name) not in (None, False):
                    self._refuse("A design may not pause", joined(path, name))
        self._budget(policy.get("budget"), joined(path, "budget"))

    def _budget(self, budget: Any, path: str) -> None:
        if is_mapping(budget) and budget.get("on_exceeded") == "interrupt":
            self._refuse("A design may not ask for more", joined(path, "on_exceeded"))

    def _fields(self, node: Mapping[str, Any], path: str) -> None:
        """Check the fields of batches and routers, which no node declares."""
        readable = (*self._rules.reads, *self._rules.writes)
        kind = node.get("kind")
        for of, name, allowed in (
            ("batch", "over", readable), ("batch", "failures", self._rules.writes), ("field", "field", readable)
        ):  # fmt: skip
            field = node.get(name)
            if kind == of and isinstance(field, str) and field not in allowed:
                verb = "written" if name == "failures" else "read"
                self._refuse(f"The field {field!r} may not be {verb}", joined(path, name))

    def _fan_out(self, data: Mapping[str, Any], path: str) -> None:
        targets: dict[Any, int] = {}
        for _, edge in _entries(data.get("edges")):
            source = edge.get("from")
            if isinstance(source, str):
                targets[source] = targets.get(source, 0) + 1
        for source, number in targets.items():
            if number > self._rules.max_fan_out:
                limit = self._rules.max_fan_out
                self._refuse(
                    f"{source!r} starts {number} nodes at once, and {limit} are allowed", joined(path, "edges")
                )

    def _texts(self, value: Any, path: str) -> None:
        """Refuse texts that are too long, or that have a forbidden word."""
        if isinstance(value, str):
            if len(value) > self._rules.max_prompt:
                self._refuse(
                    f"The text has {len(value):,} characters, and {self._rules.max_prompt:,} are allowed", path
                )
            plain = _folded(value)
            for word in self._rules.forbidden_words:
                if _folded(word) in plain:
                    self._refuse(f"The text has the words {word!r}", path)
        elif is_mapping(value):
            for key, item in value.items():
                self._texts(item, joined(path, key))
        elif is_list(value):
            for at, item in enumerate(value):
                self._texts(item, f"{path}[{at}]")


def _folded(text: str) -> str:
    """Normalise a text for word search: fold case and look-alike forms, drop invisible characters and spaces."""
    shown = "".join(
        char for char in unicodedata.normalize("NFKC", text) if unicodedata.category(char) not in ("Cf", "Mn")
    )
    return " ".join(shown.casefold().replace("_", " ").split())


def _asks(node: Mapping[str, Any]) -> bool:
    """Return whether a node calls a model with its own prompt."""
    kind = node.get("kind")
    return kind == "llm" or (kind == "reduce" and "prompt" in node) or (kind == "adaptive" and not _by_function(node))


def _by_function(node: Mapping[str, Any]) -> bool:
    return is_mapping(node.get("designer"))


def _entries(value: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for at, entry in enumerate(value if is_list(value) else ()):
        if is_mapping(entry):
            yield at, entry


def node_paths(data: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Map the name of each node of a valid design to its path, and to the same for the nodes inside it."""
    paths: dict[str, Any] = {}
    for at, node in _entries(data.get("nodes")):
        where = f"{joined(path, 'nodes')}[{at}]"
        inner: dict[str, Any] = {}
        if is_mapping(node.get("graph")):
            inner = node_paths(node["graph"], joined(where, "graph"))
        for place, inner_node in _entries(node.get("work")):
            spot = f"{joined(where, 'work')}[{place}]"
            nested = inner_node.get("graph")
            inner[inner_node["name"]] = (spot, node_paths(nested, joined(spot, "graph")) if is_mapping(nested) else {})
        paths[node["name"]] = (where, inner)
    return paths


def prepared(
    data: Mapping[str, Any], rules: Rules, registry: Registry, state: type[Any]
) -> tuple[dict[str, Any], Registry]:
    """Return a design with the limits of its validator, and the registry to read it with.

    The graph gets only the readable fields, and its nodes return only the writable ones. Both are enforced at run time,
    whatever its functions do.
    """
    ready = _limited(data, rules)
    ready["input"] = list(dict.fromkeys((*rules.reads, *rules.writes)))
    return ready, registry.extended(types={_UPDATE: part_of(state, rules.writes, _UPDATE)})


def _limited(data: Mapping[str, Any], rules: Rules) -> dict[str, Any]:
    ready = {name: value for name, value in data.items() if name not in _OUTLINE}
    limits = ready.get("limits", {})
    if is_mapping(limits):
        default_limits: dict[str, Any] = {"max_steps": rules.max_steps, "max_tasks": rules.max_fan_out}
        default_limits["max_visits"] = min(50, rules.max_steps)
        if rules.timeout_s is not None:
            default_limits["deadline_s"] = rules.timeout_s
        ready["limits"] = {**default_limits, **limits}
    ready["update"] = _UPDATE
    nodes = ready.get("nodes")
    if is_list(nodes):
        ready["nodes"] = [_limited_node(node, rules) if is_mapping(node) else node for node in nodes]
    return ready


def _limited_node(node: Mapping[str, Any], rules: Rules) -> dict[str, Any]:
    ready = dict(node)
    if is_mapping(node.get("graph")):
        ready["graph"] = _limited(node["graph"], rules)
    work = node.get("work")
    if is_list(work):
        ready["work"] = [
            _limited_node(inner_node, rules) if is_mapping(inner_node) else inner_node for inner_node in work
        ]
        ready.setdefault("max_items", rules.max_fan_out)
    if _asks(node):
        ready.setdefault("max_tokens", rules.max_tokens)
    if node.get("kind") == "adaptive" and rules.adaptive_depth > 0:
        inherited = {**rules.to_data(), "adaptive_depth": rules.adaptive_depth - 1}
        ready |= {"validator": inherited, "attempts": rules.max_attempts}
    return ready
