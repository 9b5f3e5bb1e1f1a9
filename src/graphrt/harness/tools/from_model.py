"""Tools whose arguments are described by one pydantic model or dataclass; the function receives the instance.

Tools whose schema comes from a function's own parameters live in `function`.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, Final, Generic, TypeVar, Unpack

from graphrt.commands import Command
from graphrt.errors import InputError
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.harness.messages import ToolSpec
from graphrt.harness.tools._options import PolicyOptions, check_description, check_name, make_policy
from graphrt.harness.tools._signature import docstring, origin, read_signature, refuse, undeclared_command
from graphrt.harness.tools.protocol import ToolContext, ToolPolicy, ToolResult

__all__ = ["ModelTool", "tool_from_model"]

M = TypeVar("M")


class _Checked(dict[str, Any]):
    """Validated arguments by name, together with the instance of the model that they were validated into."""

    instance: Any = None
    """Kept so that `call` does not validate a second time."""


class ModelTool(Generic[M]):
    """A tool whose arguments are validated into an instance of a class; made by `tool_from_model`."""

    def __init__(
        self,
        model: type[M],
        fn: Callable[Concatenate[M, ...], Any],
        *,
        name: str | None = None,
        description: str | None = None,
        policy: ToolPolicy | None = None,
        scope: Mapping[str, Any] | None = None,
    ) -> None:
        from pydantic import TypeAdapter

        from graphrt.harness.tools._arguments import TypedArguments
        from graphrt.harness.tools._docstring import read_docstring

        if not (_is_class(model) and callable(fn)):
            raise INVALID_ARGUMENT(
                argument="What a tool from a model is made of",
                value=(model, fn),
                wanted="a class and a function: tool_from_model(Model, function)",
            )
        self.origin: Final = origin(fn)
        """Where the function was defined: `file:line`."""
        self._name: Final = check_name(_snake(model.__name__) if name is None else name, where=self.origin)
        check_description(description, where=self.origin)
        self.policy: Final = policy or ToolPolicy()
        """How an agent may use the tool."""
        self.model: Final = model
        """The class that the arguments are validated into."""
        self.fn: Final = fn
        """The function that receives the instance."""
        try:
            self._arguments: Final = TypedArguments(TypeAdapter(model), closed=_closes(model))
        except Exception as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise self._refuse([f"no JSON schema can be made of {model.__name__}: {reason}"]) from error
        if self._arguments.schema.get("type") != "object":
            raise self._refuse([f"{model.__name__} is not an object in JSON; take a model or a dataclass with fields"])
        self._injections: Final = self._read(scope or {})
        doc = read_docstring(vars(model).get("__doc__")) if description is None else None
        if doc and _is_made_up(model, doc.description):
            doc = read_docstring(docstring(fn))
        self.spec: Final = ToolSpec(
            name=self._name,
            description=(doc.description if doc else description) or "",
            parameters=self._arguments.schema,
        )
        """Name, description and JSON schema that are sent to the model."""

    def check(self, arguments: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Validate *arguments* and return them by field name, without the fields that the model left out.

        Raises:
            ToolArgumentsError: The arguments are invalid; `what` is written for the model.
            ToolError: One of the program's validators raised something other than a validation error.
        """
        return self._checked(arguments)

    def _checked(self, arguments: Mapping[str, Any]) -> _Checked:
        checked = _Checked(arguments)
        checked.instance = self._arguments.check(self._name, arguments)
        return checked

    async def call(self, arguments: Mapping[str, Any], context: ToolContext, /) -> ToolResult | Command[Any]:
        """Call the function with the instance and the injected values.

        Args:
            arguments: The result of `check`. Any other mapping is validated first.
            context: The call.

        Raises:
            ToolArgumentsError: *arguments* did not go through `check`, and are invalid.
            ToolError: As for a `FunctionTool`.
            BaseException: Anything that the function raises.
        """
        from graphrt.harness.tools._invoke import injected, invoke
        from graphrt.harness.tools.results import to_outcome

        checked = arguments if isinstance(arguments, _Checked) else self._checked(arguments)
        values = await injected(self._name, self._injections, context)
        value = await invoke(self.fn, (checked.instance,), values)
        return to_outcome(value, tool=self._name, policy=self.policy)

    def __repr__(self) -> str:
        return f"ModelTool({self._name!r})"

    def _read(self, scope: Mapping[str, Any]) -> tuple[Any, ...]:
        signature = read_signature(_after_first(self.fn), scope)
        problems = [*signature.problems, *undeclared_command(signature, self.policy)]
        problems += [
            f"{parameter.name}: only the first parameter is filled by the model; inject this one, or give it a default"
            for parameter in signature.parameters
            if parameter.default is inspect.Parameter.empty
        ]
        if problems:
            raise self._refuse(problems)
        return signature.injections

    def _refuse(self, problems: list[str]) -> InputError:
        return refuse(f"No tool {self._name!r} can be made.", problems, where=self.origin, tool=self._name)


def tool_from_model(
    model: type[M],
    fn: Callable[Concatenate[M, ...], Any],
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    **policy: Unpack[PolicyOptions],
) -> ModelTool[M]:
    """Make a tool whose arguments are validated into an instance of *model* and passed to *fn*.

    Args:
        model: A pydantic model or a dataclass. Its name, in snake case, and its docstring become the tool's.
        fn: Sync or async. It receives the instance as its first argument; its other parameters must be injected or
            have a default.
        name: The name that the model sees. Default: the class name in snake case.
        description: The description that the model sees. Default: the docstring of the class, else that of *fn*.
        policy: effect, timeout_s, on_error, approval and max_result_chars; see `ToolPolicy`.

    Raises:
        InputError: An option is wrong (`input`), or no schema can be made (`tool-schema`).
    """
    checked = make_policy(where=origin(fn), **policy)
    # Annotations of *fn* are strings under `from __future__ import annotations`, and may name local variables of the
    # function that makes the tool.
    scope = sys._getframe(1).f_locals
    return ModelTool(model, fn, name=name, description=description, policy=checked, scope=scope)


def _is_class(model: object) -> bool:
    return isinstance(model, type)  # callers without a type checker may pass anything


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _closes(model: type[Any]) -> bool:
    """Return whether the tool refuses unknown arguments itself: not if the class configures `extra=`."""
    configs: list[Any] = [getattr(model, name, None) for name in ("model_config", "__pydantic_config__")]
    return all(not config or config.get("extra") is None for config in configs)


def _is_made_up(model: type[Any], description: str) -> bool:
    """Return whether the docstring is missing or generated: a dataclass without one gets its signature."""
    return not description or description.startswith(f"{model.__name__}(")


def _after_first(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a stand-in for *fn* whose signature lacks the first parameter."""

    def rest() -> None: ...

    signature = inspect.signature(fn)
    parameters = list(signature.parameters.values())[1:]
    vars(rest)["__signature__"] = signature.replace(parameters=parameters)  # what inspect.signature() reads
    vars(rest)["__wrapped__"] = fn  # leads to the module globals that the annotations need
    return rest
