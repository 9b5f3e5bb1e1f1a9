"""Rules about the state (keys, types, reducers, nested graphs), about interrupts, and about when a graph is built."""

from __future__ import annotations

import ast
import inspect
import operator
import types
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import typing_extensions as te
from pydantic import BaseModel, TypeAdapter, ValidationError

from graphrt.compat.langgraph._flow import Flow
from graphrt.compat.langgraph._places import is_foreign
from graphrt.compat.langgraph._read import ROOT, Channel, GraphDescription, Node, Place, place_of, plain_function
from graphrt.compat.langgraph._rules import RULES, Finding
from graphrt.compat.langgraph._source import CHANGING, Source, ends, function_node, own, targets
from graphrt.errors import closest, names


def state_findings(graph: GraphDescription, flow: Flow) -> Iterator[Finding]:
    """Yield problems of the state of *graph*, and of the way in which nodes use it."""
    for channel in graph.channels.values():
        yield from _reducer(channel)
    yield from _ignored_reducers(graph)
    for name, node in graph.nodes.items():
        source = flow.sources[name]
        if node.subgraph is not None:
            yield from _subgraph(node, node.subgraph, flow)
        if source is not None and ROOT not in graph.channels:
            yield from _keys(node, source, graph)
            yield from _reads(node, source, graph, flow)
            yield from _lost(node, source, graph)
            yield from _doubled(node, source, graph)
        if source is not None:
            yield from _interrupts(node, source)
        yield from _sent_many(node, flow)
    yield from _life(graph)


# -------------------------------------------------------------------------------------------------------------- keys


def _keys(node: Node, source: Source, graph: GraphDescription) -> Iterator[Finding]:
    """Yield keys that no schema has, and values of another type."""
    known = [*graph.channels, *graph.managed]
    reported: set[str] = set()
    for result in source.results:
        for key, value in result.keys.items():
            if key in reported:
                continue
            place = Place(file=source.file, line=getattr(value, "lineno", result.line))
            if key not in known:
                # Routers without a schema also see such keys from the node's own result.
                if not any(_names_key(branch.function, key) for branch in graph.branches if branch.source == node.name):
                    reported.add(key)
                    yield RULES["unknown-key"](
                        node=node.name, key=key, known=names(known), place=place, guess=closest(key, known) or ""
                    )
            elif key in graph.channels:
                for finding in _type(node, graph.channels[key], value, place):
                    reported.add(key)
                    yield finding


def _names_key(function: Any, key: str) -> bool:
    code = getattr(plain_function(function), "__code__", None)
    return code is not None and key in code.co_consts


_SHAPES: Final[Mapping[type[ast.expr], type]] = {
    ast.Dict: dict, ast.DictComp: dict, ast.List: list, ast.ListComp: list, ast.Set: set, ast.SetComp: set,
    ast.JoinedStr: str,
}  # fmt: skip
_PLAIN: Final = (str, int, float, bool, bytes, list, dict, set, tuple)


def _type(node: Node, channel: Channel, value: ast.expr, place: Place) -> Iterator[Finding]:
    """Yield writes whose class is known from the source and not allowed by the annotation."""
    kind = type(value.value) if isinstance(value, ast.Constant) else _SHAPES.get(type(value))
    if kind is None or kind is type(None) or kind is type(...):
        return
    allowed = _classes(channel.value_type)
    adds = channel.kind == "reducer" and channel.reducer in (operator.add, operator.concat)
    if allowed is None or not (channel.kind == "last_value" or (adds and allowed == {list})):
        return
    constant = value.value if isinstance(value, ast.Constant) else ...
    is_constant = constant is not ...
    allows = kind in allowed or (kind is int and float in allowed) or (kind is bool and int in allowed)
    if allows and is_constant and get_origin(channel.value_type) is Literal:
        allows = constant in get_args(channel.value_type)
    if allows or (is_constant and _coerced(channel, constant)):
        return
    shown = repr(constant) if is_constant else f"a {kind.__name__}"
    consequence = (
        "LangGraph stores the value as it is: no schema is checked when a node writes, and nodes that read the key fail."
        if not adds
        else "The reducer adds it to a list, and the run fails with TypeError."
    )
    yield RULES["wrong-type"](
        node=node.name, key=channel.key, shown=shown, wanted=_type_name(channel.value_type), consequence=consequence,
        place=place,
    )  # fmt: skip


