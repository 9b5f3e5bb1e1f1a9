"""`reduce`: compress several fields into one, by a model or a function, and delete the sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field
from typing_extensions import Unpack

from graphrt._arguments import is_async
from graphrt._drivers.context import Context
from graphrt.commands import DELETE, Overwrite
from graphrt.errors._codes.arguments import (
    ARGUMENT_NEEDS_ANOTHER,
    ARGUMENTS_EXCLUDE_EACH_OTHER,
    INVALID_ARGUMENT,
    UNKNOWN_NAME_IN_ARGUMENT,
)
from graphrt.graph import declare_fields
from graphrt.harness import Template
from graphrt.harness.protocol import ROUTED
from graphrt.nodes._model_call import ModelForm, ModelOptions, PromptField, PromptSource, model_call
from graphrt.nodes._model_nodes import answer_of
from graphrt.nodes._state_access import AsyncNode, SyncNode, checked_names, read
from graphrt.specs import Section, declare_form
from graphrt.specs.manifest import Name


def reduce(
    sources: str | Sequence[str],
    *,
    into: str,
    prompt: PromptSource | None = None,
    function: Callable[..., Any] | None = None,
    output: Any = None,
    keep: str | Sequence[str] = (),
    **options: Unpack[ModelOptions],
) -> AsyncNode | SyncNode:
    """Return a node that compresses fields into one, and then deletes them.

    The sources are deleted in the same commit that writes the result, never without it. A deleted field has its default
    again, or is absent. If a node of another branch declares that it reads a source, `compile()` reports
    `deleted-source`.

    Args:
        sources: 1..n fields.
        into: The field for the result; it replaces the old value and may be one of the sources.
        prompt: The question to a model; a template must use every source.
        function: Used instead of `prompt`: called with the values of the sources, in order; sync or async.
        output: Type of the model's answer.
        keep: Sources that are not deleted.
        **options: See `ModelOptions`; only with `prompt`.

    Raises:
        InputError: An argument is wrong (`input`, or the code of a template or an agent).
    """
    arguments = {
        "sources": sources,
        "into": into,
        "prompt": prompt,
        "function": function,
        "output": output,
        "keep": keep,
    }
    node = _reduced(sources, into, prompt, function, output, keep, options)
    return declare_form(node, ReduceForm, {**arguments, **options})


class ReduceForm(ModelForm):
    """Compresses fields into one by a model or a function, and deletes them."""

    kind: Literal["reduce"] = "reduce"
    sources: Name | list[Name]
    into: Name
    """The field for the result."""
    prompt: PromptField | None = None
    """The question to a model; it must use every source."""
    function: Name | None = None
    """Instead of the prompt: a function of the registry, called with the values of the sources."""
    output: Name | None = None
    keep: Name | list[Name] = Field(default=[])
    """Sources that are not deleted."""

    factory: ClassVar[Any] = staticmethod(reduce)
    names: ClassVar[Mapping[str, Section]] = {**ModelForm.names, "function": "functions"}


def _reduced(
    sources: Any, into: Any, prompt: Any, function: Any, output: Any, keep: Any, options: ModelOptions
) -> AsyncNode | SyncNode:
    read_ones = checked_names("sources", sources, "reduce()", least=1)
    retained = checked_names("keep", keep, "reduce()")
    checked_names("into", into, "reduce()", least=1)
    stray = [name for name in retained if name not in read_ones]
    if stray:
        raise UNKNOWN_NAME_IN_ARGUMENT(
            argument="keep= of reduce()", name=stray[0], what="source", known_names=read_ones
        )
    if prompt is None and function is None:
        raise ARGUMENT_NEEDS_ANOTHER(argument="reduce()", missing="a prompt or a function")
    if prompt is not None and function is not None:
        raise ARGUMENTS_EXCLUDE_EACH_OTHER(
            argument="The prompt of reduce()", other="function=", superfluous="one of them"
        )
    deleted = tuple(name for name in read_ones if name not in retained and name != into)

    def update(result: Any) -> dict[str, Any]:
        return {into: Overwrite(result), **dict.fromkeys(deleted, DELETE)}

    if prompt is not None:
        call = model_call(prompt, options, of="reduce", output=output)
        unread = [] if not isinstance(call.prompt, Template) else [s for s in deleted if s not in call.reads]
        if unread:
            raise ARGUMENT_NEEDS_ANOTHER(
                argument=f"The source {unread[0]!r}, which reduce() deletes,",
                missing="a place in the prompt",
                fix="Use it in the prompt, or leave it out of the sources.",
            )

        async def ask(state: Any, ctx: Context[Any]) -> dict[str, Any]:
            reply = await call.ask(state, ctx)
            return {} if reply.stopped == ROUTED else update(answer_of(reply))

        reads = tuple(dict.fromkeys((*read_ones, *call.reads)))
        return declare_fields(ask, reads=reads, writes=(into,), deletes=deleted)
    if options or output is not None:
        raise ARGUMENTS_EXCLUDE_EACH_OTHER(
            argument="function= of reduce()",
            other="output= and options of a model",
            superfluous="these, or use a prompt instead of the function",
        )
    return _by_function(function, read_ones, update, into, deleted)


def _by_function(
    function: Any, sources: Sequence[str], update: Callable[[Any], dict[str, Any]], into: str, deleted: Sequence[str]
) -> AsyncNode | SyncNode:
    if not callable(function):
        raise INVALID_ARGUMENT(
            argument="function= of reduce()", value=function, wanted="a function of the sources' values"
        )
    if is_async(function):

        async def fold_async(state: Any, ctx: Context[Any]) -> dict[str, Any]:  # noqa: ARG001
            return update(await function(*(read(state, name) for name in sources)))

        return declare_fields(fold_async, reads=sources, writes=(into,), deletes=deleted)

    def fold(state: Any, ctx: Context[Any]) -> dict[str, Any]:  # noqa: ARG001
        return update(function(*(read(state, name) for name in sources)))

    return declare_fields(fold, reads=sources, writes=(into,), deletes=deleted)
