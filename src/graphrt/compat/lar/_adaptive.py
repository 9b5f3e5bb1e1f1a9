"""The graph of an AdaptiveNode: `design` asks and judges, and `run` is the nested graph made from the design.

```text
   START -> design ==Send(design)==> run          failed: only with an error_node, where both errors lead
```

The design is the argument of the Send, so it is in the journal, and a resumed run uses the same design.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

from typing_extensions import TypedDict

from graphrt._drivers.context import Context
from graphrt.commands import END, START, Command, Send
from graphrt.compat.lar._designs import RESERVED, AdaptiveNode, objects_of, parsed
from graphrt.compat.lar._functions import view_of
from graphrt.compat.lar._models import Models, answer
from graphrt.compat.lar._nodes import LAST_ERROR, BaseNode, error_text
from graphrt.compat.lar._state import Changes, both, nothing_written
from graphrt.errors import NodeError
from graphrt.graph import CompiledGraph, GraphBuilder, chosen_graph
from graphrt.limits import Limits
from graphrt.reducers import ephemeral

_DESIGN, _RUN, _FAILED = "design", "run", "failed"
_REMEMBERED: Final = 64
"""Maximum number of cached graphs of designs, per node."""
_HOW: Final = """
Answer with a JSON object: {"nodes": [...], "entry_point": "id of the first node"}.
Each node has "id", "type" and "next": the id of the node that follows, or null.
- LLMNode: "prompt", in which keys of the state may stand in braces, and "output_key"; "model" if it is allowed.
- ToolNode: "tool_name", "input_keys" (a list of keys), "output_key".
- BatchNode: "concurrent_nodes" (a list of ids, which run side by side).
"""


class AdaptiveState(TypedDict, total=False):
    """The state of the graph of an AdaptiveNode."""

    values: dict[str, Any]
    token_budget: int | None
    note: Annotated[dict[str, Any], ephemeral]
    design: dict[str, Any]
    prompt: str
    written: Annotated[Changes, both]
    spent: int
    error: str


def adaptive_graph(
    node: AdaptiveNode,
    *,
    name: str,
    models: Models,
    limits: Limits,
    graph_of: Callable[[BaseNode, str], CompiledGraph[Any, Any, Any]],
    states: tuple[type[Any], ...],
) -> CompiledGraph[Any, Any, Any]:
    """Return the graph of an AdaptiveNode.

    Args:
        node: The node object.
        name: Name of the graph.
        models: Who designs.
        limits: Limits of the graph.
        graph_of: Makes the graph of a design from its first node object and a name.
        states: State classes of the graphs that it makes.
    """
    known: dict[str, CompiledGraph[Any, Any, Any]] = {}

    def choose(design: Any) -> CompiledGraph[Any, Any, Any]:
        key = json.dumps(design, sort_keys=True)
        if key not in known:
            # Judged again, because a run may continue in a process whose validator allows less.
            node.validator.validate(design, model=node.designer.model_name, depth=node.depth)
            if len(known) >= _REMEMBERED:
                known.clear()
            known[key] = graph_of(objects_of(design, node), f"{name}, design")
        return known[key]

    async def design(state: Any, ctx: Context[Any]) -> Any:
        prompt = first = _prompt(node, state)
        tries = 0
        while True:
            model_answer = await answer(node.designer, prompt, ctx, models, name)
            try:
                proposal = parsed(model_answer.text)
                node.validator.validate(proposal, model=node.designer.model_name, depth=node.depth)
            except NodeError as error:
                tries += 1
                if tries > node.max_redesigns:
                    raise
                reasons = "\n".join(f"- {reason}" for reason in error.values)
                prompt = f"{first}\nYour last design was rejected:\n{reasons}\nAnswer with a better one."
                continue
            return Command(update={"design": proposal, "prompt": first}, goto=Send(_RUN, proposal))

    def failed(state: Any, ctx: Context[Any]) -> dict[str, Any]:  # noqa: ARG001 - the signature of a node
        text = error_text(ctx.failures[0].error)
        return {"written": Changes(written={LAST_ERROR: text}, deleted=[]), "error": text}

    handled: dict[str, Any] = {} if node.error_node is None else {"on_error": _FAILED}
    builder: GraphBuilder[Any, Any, Any] = GraphBuilder(AdaptiveState, name=name)
    builder.add_node(_DESIGN, design, goto=[_RUN], **handled)
    runs: Any = chosen_graph(choose, states=states)  # mapped like a nested graph
    builder.add_node(
        _RUN,
        runs,
        input=lambda state: {key: state[key] for key in ("values", "token_budget") if key in state},
        output=lambda last: _ran(last, node),
        **handled,
    )
    if handled:
        builder.add_node(_FAILED, failed)
        builder.add_edge(_FAILED, END)
    builder.add_edge(START, _DESIGN).add_edge(_RUN, END)
    return builder.compile(limits=limits)


def _ran(last: Mapping[str, Any], node: AdaptiveNode) -> dict[str, Any]:
    """Return the update from the last state of the designed graph.

    A design inside a design has a key for its result, if its designer was given one. Its other writes stay inside,
    because designs that run in parallel choose their keys independently.
    """
    written: Changes = last.get("written", nothing_written())
    if node.output_key is not None and node.output_key in written["written"]:
        written = Changes(written={node.output_key: written["written"][node.output_key]}, deleted=[])
    spent: int = last.get("spent", 0)
    return {"written": written, "spent": spent, **({"token_budget": last["token_budget"]} if spent else {})}


def noted(last: Mapping[str, Any], node: AdaptiveNode) -> dict[str, Any]:
    """Return the content of the step's record: the design, and the validator that judged it."""
    limits = node.validator.limits._asdict()
    return {
        "prompt": last.get("prompt"),
        "design": last.get("design"),
        "validator": {"tools": list(node.validator.allowed_tools), **limits, "reserved": sorted(RESERVED)},
    }


def _prompt(node: AdaptiveNode, state: Any) -> str:
    view = view_of(state)
    template = node.designer.template
    # A designer's prompt contains example prompts, so an unknown key in braces belongs to one of them.
    values = {key: view.get(key) for key in template.fields}
    text = template.render({key: f"{{{key}}}" if value is None else value for key, value in values.items()})
    context = "".join(f"{key}: {view.get(key)}\n" for key in node.context_keys)
    shown = f"Context:\n{context}" if context else ""
    tools = ", ".join(node.validator.allowed_tools) or "none"
    limits = node.validator.limits
    bounds = f"Tools: {tools}. At most {limits.nodes} nodes, and {limits.branches} branches of a BatchNode.\n"
    if node.depth < limits.depth:
        bounds += '- AdaptiveNode: "prompt" and "output_key", the key for its result; it designs a part itself.\n'
    return f"{text}\n{shown}{_HOW}{bounds}"