def _classes(annotation: Any) -> set[type] | None:
    """Return the plain classes that an annotation allows; None if it also allows others."""
    origin = get_origin(annotation)
    if origin is Literal:
        return {type(constant) for constant in get_args(annotation)}
    if origin in (Union, types.UnionType):
        parts = [_classes(argument) for argument in get_args(annotation) if argument is not type(None)]
        return None if any(part is None for part in parts) else {cls for part in parts for cls in part or ()}
    plain = origin or annotation
    return {plain} if plain in _PLAIN else None


def _coerced(channel: Channel, value: object) -> bool:
    """Return whether a pydantic state would accept the value when the next node receives it."""
    if not any(inspect.isclass(schema) and issubclass(schema, BaseModel) for schema in channel.schemas):
        return False
    try:
        TypeAdapter(channel.value_type).validate_python(value)
    except ValidationError:
        return False
    return True


def _type_name(annotation: Any) -> str:
    return getattr(annotation, "__name__", None) or str(annotation).replace("typing.", "")


def _reads(node: Node, source: Source, graph: GraphDescription, flow: Flow) -> Iterator[Finding]:
    """Yield keys that a node reads but its input lacks, except in nodes that Sends start: a Send may pass any keys."""
    if node.name in flow.sent or flow.sends_anywhere or not te.is_typeddict(node.input_schema):
        return
    changed = {key for _, key, _ in source.changes}
    for key, line in source.reads.items():
        if key not in node.reads and key not in changed:
            schema = getattr(node.input_schema, "__name__", str(node.input_schema))
            never = "" if key in graph.channels else "; no other schema has it either"
            yield RULES["unknown-read"](
                node=node.name, key=key, schema=schema, never=never, known=names(node.reads),
                place=Place(file=source.file, line=line), guess=closest(key, list(node.reads)) or "",
            )  # fmt: skip


def _lost(node: Node, source: Source, graph: GraphDescription) -> Iterator[Finding]:
    """Yield in-place changes of a key that no result of the node returns."""
    if any(result.open_keys or result.whole_state for result in source.results):
        return
    returned = {key for result in source.results for key in result.keys}
    reported: set[str] = set()
    for line, key, how in source.changes:
        if key in returned or key in reported or key not in graph.channels:
            continue
        assigned = how in ("=", "del")
        if assigned and key in source.uses:
            continue  # the state is used as a local variable
        if not assigned and not (_classes(graph.channels[key].value_type) or set()) & {list, dict, set}:
            continue  # an object with methods, which may be meant to be mutated
        reported.add(key)
        yield RULES["lost-change"](
            node=node.name, key=key, shown=f"{key!r}{'' if assigned else f' by {how}'}",
            consequence="The node was given a mapping of its own: the change is lost."
            if assigned
            else "The value is changed for this process alone and in no checkpoint: after a resume it is gone, and a "
            "reducer never sees it.",
            place=Place(file=source.file, line=line),
        )  # fmt: skip


# ---------------------------------------------------------------------------------------------------------- reducers


def _adds(channel: Channel) -> bool:
    """Return whether the reducer of a channel adds each written value to the current one."""
    return (
        channel.kind == "reducer"
        and getattr(channel.reducer, "__name__", "") in ("add", "concat", "iadd", "iconcat")
        and (getattr(channel.reducer, "__module__", "") == "_operator")
    )


