"""Designs: graphs that a model writes as JSON, judged by a `TopologyValidator` and made into node objects.

```text
   {"nodes": [{"id": "a", "type": "LLMNode", "prompt": "...", "output_key": "x", "next": null}], "entry_point": "a"}
```

This module executes and evaluates nothing in a design. Forbidden kinds cannot become node objects.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple, final

from graphrt._arguments import is_mapping
from graphrt.compat.lar._nodes import (
    BaseNode,
    BatchNode,
    LLMNode,
    ToolNode,
    link,
    names,
    run_or_fail,
    whole,
)
from graphrt.compat.lar._prompts import Prompt
from graphrt.compat.lar._state import BUDGET, is_items
from graphrt.errors import InputError
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.compat import NODES_REJECTED

END_OF_DESIGN: Final = "__end__"
MOST_CHARACTERS: Final = 200_000
"""Maximum length of a design that is parsed."""
RESERVED: Final = frozenset({BUDGET, "last_error"})
"""Keys that a design may not write."""
_ADAPTIVE: Final = ("AdaptiveNode", "DynamicNode")
_FIELDS: Final[Mapping[str, tuple[frozenset[str], frozenset[str]]]] = {
    "LLMNode": (frozenset({"prompt", "output_key"}), frozenset({"model"})),
    "ToolNode": (frozenset({"tool_name", "input_keys"}), frozenset({"output_key"})),
    "BatchNode": (frozenset({"concurrent_nodes"}), frozenset()),
    **dict.fromkeys(_ADAPTIVE, (frozenset({"prompt"}), frozenset({"model", "context_keys", "output_key"}))),
}
"""Fields of each type besides `id`, `type` and `next`: the required and the optional ones."""


class Limits(NamedTuple):
    """Maximum size of a design."""

    nodes: int
    branches: int
    depth: int
    characters: int


@final
class TopologyValidator:
    """Decides which designs may run. Whatever is not allowed is denied: without arguments, a design can use no tools.

    Args:
        allowed_tools: Functions that a ToolNode may call, by their names.
        allowed_models: Names of models, besides the designer's own.
        max_nodes: How many nodes may run, counted with repetition where branches share nodes.
        max_branches: How many branches a BatchNode may have.
        max_depth: How deep designs may nest, by default 3; 1 allows no AdaptiveNode in a design.
        max_prompt: Maximum length of a prompt, in characters.

    Raises:
        InputError: An argument is wrong (`input`).
    """

    def __init__(
        self,
        allowed_tools: Iterable[Callable[..., Any]] | None = None,
        *,
        allowed_models: Iterable[str] = (),
        max_nodes: int = 20,
        max_branches: int = 8,
        max_depth: int = 3,
        max_prompt: int = 8_000,
    ) -> None:
        tools = list(allowed_tools or ())
        for tool in tools:
            unchecked: Any = tool
            if not callable(unchecked) or not getattr(unchecked, "__name__", ""):
                raise INVALID_ARGUMENT(
                    argument="allowed_tools of TopologyValidator", value=unchecked, wanted="a function"
                )
        self.allowed_tools: Final = {str(getattr(tool, "__name__", "")): tool for tool in tools}
        models: Any = allowed_models
        if isinstance(models, str) or not all(isinstance(model, str) for model in models):
            raise INVALID_ARGUMENT(
                argument="allowed_models of TopologyValidator", value=allowed_models, wanted="a list of texts"
            )
        self.allowed_models: Final[frozenset[str]] = frozenset(models)
        bounds = {
            "max_nodes": max_nodes,
            "max_branches": max_branches,
            "max_depth": max_depth,
            "max_prompt": max_prompt,
        }
        for option, number in bounds.items():
            whole(option, number, "TopologyValidator", least=1)
        self.limits: Final = Limits(max_nodes, max_branches, max_depth, max_prompt)

    def validate(self, graph_spec: Any, *, model: str | None = None, depth: int = 1) -> bool:
        """Return True if the design may run.

        Args:
            graph_spec: The design, as parsed from JSON.
            model: The designer's model, which is allowed too.
            depth: How deep the design is nested, from 1.

        Raises:
            NodeError: It may not (`design-rejected`); `values` has all reasons.
        """
        reasons = self.reasons(graph_spec, model=model, depth=depth)
        if reasons:
            raise NODES_REJECTED(reasons="; ".join(reasons[:5]), number=len(reasons), values=tuple(reasons))
        return True

    def reasons(self, graph_spec: Any, *, model: str | None = None, depth: int = 1) -> list[str]:
        """Return the reasons why the design may not run: 0..n sentences, in the order of its nodes."""
        if not is_mapping(graph_spec):
            return ["The design is not a JSON object."]
        nodes: Any = graph_spec.get("nodes")
        if not is_items(nodes) or not nodes:
            return ["`nodes` must be a list of 1 or more nodes."]
        if len(nodes) > self.limits.nodes:
            return [f"It has {len(nodes)} nodes, and {self.limits.nodes} are allowed."]
        reasons = [
            f"The design has an unknown entry {key!r}." for key in graph_spec if key not in ("nodes", "entry_point")
        ]
        by_id: dict[str, Mapping[Any, Any]] = {}
        for at, entry in enumerate(nodes):
            reasons += self._of_entry(entry, at, by_id, model, depth)
        reasons += self._of_links(by_id, graph_spec.get("entry_point"))
        return reasons

    def _of_entry(
        self, entry: Any, at: int, by_id: dict[str, Mapping[Any, Any]], model: str | None, depth: int
    ) -> list[str]:
        """Return the problems of one node, and add it to *by_id*."""
        if not is_mapping(entry):
            return [f"nodes[{at}] is not an object."]
        name, kind = entry.get("id"), entry.get("type")
        if not isinstance(name, str) or not name or name == END_OF_DESIGN:
            return [f"nodes[{at}] has no id that is a text and not {END_OF_DESIGN!r}."]
        if name in by_id:
            return [f"The id {name!r} is there twice."]
        by_id[name] = entry
        if not isinstance(kind, str) or kind not in _FIELDS:
            return [f"Node {name!r} has the type {kind!r}; allowed are {', '.join(_FIELDS)}."]
        needed, possible = _FIELDS[kind]
        reasons = [f"Node {name!r} lacks {key!r}." for key in sorted(needed) if key not in entry]
        known = {*needed, *possible, "id", "type", "next"}
        reasons += [f"Node {name!r} has an unknown entry {key!r}." for key in entry if key not in known]
        if kind in _ADAPTIVE and depth >= self.limits.depth:
            reasons.append(f"Node {name!r} would nest designs deeper than {self.limits.depth}.")
        # Compared in lists, because a value in a design may be unhashable.
        tool, requested_model = entry.get("tool_name"), entry.get("model")
        if "tool_name" in entry and tool not in list(self.allowed_tools):
            reasons.append(f"Node {name!r} uses the tool {tool!r}, which is not allowed.")
        if requested_model is not None and requested_model not in [*self.allowed_models, model]:
            reasons.append(f"Node {name!r} uses the model {requested_model!r}, which is not allowed.")
        reasons += self._of_texts(name, entry)
        return reasons

    def _of_texts(self, name: str, entry: Mapping[Any, Any]) -> list[str]:
        """Return the problems of the prompt and the keys of a node."""
        reasons: list[str] = []
        if "prompt" in entry:
            prompt: Any = entry["prompt"]
            if not isinstance(prompt, str) or not 0 < len(prompt) <= self.limits.characters:
                reasons.append(
                    f"The prompt of node {name!r} must be a text of 1 to {self.limits.characters} characters."
                )
            else:
                try:
                    Prompt(prompt)
                except InputError as error:
                    reasons.append(f"The prompt of node {name!r} is not a template: {error.what}")
        key: Any = entry.get("output_key")
        if key is not None and (not isinstance(key, str) or not key or key in RESERVED or key.startswith("_")):
            reasons.append(f"Node {name!r} may not write the key {key!r}.")
        if entry.get("type") == "LLMNode" and "output_key" in entry and key is None:
            reasons.append(f"Node {name!r} needs a key for its answer.")
        for option in ("input_keys", "context_keys"):
            keys: Any = entry.get(option, [])
            if not is_items(keys) or not all(isinstance(item, str) and item and item[0] != "_" for item in keys):
                reasons.append(f"{option} of node {name!r} must be a list of keys that do not begin with '_'.")
        return reasons

    def _of_links(self, by_id: Mapping[str, Mapping[Any, Any]], entry_point: Any) -> list[str]:
        """Return the problems of the connections between nodes."""
        reasons: list[str] = []
        links: dict[str, list[str]] = {}
        for name, entry in by_id.items():
            after: Any = entry.get("next")
            branches: Any = entry.get("concurrent_nodes", [])
            if not is_items(branches) or (entry.get("type") == "BatchNode" and not branches):
                reasons.append(f"concurrent_nodes of node {name!r} must be a list of 1 or more ids.")
                branches = []
            if len(branches) > self.limits.branches:
                reasons.append(f"Node {name!r} has {len(branches)} branches, and {self.limits.branches} are allowed.")
                branches = []
            targets = [*branches, *([] if after in (None, END_OF_DESIGN) else [after])]
            unknown = [target for target in targets if not isinstance(target, str) or target not in by_id]
            reasons += [f"Node {name!r} leads to {target!r}, which is not there." for target in unknown]
            links[name] = [target for target in targets if isinstance(target, str) and target in by_id]
        if not isinstance(entry_point, str) or entry_point not in by_id:
            return [*reasons, f"The entry_point {entry_point!r} is not a node."]
        circle = _circle(links)
        if circle is not None:
            return [*reasons, f"The nodes {' -> '.join(circle)} lead back to themselves."]
        runs = _runs(entry_point, links)
        if runs > self.limits.nodes:
            reasons.append(f"{runs} nodes would run, and {self.limits.nodes} are allowed.")
        lost = by_id.keys() - _reached(entry_point, links)
        return [*reasons, *(f"Node {name!r} is never reached." for name in by_id if name in lost)]


def parsed(text: str) -> Any:
    """Return the JSON of a design, extracted from a code block if there is one.

    Raises:
        NodeError: There is none (`design-rejected`).
    """
    if len(text) > MOST_CHARACTERS:
        problem = f"It has {len(text)} characters, and {MOST_CHARACTERS} are read."
        raise NODES_REJECTED(reasons=problem, number=1, values=(problem,))
    inside = text
    if "```" in text:
        inside = text.split("```", 2)[1].removeprefix("json")
    try:
        return json.loads(inside)
    except (ValueError, RecursionError) as error:
        problem = f"It is not JSON: {error}."
        raise NODES_REJECTED(reasons=problem, number=1, values=(problem,)) from None


class AdaptiveNode(BaseNode):
    """Asks a model for a design, and runs it if the validator allows it.

    A design that is rejected goes back to the model with the reasons, `max_redesigns` times; then the step fails. The
    design runs as a nested graph, within the budget of the run. Its writes are applied when it ends.

    Args:
        llm_model: Name of the model that designs, and that answers those nodes of the design that name no model.
        prompt_template: The task, with keys of the state in braces, as in an LLMNode, except that an unknown key stays
            text, since such prompts contain example prompts. Instructions for writing a design are added.
        validator: Decides which designs may run.
        next_node: The node that follows.
        context_keys: Keys that are shown to the model.
        system_instruction: Instructions of the designer.
        error_node: The node that follows if every design is rejected or the design fails; it finds the error text in
            the key `last_error`.
        max_redesigns: Maximum number of further attempts.
    """

    links: ClassVar[tuple[str, ...]] = ("next_node", "error_node")

    def __init__(
        self,
        llm_model: str,
        prompt_template: str,
        validator: TopologyValidator,
        next_node: BaseNode | None = None,
        context_keys: Sequence[str] = (),
        system_instruction: str | None = None,
        *,
        error_node: BaseNode | None = None,
        max_redesigns: int = 2,
    ) -> None:
        unchecked: Any = validator
        if not isinstance(unchecked, TopologyValidator):
            raise INVALID_ARGUMENT(
                argument=f"validator of {type(self).__name__}",
                value=unchecked,
                wanted="a TopologyValidator of graphrt.compat.lar",
            )
        instruction = system_instruction or "You design graphs. Answer with one JSON object and nothing else."
        self.designer: LLMNode = LLMNode(llm_model, prompt_template, "design", system_instruction=instruction)
        self.validator = validator
        self.next_node: BaseNode | None = link("next_node", next_node, self)
        self.error_node: BaseNode | None = link("error_node", error_node, self)
        self.context_keys: list[str] = names("context_keys", context_keys, self)
        self.max_redesigns: int = whole("max_redesigns", max_redesigns, self, least=0)
        self.depth = 1
        """Nesting depth of its design; more than 1 inside a design."""
        self.output_key: str | None = None
        """In a design: the key for its own design's result. If that design writes it, its other keys stay inside."""

    @property
    def llm_node(self) -> LLMNode:
        """The node that asks for the design, under Lár's name."""
        return self.designer

    def execute(self, state: Any) -> BaseNode | None:
        """Request a design, and run it in a separate run, with the models of the run that *state* belongs to, if any.

        Raises:
            GraphrtError: Every design was rejected, or the design failed, and there is no error_node.
        """
        return run_or_fail(self, state, self.next_node, self.error_node)


