"""`tool`: a node that calls a function with fields of the state and writes its result."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, Literal

from graphrt._arguments import is_async, is_iterable, is_mapping
from graphrt._drivers.context import Context
from graphrt.errors._codes.arguments import ARGUMENT_NEEDS_ANOTHER, ARGUMENT_OUT_OF_BOUNDS, INVALID_ARGUMENT
from graphrt.errors._codes.ready_nodes import RESULT_WITHOUT_FIELD
from graphrt.graph import declare_fields
from graphrt.nodes._state_access import (
    AsyncNode,
    Into,
    SyncNode,
    checked_into,
    checked_names,
    fields_in,
    read,
    update_of,
)
from graphrt.specs import Form, Section, declare_form
from graphrt.specs.manifest import Name

_ITEM: Final[Any] = object()
"""Stands among the fields of a call for `ctx.arg`."""


def tool(
    fn: Callable[..., Any],
    *,
    inputs: str | Sequence[str] | Mapping[str, str] | None = None,
    into: Into | None = None,
    item: str | None = None,
    as_list: bool = False,
    effect: Literal["pure", "idempotent", "once"] | None = "idempotent",
) -> AsyncNode | SyncNode:
    """Return a node that calls a function with fields of the state.

    The function gets neither state nor context, so it can be tested, or used by a model, unchanged. An exception in it
    fails the node: `retry=` and `on_error=` of `add_node` apply, and the result is then not written.

    Args:
        fn: The function, sync or async.
        inputs: Fields for its parameters, in order and without that of *item*; or parameters to fields. By default each
            parameter without a default gets the field of its name.
        into: The field for the result, or fields to keys (or attributes) of the result. By default the result is an
            update itself: a mapping of fields, or None.
        item: The parameter that gets `ctx.arg`, the item of a batch or the argument of a Send.
        as_list: Write the value as a one-element list, for a field whose reducer appends.
        effect: How the call is recorded, so that a task that runs again after a pause or a crash does not repeat it;
            see `Context.effect`. None does not record it.

    Raises:
        InputError: An argument is wrong (`input`).
    """
    node = _node(fn, inputs, into, item, effect, as_list=as_list)
    shared = {"inputs": inputs, "into": into, "item": item, "as_list": as_list, "effect": effect}
    return declare_form(node, ToolForm, {"fn": fn, **shared})


class ToolForm(Form):
    """Calls a function with fields of the state."""

    kind: Literal["tool"] = "tool"
    function: Name
    """A tool of the registry."""
    inputs: Name | list[Name] | dict[Name, Name] | None = None
    """Fields for its parameters in order, or parameter to field; null takes the fields of the parameters' names."""
    into: Name | dict[Name, str] | None = None
    """The field for the result, or fields to its parts; null if the result is a mapping of fields itself."""
    item: Name | None = None
    """The parameter that gets the item of a batch."""
    as_list: bool = False
    """Write the value as a one-element list, for a field whose reducer appends."""
    effect: Literal["pure", "idempotent", "once"] | None = "idempotent"

    factory: ClassVar[Any] = staticmethod(tool)
    names: ClassVar[Mapping[str, Section]] = {"function": "tools"}
    renamed: ClassVar[Mapping[str, str]] = {"function": "fn"}


