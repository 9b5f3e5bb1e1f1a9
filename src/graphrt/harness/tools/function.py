"""`@tool`, which makes a tool of a plain typed function, and `FunctionTool`, the result.

`_signature` reads the signature, `_arguments` makes the schema, and `_docstring` reads the descriptions.
"""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, ParamSpec, TypeVar, Unpack, overload

from graphrt.commands import Command
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.harness.messages import ToolSpec
from graphrt.harness.tools._options import PolicyOptions, check_description, check_name, make_policy
from graphrt.harness.tools._signature import (
    Signature,
    docstring,
    origin,
    read_signature,
    refuse,
    undeclared_command,
)
from graphrt.harness.tools.protocol import ToolContext, ToolPolicy, ToolResult

__all__ = ["FunctionTool", "tool"]

_log: Final = logging.getLogger("graphrt.harness")
P = ParamSpec("P")
R = TypeVar("R")


class FunctionTool(Generic[P, R]):
    """A function that is also a tool; made by `@tool`. It can still be called like the function.

    Args:
        fn: Sync or async, with every parameter annotated. A sync function runs in a worker thread, and several calls
            run at once if the agent makes several at once.
        name: The name that the model sees. Default: the function's name.
        description: The description that the model sees. Default: the docstring without its sections on arguments,
            return values and the like.
        policy: How an agent may use the tool.
        scope: Names that the annotations may use in addition to those of the function's module.

    Raises:
        InputError: No schema can be made of the signature (`tool-schema`; the error lists every problem), or an
            argument is wrong (`input`).
    """

    def __init__(
        self,
        fn: Callable[P, R],
        *,
        name: str | None = None,
        description: str | None = None,
        policy: ToolPolicy | None = None,
        scope: Mapping[str, Any] | None = None,
    ) -> None:
        from graphrt.harness.tools._arguments import Arguments, unmakeable
        from graphrt.harness.tools._invoke import yields

        if not callable(fn):
            raise INVALID_ARGUMENT(argument="What a tool is made of", value=fn, wanted="a function")
        self.origin: Final = origin(fn)
        """Where the function was defined: `file:line`."""
        self._name: Final = check_name(_name_of(fn) if name is None else name, where=self.origin)
        check_description(description, where=self.origin)
        self._description: Final = description
        self.policy: Final = policy or ToolPolicy()
        """How an agent may use the tool."""
        signature = read_signature(fn, scope or {})
        problems = [*signature.problems, *undeclared_command(signature, self.policy)]
        problems += ["it is a generator; return a list"] if yields(fn) else []
        try:
            arguments = None if problems else Arguments(signature.parameters)
        except Exception:  # noqa: BLE001 - `unmakeable` finds the parameter below
            arguments = None
        if arguments is None:
            raise refuse(
                f"No tool can be made of function {self._name!r}.",
                problems + unmakeable(signature.parameters),
                where=self.origin,
                tool=self._name,
            )
        if any(parameter.name == "state" and _has_fields(parameter.annotation) for parameter in signature.parameters):
            _log.warning(
                "Tool %r: the model makes up the argument 'state', which looks like the state of a graph. To read the "
                "state, take a ToolContext and declare @tool(reads=[...]); to pass a value in deps, write "
                'Annotated[..., Injected("state")]. Otherwise choose another name for the argument of the model.',
                self._name,
            )
        self._signature: Final[Signature] = signature
        self._arguments: Final = arguments
        self._spec: ToolSpec | None = None
        self.fn: Final = fn
        """The function itself."""
        functools.update_wrapper(self, fn, updated=())

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, without validation or injection."""
        return self.fn(*args, **kwargs)

    @property
    def spec(self) -> ToolSpec:
        """Name, description and JSON schema that are sent to the model."""
        if self._spec is None:  # the docstring is read at first use, because importing griffe takes time
            self._spec = _spec(self._name, self._description, docstring(self.fn), self._arguments.schema)
        return self._spec

    def check(self, arguments: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Validate *arguments* and return them as the function's keyword arguments.

        Arguments that the model left out are not in the result, so the function's own defaults apply.

        Raises:
            ToolArgumentsError: The arguments are invalid; `what` is written for the model.
            ToolError: One of the program's validators raised something other than a validation error.
        """
        return self._arguments.check(self._name, arguments)

    async def call(self, arguments: Mapping[str, Any], context: ToolContext, /) -> ToolResult | Command[Any]:
        """Call the function with *arguments*, the result of `check`, and the injected values.

        Raises:
            ToolError: A value to inject is missing (`tool-injection`), or the return value has no JSON form
                (`tool-result`).
            BaseException: Anything that the function raises.
        """
        from graphrt.harness.tools._invoke import injected, invoke
        from graphrt.harness.tools.results import to_outcome

        values = await injected(self._name, self._signature.injections, context)
        value = await invoke(self.fn, (), {**arguments, **values})
        return to_outcome(value, tool=self._name, policy=self.policy)

    def __repr__(self) -> str:
        return f"FunctionTool({self._name!r})"


@overload
def tool(fn: Callable[P, R], /) -> FunctionTool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = ...,
    description: str | None = ...,
    **policy: Unpack[PolicyOptions],
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(
    fn: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    **policy: Unpack[PolicyOptions],
) -> FunctionTool[P, R] | Callable[[Callable[P, R]], FunctionTool[P, R]]:
    """Make a tool of a typed function: `@tool`, or `@tool(effect="once", timeout_s=30)`.

    Args:
        fn: The function, if the decorator is used without parentheses.
        name: The name that the model sees. Default: the function's name.
        description: The description that the model sees. Default: the docstring.
        policy: effect, timeout_s, on_error, approval, max_result_chars, reads, writes and goto; see `ToolPolicy`.

    Raises:
        InputError: An option is wrong (`input`), or no schema can be made of the signature (`tool-schema`).
    """
    # Annotations are strings under `from __future__ import annotations`, and may name local variables of the function
    # that the tool is defined in.
    scope = sys._getframe(1).f_locals
    if fn is not None and not callable(fn):
        raise INVALID_ARGUMENT(argument="The function of @tool", value=fn, wanted='the name as @tool(name="...")')
    checked = make_policy(where=origin(fn) if fn is not None else "", **policy)

    def make(function: Callable[P, R]) -> FunctionTool[P, R]:
        return FunctionTool(function, name=name, description=description, policy=checked, scope=scope)

    return make if fn is None else make(fn)


def _has_fields(annotation: Any) -> bool:
    names = ("__pydantic_fields__", "__dataclass_fields__", "__required_keys__")
    return isinstance(annotation, type) and any(hasattr(annotation, name) for name in names)


def _name_of(fn: Any) -> str:
    while isinstance(fn, functools.partial):
        fn = fn.func  # pyright: ignore[reportUnknownMemberType]
    return getattr(fn, "__name__", None) or type(fn).__name__


def _spec(name: str, description: str | None, written: str | None, schema: Mapping[str, Any]) -> ToolSpec:
    from graphrt.harness.tools._docstring import read_docstring

    doc = read_docstring(written)
    if doc.unread:
        _log.warning(
            "Tool %r: its docstring describes its parameters, and the model is not told: reading it needs a package "
            'that is not installed. Fix: pip install "graphrt[tools]"',
            name,
        )
    properties = {
        key: {**value, "description": doc.parameters[key]}
        if doc.parameters.get(key) and "description" not in value
        else value
        for key, value in schema["properties"].items()
    }
    return ToolSpec(
        name=name,
        description=doc.description if description is None else description,
        parameters={**schema, "properties": properties},
    )