def _doubled(node: Node, source: Source, graph: GraphDescription) -> Iterator[Finding]:
    """Yield nodes that return the whole state, or the old value of a key plus more, to a reducer that adds."""
    adding = [key for key in node.reads if key in graph.channels and _adds(graph.channels[key])]
    for result in source.results:
        keys = [key for key in adding if key not in result.keys]
        if result.whole_state and keys:
            yield RULES["doubled-values"](
                node=node.name, what="the whole state", keys=names(keys),
                place=Place(file=source.file, line=result.line),
            )  # fmt: skip
            return
        for key in adding:
            value = result.keys.get(key)
            if value is not None and _contains_old(value, key, source):
                yield RULES["doubled-values"](
                    node=node.name, what=f"the old value of {key!r} with what is new", keys=repr(key),
                    place=Place(file=source.file, line=value.lineno),
                )  # fmt: skip
                return


def _contains_old(value: ast.expr, key: str, source: Source) -> bool:
    """Return whether an expression is `state["k"]`, `state["k"] + x` or `[*state["k"], x]`."""
    arguments = [*source.node.args.posonlyargs, *source.node.args.args]
    state = {argument.arg for argument in arguments[:2]}
    parts = [value]
    while parts:
        part = parts.pop()
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Add):
            parts += [part.left, part.right]
        elif isinstance(part, (ast.List, ast.Tuple)):
            parts += [element.value for element in part.elts if isinstance(element, ast.Starred)]
        elif isinstance(part, ast.Subscript) and isinstance(part.value, ast.Name) and part.value.id in state:
            if isinstance(part.slice, ast.Constant) and part.slice.value == key:
                return True
        elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.attr == key:
            return part.value.id in state
    return False


def _reducer(channel: Channel) -> Iterator[Finding]:
    """Yield reducers that mutate their first argument, or that can end without a return."""
    plain = plain_function(channel.reducer)
    place = place_of(channel.reducer) if channel.reducer is not None else None
    if not isinstance(plain, types.FunctionType) or is_foreign(place):
        return
    node = function_node(plain)
    if node is None or isinstance(node, ast.Lambda):
        return
    named: dict[str, Any] = {"reducer": plain.__name__, "key": channel.key}
    statements = list(own(node))
    returns = [statement for statement in statements if isinstance(statement, ast.Return)]
    if not any(isinstance(statement, (ast.Yield, ast.YieldFrom)) for statement in statements) and (
        not ends(node.body) or any(statement.value is None for statement in returns)
    ):
        yield RULES["empty-reducer"](**named, place=place)
    first = next((argument.arg for argument in (*node.args.posonlyargs, *node.args.args)), "")
    for statement in statements:
        if isinstance(statement, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == first for target in statement.targets
        ):
            return  # the name is rebound from here on
        changed = [target.value for target in targets(statement) if isinstance(target, ast.Subscript)]
        if (
            isinstance(statement, ast.Call)
            and isinstance(statement.func, ast.Attribute)
            and statement.func.attr in CHANGING
        ):
            changed.append(statement.func.value)
        line = next((name.lineno for name in changed if isinstance(name, ast.Name) and name.id == first), None)
        if line is not None:
            yield RULES["changing-reducer"](**named, place=Place(file=plain.__code__.co_filename, line=line))
            return


def _ignored_reducers(graph: GraphDescription) -> Iterator[Finding]:
    """Yield functions of two arguments in an annotation that LangGraph does not recognise as reducers."""
    for channel in graph.channels.values():
        if channel.kind != "last_value":
            continue
        for metadata, where in _metadata(channel.annotation, ""):
            for item in metadata:
                if _is_reducer(item):
                    name = getattr(item, "__name__", repr(item))
                    schema = channel.schemas[0] if channel.schemas else graph.state_schema
                    yield RULES["ignored-reducer"](
                        reducer=name, key=channel.key, place_of_it=where, place=place_of(schema)
                    )


def _metadata(annotation: Any, where: str) -> Iterator[tuple[tuple[Any, ...], str]]:
    if get_origin(annotation) is Annotated:
        inner, *metadata = get_args(annotation)
        if where or len(metadata) > 1:
            yield tuple(metadata if where else metadata[:-1]), where or "before other metadata"
        yield from _metadata(inner, where)
    elif get_origin(annotation) in (te.Required, te.NotRequired):
        yield from _metadata(get_args(annotation)[0], where)
    else:
        for part in get_args(annotation):
            yield from _metadata(part, "inside of the type")


