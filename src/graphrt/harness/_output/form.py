"""The form of an answer: what `output=` means, asked for as a schema and read as a value.

It is the same for an agent and for any other harness. What becomes of an answer that does not fit is theirs to say.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import is_dataclass, replace
from typing import TYPE_CHECKING, Any, Final, final

from graphrt.errors import BadResponseError, InputError
from graphrt.harness._output.strict_schema import strict_form
from graphrt.harness.messages import Message, SystemMessage, UserMessage
from graphrt.harness.protocol import AgentReply, ChatModel
from graphrt.harness.request import ModelRequest, OutputSpec

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

__all__ = ["OutputForm", "form_of", "in_words", "misfit", "with_output", "written"]

_FENCED: Final = re.compile(r"^\s*```[\w-]*\s*\n(.*?)\n?\s*```\s*$", re.DOTALL)
_TOLD: Final = "Answer with JSON alone, without any other text, that fits this JSON schema: "
_PROBLEMS: Final = 5
_TYPING: Final = ("typing", "typing_extensions", "types")
"""Where the classes of `list[int]`, `Literal[...]`, `NewType` and the like are from: no classes, some can be called."""
_DATA: Final = (bool, int, float, str, list, dict)


@final
class OutputForm:
    """What an answer has to be: a type that pydantic can check, or JSON.

    Args:
        wanted: A pydantic model, a dataclass, a TypedDict, or any other type with a JSON schema; or an OutputSpec,
            whose schema is for the provider alone: any JSON is taken.

    Raises:
        InputError: No schema can be made of it.
    """

    def __init__(self, wanted: Any) -> None:
        self._adapter: TypeAdapter[Any] | None = None
        self._wrapped = False
        self.spec: OutputSpec
        if isinstance(wanted, OutputSpec):
            self.spec = wanted
            return
        _check_type(wanted)
        from graphrt.harness._output.typed_dicts import adapter_of  # only who wants an output needs pydantic

        try:
            self._adapter = adapter_of(wanted)
            schema = self._adapter.json_schema()
        except Exception as error:  # pydantic has many ways to say so
            raise InputError(
                f"No JSON schema can be made of output={wanted!r}: {str(error).splitlines()[0]}",
                code="bad-output-type",
                fix="Give a pydantic model, a dataclass, a TypedDict or a simple type.",
                value=wanted,
            ) from error
        name = re.sub(r"[^A-Za-z0-9_-]", "_", getattr(wanted, "__name__", "output"))[:64] or "output"
        self._wrapped = schema.get("type") != "object"
        if self._wrapped:  # providers take objects only
            inner = {key: value for key, value in schema.items() if key != "$defs"}
            definitions = {"$defs": schema["$defs"]} if "$defs" in schema else {}
            schema = {"type": "object", "properties": {"value": inner}, "required": ["value"], **definitions}
        strict = strict_form(schema)
        self.spec = OutputSpec(name=name, schema=schema if strict is None else strict, strict=strict is not None)
        self.spec._made(self)

    def asked_of(self, model: ChatModel, request: ModelRequest) -> ModelRequest:
        """*request*, which asks *model* for this form: by its schema, or in words where that cannot be."""
        request = replace(request, output=self.spec)
        return request if model.profile.holds_to_output(request) else in_words(request)

    def read(self, text: str) -> Any:
        """The value that *text* stands for.

        Raises:
            ValueError: It is none; its text is written for the model.
        """
        from pydantic import ValidationError

        value = _parsed(text)
        if self._adapter is None:
            return value
        if self._wrapped:
            if not issubclass(type(value), dict) or "value" not in value:
                raise ValueError('it must be an object with the key "value"')
            value = value["value"]
        try:
            return self._adapter.validate_python(value)
        except ValidationError as error:
            raise ValueError(_told(error)) from None


def written(value: Any, spec: OutputSpec) -> str:
    """The answer that a model would have written for *value*, where it was asked for the form *spec*.

    Raises:
        ValueError: The value does not have that form, or another one is read back.
    """
    from pydantic import ValidationError
    from pydantic_core import PydanticSerializationError, to_json

    form: OutputForm | None = spec._made_by
    adapter = None if form is None else form._adapter
    try:
        if form is None or adapter is None:
            return to_json(value).decode()
        checked = adapter.validate_python(value)
        data = adapter.dump_python(checked, mode="json", by_alias=True)
        text = to_json({"value": data} if form._wrapped else data).decode()
    except ValidationError as error:
        raise ValueError(_told(error)) from None
    except PydanticSerializationError as error:
        raise ValueError(str(error)) from None
    back = form.read(text)
    compares: Any = type(checked).__eq__
    if back != checked and compares is not object.__eq__:
        raise ValueError(f"what a model writes for it, {text[:80]}, is read as another value")
    return text


def form_of(wanted: Any) -> OutputForm | None:
    """The form that `output=` stands for, if any.

    Raises:
        InputError: It is no OutputSpec, and no type with a JSON schema.
    """
    return wanted if wanted is None or isinstance(wanted, OutputForm) else OutputForm(wanted)


def with_output(reply: Any, form: OutputForm, *, of: str, where: str, prompt: Any) -> Any:
    """The *reply* of a harness with the value that its text stands for.

    What the harness has made of the text itself stays, unless it is nothing but the JSON of it.

    Raises:
        BadResponseError: The text does not have the form.
    """
    if not issubclass(type(reply), AgentReply):
        return reply  # harnesses are written by hand too
    answer: AgentReply = reply
    if answer.tool_calls or answer.stopped is not None or _is_made(answer):
        return answer
    try:
        return replace(answer, output=form.read(answer.text))
    except ValueError as error:
        problem = str(error)
    asked: tuple[Message, ...] = (UserMessage(text=prompt),) if isinstance(prompt, str) else tuple(prompt)
    raise misfit(problem, answer, of=of, where=where, said=(*asked, answer.message))


def misfit(
    problem: str, reply: AgentReply, *, of: str, where: str, said: Sequence[Message], told: str = ""
) -> BadResponseError:
    """The error that the answer *of* somebody does not have its form.

    Args:
        problem: Why not.
        said: The whole conversation.
        told: What was done about it.
    """
    return BadResponseError(
        f"The answer of {of} does not have the form that was asked for: {problem}.",
        code="bad-output",
        where=where,
        known=f"{told}its answer began with {reply.text[:80]!r}",
        fix="Ask for less at once, describe the fields, or use a model that supports structured output.",
        model=reply.model,
        messages=tuple(said),
    )


def in_words(request: ModelRequest) -> ModelRequest:
    """*request*, for a model that no provider can hold to a form: asked for in the instructions."""
    from pydantic_core import to_json

    if request.output is None:
        return request
    schema = to_json(request.output.schema).decode()
    told = f"{_TOLD}{schema}"
    first, *rest = request.messages
    if isinstance(first, SystemMessage):
        messages = (replace(first, text=f"{first.text}\n\n{told}"), *rest)
    else:
        messages = (SystemMessage(text=told), *request.messages)
    return replace(request, output=None, messages=messages)


def without_words(text: str) -> str:
    """*text* of instructions without what `in_words` added to it."""
    at = text.rfind(_TOLD)
    return text if at < 0 or "\n" in text[at:] else text[:at].removesuffix("\n\n")


def _is_made(reply: AgentReply) -> bool:
    made: Any = reply.output
    if made is None or type(made) not in _DATA:
        return made is not None
    try:
        return bool(made != _parsed(reply.text))
    except ValueError:
        return True


def _parsed(text: str) -> Any:
    """The JSON value that *text* is, or that stands fenced in it.

    Raises:
        ValueError: It is none.
    """
    from pydantic_core import from_json

    fenced = _FENCED.match(text)
    try:
        return from_json(fenced[1] if fenced else text.strip())
    except ValueError as error:
        raise ValueError(f"it is no JSON: {error}") from None


def _told(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    told = [f"{'.'.join(map(str, one['loc'])) or 'the answer'}: {one['msg']}" for one in found[:_PROBLEMS]]
    more = f" (and {len(found) - _PROBLEMS} more)" if len(found) > _PROBLEMS else ""
    return f"{'; '.join(told)}{more}"


def _check_type(wanted: object) -> None:
    """Refuse what pydantic would take for a type, or refuse in words that do not help.

    Raises:
        InputError: It is a function, or a value.
    """
    kind = type(wanted)
    if isinstance(wanted, type) or kind.__module__ in _TYPING:
        return
    if is_dataclass(wanted) or hasattr(kind, "__pydantic_core_schema__"):
        what, fix = f"a value of type {kind.__name__}", f"Give the class: output={kind.__name__}."
    elif isinstance(wanted, dict):
        what, fix = "a dictionary", "Give a type; for a JSON schema, output=OutputSpec(name=..., schema=...)."
    elif callable(wanted):
        name = getattr(wanted, "__name__", kind.__name__)
        what, fix = f"the function {name!r}", "Give the type that the answer has to be, not what makes one."
    else:
        return
    raise InputError(f"output= is {what}, which is not a type.", code="bad-output-type", fix=fix, value=wanted)
