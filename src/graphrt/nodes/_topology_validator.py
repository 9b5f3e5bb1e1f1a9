"""`TopologyValidator`: what a graph designed at run time may contain. Anything not allowed is refused.

It validates data: it walks the raw design, reads it with a registry that has only the allowed parts, and compiles it.
All problems are collected. It calls no model, so no text in a design can persuade it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, fields
from math import inf
from typing import Any, Final, TypeGuard

from graphrt._arguments import is_mapping
from graphrt.errors import DefinitionError, InputError, Problem
from graphrt.errors._codes.arguments import INVALID_ARGUMENT, UNKNOWN_NAME_IN_ARGUMENT
from graphrt.errors._codes.ready_nodes import FORBIDDEN_DESIGN
from graphrt.graph import CompiledGraph, GraphBuilder
from graphrt.harness import Budget
from graphrt.nodes._design_walk import DesignWalk, node_paths, prepared
from graphrt.specs import Registry, SpecLimits
from graphrt.specs.plain_data import plain_data

_NAMES: Final = (
    "kinds", "functions", "routers", "reducers", "tools", "models", "agents", "graphs", "types", "queues", "reads",
    "writes", "forbidden_words",
)  # fmt: skip
_SECTIONS: Final = ("functions", "routers", "reducers", "tools", "models", "agents", "graphs", "types")
_NUMBERS: Final = {
    "max_nodes": 1, "max_depth": 0, "max_fan_out": 1, "max_steps": 1, "max_attempts": 1, "max_prompt": 1,
    "max_tokens": 1, "max_bytes": 1, "adaptive_depth": 0,
}  # fmt: skip
_FORBIDDEN: Final = (
    "validator", "allow-list", "allow list", "allowlist", "ignore previous instructions", "ignore all previous",
    "ignore your instructions",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyValidator:
    """The parts that a designed graph may use, and its maximum size.

    Every list is empty by default, and allows nothing.

    Raises:
        InputError: A list or a limit is wrong (`input`).
    """

    kinds: Collection[str] = ()
    """Kinds of nodes and routers, such as "llm", "tool", "batch" and "field"."""
    functions: Collection[str] = ()
    """Names of the registry, as in the six lists below."""
    routers: Collection[str] = ()
    reducers: Collection[str] = ()
    tools: Collection[str] = ()
    """Also the tools of the run's harness that a node may name in its policy."""
    models: Collection[str] = ()
    agents: Collection[str] = ()
    graphs: Collection[str] = ()
    types: Collection[str] = ()
    queues: Collection[str] = ()
    """Queues that a node may name in its policy. The task of a node on any other queue would wait for a worker that
    does not exist."""
    reads: Collection[str] = ()
    """Fields of the state that a design gets. Other fields do not exist while it runs."""
    writes: Collection[str] = ()
    """Fields that it may write, and also read."""
    run_harness: bool = False
    """Whether nodes without a model may use the run's harness."""
    max_nodes: int = 20
    """Total number of nodes, including those of nested graphs and batches."""
    max_depth: int = 1
    """Levels of nested graphs and batches in the design."""
    max_fan_out: int = 8
    """Nodes that one node starts at once, items of a batch, and tasks of a superstep."""
    max_steps: int = 50
    """Supersteps of the design, and of each graph in it."""
    max_attempts: int = 3
    """Attempts of a node with a retry policy."""
    max_prompt: int = 4_000
    """Characters of any text in the design, such as a prompt."""
    max_tokens: int = 1_024
    """Maximum tokens of each model answer, and the default of nodes that set none."""
    max_bytes: int = 64_000
    """Maximum size of the design in bytes."""
    timeout_s: float | None = None
    """Seconds that the design may run; None for no separate limit."""
    budget: Budget | None = None
    """Total usage of its model calls; None for no separate limit."""
    adaptive_depth: int = 0
    """Levels of adaptive nodes inside a design, which also need the kind "adaptive". They get this validator with one
    level fewer."""
    forbidden_words: Collection[str] = _FORBIDDEN
    """Words that no text of a design may contain, in upper or lower case: a tripwire for texts addressed to the
    validator. No other rule depends on it."""

    def __post_init__(self) -> None:
        for name in _NAMES:
            names: Any = getattr(self, name)
            if not _is_collection(names) or any(not isinstance(item, str) or not item for item in names):
                raise INVALID_ARGUMENT(
                    argument=f"{name} of TopologyValidator", value=names, wanted="a collection of names"
                )
            object.__setattr__(self, name, tuple(dict.fromkeys(names)))
        for name, minimum in _NUMBERS.items():
            number: Any = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, int) or number < minimum:
                raise INVALID_ARGUMENT(
                    argument=f"{name} of TopologyValidator", value=number, wanted=f"a whole number of {minimum} or more"
                )
        budget: Any = self.budget
        if budget is not None and not isinstance(budget, Budget):
            raise INVALID_ARGUMENT(argument="budget of TopologyValidator", value=budget, wanted="a Budget, or None")
        flag: Any = self.run_harness
        if not isinstance(flag, bool):
            raise INVALID_ARGUMENT(argument="run_harness of TopologyValidator", value=flag, wanted="True or False")
        seconds: Any = self.timeout_s
        is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
        if seconds is not None and not (is_number and 0 < seconds < inf):
            raise INVALID_ARGUMENT(
                argument="timeout_s of TopologyValidator", value=seconds, wanted="seconds above 0, or None"
            )

    @property
    def digest(self) -> str:
        """SHA-256 of the lists and limits, which the journal keeps with each verdict."""
        return hashlib.sha256(json.dumps(self.to_data(), sort_keys=True).encode()).hexdigest()

    def to_data(self) -> dict[str, Any]:
        """Return the lists and limits as plain data."""
        data = {field.name: getattr(self, field.name) for field in fields(self)}
        data |= {name: sorted(data[name]) for name in _NAMES}
        data["budget"] = None if self.budget is None else asdict(self.budget)
        return data

    @staticmethod
    def from_data(data: Mapping[str, Any]) -> TopologyValidator:
        """Return the validator that `to_data` described.

        Raises:
            InputError: It has an unknown key, or a value is wrong (`input`, `bad-limit`).
        """
        known = [field.name for field in fields(TopologyValidator)]
        unknown = [name for name in data if name not in known]
        if unknown:
            raise UNKNOWN_NAME_IN_ARGUMENT(
                argument="The data of a TopologyValidator", name=unknown[0], what="option", known_names=known
            )
        arguments = dict(data)
        budget = arguments.get("budget")
        if budget is not None:
            limits = [field.name for field in fields(Budget)]
            unknown_options = [name for name in budget if name not in limits] if is_mapping(budget) else [budget]
            if unknown_options:
                raise UNKNOWN_NAME_IN_ARGUMENT(
                    argument="The budget of a TopologyValidator",
                    name=unknown_options[0],
                    what="option",
                    known_names=limits,
                )
            arguments["budget"] = Budget(**budget)
        return TopologyValidator(**arguments)

    def allowed(self, registry: Registry) -> Registry:
        """Return the registry for reading designs, which has only the allowed parts."""
        kinds = [kind for kind in self.kinds if kind != "adaptive" or self.adaptive_depth > 0]
        return registry.only(kinds=kinds, **{section: getattr(self, section) for section in _SECTIONS})

    def judge(
        self, design: Any, registry: Registry, state: type[Any]
    ) -> tuple[CompiledGraph[Any, Any, Any] | None, tuple[Problem, ...]]:
        """Validate a design.

        Args:
            design: A manifest: a mapping, JSON text, or a GraphSpec.
            registry: The meaning of its names; only the allowed ones are visible.
            state: The state class of the graph around it.

        Returns:
            The compiled graph and no problems; or None and 1..n problems, each with its path as `where`.
        """
        try:
            data = self.plain(design)
        except InputError as error:
            return None, (Problem(code=error.code, message=error.what, hint=error.fix, where=error.path or ""),)
        problems = DesignWalk(self).problems(data)
        graph: CompiledGraph[Any, Any, Any] | None = None
        try:
            ready, known = prepared(data, self, self.allowed(registry), state)
            graph = GraphBuilder.from_spec(ready, known, state=state).compile()
        except DefinitionError as error:
            problems += error.problems
        except InputError as error:
            problems.append(Problem(code=error.code, message=error.what, hint=error.fix, where=error.path or ""))
        if graph is not None:
            problems += self._fields(graph, node_paths(data, ""), "")
        return (None, tuple(problems)) if problems else (graph, ())

    def plain(self, design: Any) -> dict[str, Any]:
        """Return a design as plain data within `max_bytes`.

        Raises:
            InputError: It is not plain data, or too large (`bad-spec-text`).
        """
        data = design.to_data() if hasattr(design, "to_data") else design
        limit = self.max_bytes
        return plain_data(data, SpecLimits(max_bytes=limit, max_values=limit, max_depth=24 + 6 * self.max_depth))

    def _fields(self, graph: CompiledGraph[Any, Any, Any], paths: Mapping[str, Any], path: str) -> list[Problem]:
        """Return a problem for each declared field that is not allowed.

        Args:
            graph: The graph, or one that is nested in it.
            paths: Maps the name of a node to its place, and to the same for its nested nodes; see `node_paths`.
            path: Path of a node that is not in *paths*, because it belongs to a graph of the registry.
        """
        problems: list[Problem] = []
        readable = {*self.reads, *self.writes}
        for name in graph.nodes:
            where, inner = paths.get(name, (path, {}))
            nested = graph.nested.get(name)
            if nested is not None:
                problems += self._fields(nested, inner, where)
                continue
            declared = graph.declared_fields(name)
            if declared is None:
                continue
            for verb, names, allowed in (("read", declared.reads, readable), ("written", declared.writes, self.writes)):
                problems += [
                    FORBIDDEN_DESIGN(problem=f"The field {field!r} may not be {verb}", node=name, where=where)
                    for field in names
                    if field not in allowed
                ]
        return problems


def _is_collection(value: object) -> TypeGuard[Collection[Any]]:
    return isinstance(value, Collection) and not isinstance(value, (str, bytes))