class DynamicNode(AdaptiveNode):
    """The former name of AdaptiveNode."""


def objects_of(design: Mapping[str, Any], node: AdaptiveNode) -> BaseNode:
    """Return the first node object of a design that *node*'s validator allowed."""
    validator, model = node.validator, node.designer.model_name
    nodes_by_id: dict[str, Any] = {}
    new_node: Any
    entries: Sequence[Mapping[str, Any]] = design["nodes"]
    for entry in entries:
        match entry["type"]:
            case "LLMNode":
                new_node = LLMNode(entry.get("model") or model, entry["prompt"], entry["output_key"])
            case "ToolNode":
                tool = validator.allowed_tools[entry["tool_name"]]
                new_node = ToolNode(tool, list(entry["input_keys"]), entry.get("output_key"))
            case "BatchNode":
                new_node = BatchNode([])
            case _:
                keys = entry.get("context_keys", ())
                new_node = AdaptiveNode(entry.get("model") or model, entry["prompt"], validator, context_keys=keys)
                new_node.depth = node.depth + 1
                new_node.output_key = entry.get("output_key")
        nodes_by_id[entry["id"]] = new_node
    for entry in entries:
        new_node = nodes_by_id[entry["id"]]
        after = entry.get("next")
        new_node.next_node = None if after in (None, END_OF_DESIGN) else nodes_by_id[after]
        if isinstance(new_node, BatchNode):
            new_node.nodes += [nodes_by_id[name] for name in entry["concurrent_nodes"]]
    first: BaseNode = nodes_by_id[design["entry_point"]]
    return first


