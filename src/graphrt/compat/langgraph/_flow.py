"""Targets of each node of a graph, from its declarations and its source: the wiring that `compile()` then checks."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, get_args, get_origin

from langgraph.types import Send

from graphrt.compat.langgraph._places import is_foreign
from graphrt.compat.langgraph._read import END, ROOT, START, Branch, GraphDescription, Node, read, union_parts
from graphrt.compat.langgraph._source import Result, Source, mentions, source_of
from graphrt.compat.langgraph._topology import Choice, Wiring

_ONE_VALUE: Final = ("last_value", "after_finish", "ephemeral", "untracked")
"""Kinds of channels that take one value in a superstep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gotos:
    """Targets of the Commands and Sends that a node returns, in its own graph."""

    targets: tuple[str, ...]
    """Nodes and END, from the source; if that is incomplete, also from the annotation."""
    seen: dict[str, int]
    """Targets that the source names, each with its line."""
    open: bool
    """Whether there may be other targets."""
    always: bool
    """Whether every result of the node names a target."""
    several: bool
    """Whether one result may name several targets."""
    ways: tuple[tuple[str, ...], ...]
    """What the results name together, if one names several and the source shows all of them; otherwise empty."""


class Flow:
    """The analysed sources of a graph's functions, with their targets. Made once for each graph."""

    def __init__(self, graph: GraphDescription) -> None:
        self.graph = graph
        self.sources: dict[str, Source | None] = {name: _source(node) for name, node in graph.nodes.items()}
        """By node; None if there is no user source."""
        self.routers: list[Source | None] = [_source(branch) for branch in graph.branches]
        """By index in `graph.branches`."""
        self.gotos: dict[str, Gotos] = {name: self._gotos(node) for name, node in graph.nodes.items()}
        self.handlers = {
            name: node.error_handler
            for name, node in graph.nodes.items()
            if node.error_handler in graph.nodes and not node.is_error_handler
        }
        self.many_sends: dict[str, int] = {}
        """Nodes that one router or Command may start several times at once, each with the line of the Send."""
        self.certain_sends: set[str] = set()
        """Targets of several Sends, or that occur in a list with other targets."""
        self.sent: set[str] = set()
        """Nodes that Sends start. Their input need not be the state."""
        self.sends_anywhere = False
        """Whether Sends go to unknown nodes."""
        self._read_sends()

    def _read_sends(self) -> None:
        for source in (*self.routers, *self.sources.values()):
            for result in source.results if source is not None else ():
                self.sent.update(result.sends)
                self.sends_anywhere = self.sends_anywhere or (result.open_sends and bool(result.sends))
                for name in result.many_sends:
                    self.many_sends.setdefault(name, result.sends[name])
        for branch, source in zip(self.graph.branches, self.routers, strict=True):
            if source is None or any(result.open_sends for result in source.results):
                may_send = branch.sends or (branch.function is not None and mentions(branch.function, "Send"))
                if may_send and branch.path_map is not None:
                    self.sent.update(branch.path_map.values())
                elif may_send:
                    self.sends_anywhere = True

    def _gotos(self, node: Node) -> Gotos:
        source = self.sources[node.name]
        declared = dict.fromkeys((*(node.annotated_targets or ()), *(node.targets if node.destinations else ())))
        results = [] if source is None else source.results
        seen = {name: line for result in results for name, line in (*result.gotos.items(), *result.sends.items())}
        silent = source is not None and not any(may_go(result) for result in results)
        is_open = self._may_go_anywhere(node) and not declared and not silent
        closed = source is not None and not any(result.open_gotos or result.open_sends for result in results)
        targets = tuple(seen) if closed else tuple(dict.fromkeys((*seen, *declared)))
        several = any(len({*result.gotos, *result.sends}) > 1 and result.is_list for result in results)
        ways: dict[tuple[str, ...], None] = {}
        if several and closed and not any(result.grows for result in results):
            for result in results:
                named = tuple(dict.fromkeys((*result.gotos, *result.sends)))
                ways |= dict.fromkeys([named] if result.is_list or not named else [(name,) for name in named])
        return Gotos(
            targets=targets,
            seen=seen,
            open=(is_open and not closed) or (not declared and any(_hands_over(read(call)) for call in node.calls)),
            always=closed and bool(results) and all(result.gotos or result.sends for result in results),
            several=several,
            ways=tuple(ways),
        )

    def _may_go_anywhere(self, node: Node) -> bool:
        """Return whether a node with an open source may return Commands, judged by its annotation, else by its code."""
        if node.subgraph is not None:
            return _hands_over(node.subgraph)
        if _tools_mention(node, "Command"):
            return True
        if node.function is None or is_foreign(node.place):
            return False
        if node.returns is not inspect.Parameter.empty:
            return "Command" in str(node.returns) and node.annotated_targets is None
        return mentions(node.function, "Command")

    @functools.cached_property
    def wiring(self) -> Wiring:
        """Return the wiring, leaving out unknown names."""
        graph = self.graph
        nodes = tuple(graph.nodes)
        known = {*nodes, END}
        choices: dict[str, list[Choice]] = {}
        for branch, source in zip(graph.branches, self.routers, strict=True):
            if branch.source in known or branch.source == START:
                choices.setdefault(branch.source, []).append(self._choice(branch, source, known))
        for name, goto in self.gotos.items():
            targets = [target for target in goto.targets if target in known]
            if targets:
                more = () if goto.always or END in targets else (END,)
                ways = tuple(tuple(target for target in way if target in known) or (END,) for way in goto.ways)
                choices.setdefault(name, []).append(
                    Choice(targets=(*targets, *more), several=goto.several and not ways, known=not goto.open, ways=ways)
                )
        edges: dict[str, list[str]] = {}
        for start, end in graph.edges:
            if start in (START, *nodes) and end in known:
                edges.setdefault(start, []).append(end)
        return Wiring(
            nodes=nodes,
            edges={name: tuple(many) for name, many in edges.items()},
            choices={name: tuple(many) for name, many in choices.items()},
            waiting=tuple(join for join in graph.waiting if join.target in known and set(join.sources) <= set(nodes)),
            handlers={name: handler for name, handler in self.handlers.items() if handler is not None},
            open=frozenset(name for name, goto in self.gotos.items() if goto.open),
            writes={name: self.writes(name) for name in nodes},
            sends=self.sends_anywhere,
        )

    def _choice(self, branch: Branch, source: Source | None, known: set[str]) -> Choice:
        """Return the targets of a router: from its path map, which is assumed to be complete, else from its labels."""
        results = [] if source is None else source.results
        labels, closed = labels_of(branch, source)
        sends = [name for result in results for name in result.sends]
        several = any(result.is_list for result in results) or gives_list(branch)
        path_map = branch.path_map
        named = labels if path_map is None else path_map
        targets = dict.fromkeys((*(_target(label, branch) for label in named), *sends))
        existing = tuple(name for name in targets if name in known)
        ways: dict[tuple[str, ...], None] = {}
        if several and not any(result.open_labels or result.open_sends or result.grows for result in results):
            for result in results:
                way = dict.fromkeys((*(_target(label, branch) for label in result.labels), *result.sends))
                ways[tuple(name for name in way if name in known) or (END,)] = None
        closed = closed or path_map is not None
        return Choice(targets=existing or (END,), several=several and not ways, known=closed, ways=tuple(ways))

    def keys_of(self, name: str) -> set[str]:
        """Return the known keys that a node may write."""
        node, source = self.graph.nodes[name], self.sources[name]
        if node.subgraph is not None:
            return {key for key in node.subgraph.outputs if key in self.graph.channels}
        return set() if source is None else {key for result in source.results for key in written(result, node)}

    def writes(self, name: str) -> frozenset[str]:
        """Return the keys that a node may write and that take one value in a superstep."""
        graph, node, source = self.graph, self.graph.nodes[name], self.sources[name]
        single = {key for key, channel in graph.channels.items() if channel.kind in _ONE_VALUE}
        single -= {key for key in single if getattr(graph.channels[key].channel, "guard", True) is False}
        if node.subgraph is not None:
            return frozenset(key for key in single.intersection(node.subgraph.outputs) if self._has_value(key, node))
        if source is None:
            return frozenset()
        if ROOT in single:
            return frozenset([ROOT]) if any(not result.nothing for result in source.results) else frozenset()
        return frozenset(key for result in source.results for key in written(result, node) if key in single)

    def _has_value(self, key: str, node: Node) -> bool:
        """Return whether a nested graph has a value for a key that it returns, from its input or from a node."""
        inner = node.subgraph
        if inner is None or (key in inner.inputs and node.name not in self.sent):
            return True
        flow = Flow(inner)
        return any(key in flow.keys_of(name) for name in inner.nodes)

    def always_writes(self, name: str, key: str) -> bool:
        """Return whether each result of a node writes a key."""
        node, source = self.graph.nodes[name], self.sources[name]
        if node.subgraph is not None:
            return key in node.subgraph.inputs  # the graph gets a value as input, and returns it
        return source is not None and all(key == ROOT or key in written(result, node) for result in source.results)