def _is_reducer(value: Any) -> bool:
    if isinstance(value, type) or not isinstance(value, (types.FunctionType, types.BuiltinFunctionType)):
        return False
    return value.__module__ == "_operator" or value in (max, min) or _takes_two(value)


def _takes_two(value: Any) -> bool:
    code = getattr(value, "__code__", None)
    return code is not None and code.co_argcount == 2


# ------------------------------------------------------------------------------------------- nested graphs and Sends


def _subgraph(node: Node, inner: GraphDescription, flow: Flow) -> Iterator[Finding]:
    """Yield nested graphs without a common key, and those that return their input to an adding reducer."""
    graph = flow.graph
    if ROOT in inner.channels or ROOT in graph.channels:
        return
    sent = node.name in flow.sent or flow.sends_anywhere  # a Send may pass any keys
    shared_inputs = [key for key in inner.inputs if key in graph.channels]
    returned = [key for key in inner.outputs if key in graph.channels]
    if not returned and (sent or not shared_inputs):
        shown = f"{names(inner.channels)} there, {names(graph.channels)} here"
        lost = "what it returns is dropped" if sent else "the inner graph gets nothing, and what it returns is dropped"
        yield RULES["no-shared-keys"](node=node.name, inner=shown, lost=lost)
    doubled = [
        key
        for key in returned
        if key in shared_inputs and _adds(graph.channels[key]) and _written_before(key, node, flow)
    ]
    if doubled and not sent:
        yield RULES["doubled-by-subgraph"](
            node=node.name, keys=names(doubled), it="it" if len(doubled) == 1 else "them",
        )  # fmt: skip


def _written_before(key: str, node: Node, flow: Flow) -> bool:
    """Return whether a node that can run before *node* writes a key; that may be the node itself, on a loop."""
    wiring = flow.wiring
    before: dict[str, set[str]] = {}
    for name, following in wiring.edges.items():
        for target in following:
            before.setdefault(target, set()).add(name)
    for name, choices in wiring.choices.items():
        for target in (target for choice in choices for target in choice.targets):
            before.setdefault(target, set()).add(name)
    for join in wiring.waiting:
        before.setdefault(join.target, set()).update(join.sources)
    work, seen = [node.name], set[str]()
    while work:
        for name in before.get(work.pop(), set()) - seen:
            seen.add(name)
            work.append(name)
    return any(key in flow.keys_of(name) for name in seen if name in flow.graph.nodes)


def _sent_many(node: Node, flow: Flow) -> Iterator[Finding]:
    """Yield nodes that several Sends start in one superstep, and that write a key without a reducer."""
    if node.name not in flow.many_sends:
        return
    keys = sorted(flow.writes(node.name))
    sure = [key for key in keys if flow.always_writes(node.name, key)]
    if keys:
        place = node.place if node.subgraph is None else None
        yield RULES["write-conflict"](
            node=node.name, who=f"Several Sends to {node.name!r}", keys=names(sure or keys),
            has="has" if len(sure or keys) == 1 else "have", place=place, proved=False,
        )  # fmt: skip


# --------------------------------------------------------------------------------------------- interrupts, life of it


def _interrupts(node: Node, source: Source) -> Iterator[Finding]:
    for line, handler in source.caught_interrupts:
        yield RULES["caught-interrupt"](node=node.name, handler=handler, place=Place(file=source.file, line=line))


def _life(graph: GraphDescription) -> Iterator[Finding]:
    """Yield problems of the order in which a graph was built and compiled."""
    for name in graph.late_nodes:
        if not name.startswith("__"):
            yield RULES["late-node"](node=name)
    if graph.default_handler and (graph.compiled is not None or graph.builder.compiled):
        yield RULES["compiles-once"]()