def _node(fn: Any, inputs: Any, into: Any, item: Any, effect: Any, *, as_list: bool) -> AsyncNode | SyncNode:
    unchecked: Any = fn
    if not callable(unchecked):
        raise INVALID_ARGUMENT(argument="The function of tool()", value=fn, wanted="a function")
    if effect not in ("pure", "idempotent", "once", None):
        raise INVALID_ARGUMENT(
            argument="effect= of tool()", value=effect, wanted="'pure', 'idempotent', 'once' or None"
        )
    name = getattr(fn, "__name__", type(fn).__name__)
    positional, named = _inputs(fn, inputs, item, name)
    sources = (*positional, *named.values())
    call = _calling(fn, len(positional), tuple(named))
    target = None if into is None else checked_into(into, "tool()")
    if target is None and as_list:
        raise ARGUMENT_NEEDS_ANOTHER(argument="as_list= of tool()", missing="a field for the list: into='results'")

    def values_of(state: Any, ctx: Context[Any]) -> list[Any]:
        return [ctx.arg if source is _ITEM else read(state, source) for source in sources]

    def update(result: Any) -> Any:
        if target is not None:
            return update_of(target, result, as_list=as_list, of=f"{name}()")
        if result is None or is_mapping(result):
            return result
        raise RESULT_WITHOUT_FIELD(function=name, result=result)

    reads = dict.fromkeys(source for source in sources if source is not _ITEM)
    writes = () if target is None else fields_in(target)  # without into= the function decides
    if is_async(fn):

        async def call_async(state: Any, ctx: Context[Any]) -> Any:
            values = values_of(state, ctx)
            return update(await (call(*values) if effect is None else ctx.effect(name, call, *values, kind=effect)))

        return declare_fields(call_async, reads=reads, writes=writes)

    def call_sync(state: Any, ctx: Context[Any]) -> Any:
        values = values_of(state, ctx)
        return update(call(*values) if effect is None else ctx.effect(name, call, *values, kind=effect))

    return declare_fields(call_sync, reads=reads, writes=writes)


def _calling(fn: Any, number: int, parameters: tuple[str, ...]) -> Callable[..., Any]:
    """Return a function that calls *fn* with its values: the first *number* by position, the others by *parameters*.

    It is async if *fn* is. As it takes the values, they are arguments of the effect: a call with other values is not
    given the recorded result.
    """

    def call(*values: Any) -> Any:
        return fn(*values[:number], **dict(zip(parameters, values[number:], strict=True)))

    async def call_async(*values: Any) -> Any:
        return await call(*values)

    return call_async if is_async(fn) else call


def _inputs(fn: Any, inputs: Any, item: Any, name: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the fields of the positional parameters, and the named parameters with their fields; _ITEM for the item.

    Raises:
        InputError: *inputs* or *item* is wrong, or *fn* cannot be called with them.
    """
    if item is not None:
        checked_names("item", item, "tool()", least=1)
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        signature = None
    known = [] if signature is None else [*signature.parameters.values()]
    by_position = [p.name for p in known if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    positional: list[Any] = []
    named: dict[str, Any] = {}
    if is_mapping(inputs):
        checked_names("inputs", tuple(inputs), "tool()")
        checked_names("inputs", tuple(dict.fromkeys(inputs.values())), "tool()")
        if item in inputs:
            raise INVALID_ARGUMENT(
                argument="item= of tool()", value=item, wanted="a parameter that inputs= gives no field"
            )
        named |= inputs
    elif inputs is not None:
        positional += inputs if is_iterable(inputs) and not isinstance(inputs, str) else (inputs,)
        checked_names("inputs", tuple(dict.fromkeys(positional)), "tool()")
    elif signature is not None:
        named |= {
            p.name: p.name for p in known if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        }
    else:
        raise INVALID_ARGUMENT(
            argument="inputs= of tool()",
            value=None,
            wanted=f"the fields for the parameters of {name}(), which are unknown: inputs=('field',), or inputs=() for none",
        )
    if item is not None:
        if item in by_position[: len(positional)]:  # the fields are for the parameters around it
            positional.insert(by_position.index(item), _ITEM)
        else:
            named[item] = _ITEM
    for parameter in known[len(positional) :]:
        if parameter.kind is not parameter.POSITIONAL_ONLY or parameter.name not in named:
            break
        positional.append(named.pop(parameter.name))
    _check_call(fn, positional, named, name)
    return tuple(positional), named


def _check_call(fn: Any, positional: list[Any], named: dict[str, Any], name: str) -> None:
    """Check that *fn* can be called so.

    Raises:
        InputError: It cannot.
    """
    try:
        own = inspect.signature(fn, follow_wrapped=False)  # a wrapper may have fewer parameters than what it wraps
    except (TypeError, ValueError):
        return
    try:
        own.bind(*positional, **named)
    except TypeError as error:
        raise ARGUMENT_OUT_OF_BOUNDS(
            problem=f"inputs= and item= of tool() do not fit the function: {error}",
            known=f"{name}{own}",
            wanted="a field for each parameter without a default, but that of item=, which names a parameter",
        ) from None