def written(result: Result, node: Node) -> set[str]:
    """Return the keys that a result writes, as far as the source reveals them."""
    return {*result.keys, *(node.reads if result.whole_state else ())}


def _target(label: Any, branch: Branch) -> str:
    """Return the node that a label of a router means; an empty text if it means none."""
    return str(label) if branch.path_map is None else branch.path_map.get(label, "")


def may_go(result: Result) -> bool:
    """Return whether a result may be a Command, or a Send."""
    return result.is_command or bool(result.sends) or result.open_gotos


def labels_of(branch: Branch, source: Source | None) -> tuple[dict[Any, int], bool]:
    """Return the labels that a router can return, and whether the list is complete.

    An annotation counts in addition to the source, since a stub may return fewer labels. The line of a label is 0 if
    only the annotation has it.
    """
    results = [] if source is None else source.results
    labels: dict[Any, int] = {label: line for result in results for label, line in result.labels.items()}
    if all(result.is_list for result in results if None in result.labels):
        labels.pop(None, None)  # an element of a list, which may be filtered
    for result in results:
        if result.nothing and not result.implicit:
            labels.setdefault(None, result.line)
    for label in branch.labels or ():
        labels.setdefault(label, 0)
    return labels, shows_all(source) or branch.labels is not None


def shows_all(source: Source | None) -> bool:
    """Return whether the source of a router reveals everything that it returns."""
    return source is not None and not any(result.open_labels or result.open_sends for result in source.results)