# -- graphs of ids -------------------------------------------------------------------------------------------------


def _circle(links: Mapping[str, list[str]]) -> list[str] | None:
    """Return the ids of a cycle, ending with its first id again; None if there is no cycle."""
    done: set[str] = set()
    for start in links:
        way: list[str] = []
        waiting: list[tuple[str, bool]] = [(start, False)]
        while waiting:  # not recursive, because a design may be a long chain
            name, leaving = waiting.pop()
            if leaving:
                way.pop()
                done.add(name)
            elif name in way:
                return [*way[way.index(name) :], name]
            elif name not in done:
                way.append(name)
                waiting += [(name, True), *((successor, False) for successor in reversed(links[name]))]
    return None


def _runs(start: str, links: Mapping[str, list[str]]) -> int:
    """Return how many nodes run from *start* on, counting each as often as it is reached; *links* have no cycle."""
    known: dict[str, int] = {}
    waiting = [start]
    while waiting:
        name = waiting[-1]
        missing = [successor for successor in links[name] if successor not in known]
        if missing:
            waiting += missing
            continue
        known[name] = 1 + sum(known[successor] for successor in links[name])
        waiting.pop()
    return known[start]


def _reached(start: str, links: Mapping[str, list[str]]) -> set[str]:
    reached, waiting = {start}, [start]
    while waiting:
        for name in links[waiting.pop()]:
            if name not in reached:
                reached.add(name)
                waiting.append(name)
    return reached