def gives_list(branch: Branch) -> bool:
    """Return whether the annotation of a router allows a list of labels, or only one of Sends.

    With `str | list[Send]`, a router names one target or starts several tasks.
    """
    parts = union_parts(branch.returns)
    lists = [part for part in parts if (get_origin(part) or part) in (list, tuple, Sequence)]
    sends = [part for part in lists if {argument for argument in get_args(part) if argument is not Ellipsis} == {Send}]
    return bool(lists) and (len(sends) < len(lists) or len(lists) == len(parts))


def _source(item: Node | Branch) -> Source | None:
    """Return the analysed source of a user function."""
    return None if item.function is None or is_foreign(item.place) else source_of(item.function)


def _hands_over(graph: GraphDescription) -> bool:
    """Return whether a nested graph may return Commands to its parent, itself or in its tools."""
    for node in graph.nodes.values():
        if _tools_mention(node, "PARENT"):
            return True
        if node.function is not None and not is_foreign(node.place) and mentions(node.function, "PARENT"):
            return True
    return False


def _tools_mention(node: Node, word: str) -> bool:
    """Return whether the code of a tool in a `ToolNode` uses a name."""
    tools: Any = getattr(node.runnable, "tools_by_name", None) or {}
    functions = [getattr(tool, "func", None) or getattr(tool, "coroutine", None) for tool in tools.values()]
    return any(mentions(function, word) for function in functions)
