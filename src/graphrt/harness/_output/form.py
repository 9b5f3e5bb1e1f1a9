"""Structured output: `output=` becomes a JSON schema for the model, and the text of the answer a value of the type.

Agents use it, and so do graphs for all other harnesses of their nodes. The caller decides what follows if an answer
does not fit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import is_dataclass, replace
from typing import TYPE_CHECKING, Any, Final, final

from graphrt.errors import BadResponseError
from graphrt.errors._codes.requests import BAD_OUTPUT, NO_SCHEMA, NOT_AN_OUTPUT_TYPE
from graphrt.harness._output.strict_schema import strict_form
from graphrt.harness.messages import Message, SystemMessage, UserMessage
from graphrt.harness.protocol import AgentReply, ChatModel
from graphrt.harness.request import ModelRequest, OutputSpec

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

__all__ = ["OutputForm", "form_of", "in_words", "misfit", "with_output", "written"]

_FENCED: Final = re.compile(r"^\s*```[\w-]*\s*\n(.*?)\n?\s*```\s*$", re.DOTALL)
"""An answer that is one fenced code block of Markdown; its group is the content."""
_TOLD: Final = "Answer with JSON alone, without any other text, that fits this JSON schema: "
"""Beginning of the instruction for models whose provider cannot enforce a schema.

Digests of requests include it: with another text, a paused thread would not find what it remembers.
"""
_PROBLEMS: Final = 5
"""Most validation errors that the model is shown."""
_TYPING: Final = ("typing", "typing_extensions", "types")
"""Modules of what `list[int]`, `Literal[...]`, `NewType` and the like are: not classes, although some are callable."""
_DATA: Final = (bool, int, float, str, list, dict)
"""Types of parsed JSON. An output of any other type was made by the harness itself."""


@final
class OutputForm:
    """The required form of an answer: a type that pydantic can validate, or any JSON.

    Args:
        wanted: A pydantic model, a dataclass, a TypedDict, or any other type with a JSON schema. Or an OutputSpec:
            its schema is only sent to the provider, and any JSON is accepted.

    Raises:
        InputError: No JSON schema can be made of *wanted* (`bad-output-type`).
    """

    def __init__(self, wanted: Any) -> None:
        self._adapter: TypeAdapter[Any] | None = None
        self._wrapped = False
        """Whether the value is the field `value` of the JSON object that the model writes."""
        self.spec: OutputSpec
        """The request for this form."""
        if isinstance(wanted, OutputSpec):
            self.spec = wanted
            return
        _check_type(wanted)
        from graphrt.harness._output.typed_dicts import adapter_of  # it imports pydantic, which only output= needs

        try:
            self._adapter = adapter_of(wanted)
            schema = self._adapter.json_schema()
        except Exception as error:  # pydantic raises many kinds of errors for types without a schema
            raise NO_SCHEMA(value=wanted, reason=str(error).splitlines()[0]) from error
        name = re.sub(r"[^A-Za-z0-9_-]", "_", getattr(wanted, "__name__", "output"))[:64] or "output"
        self._wrapped = schema.get("type") != "object"
        if self._wrapped:  # at the top level providers accept objects only
            inner = {key: value for key, value in schema.items() if key != "$defs"}
            definitions = {"$defs": schema["$defs"]} if "$defs" in schema else {}
            schema = {"type": "object", "properties": {"value": inner}, "required": ["value"], **definitions}
        strict = strict_form(schema)
        self.spec = OutputSpec(name=name, schema=schema if strict is None else strict, strict=strict is not None)
        self.spec._made(self)

    def asked_of(self, model: ChatModel, request: ModelRequest) -> ModelRequest:
        """Return *request* with this form: as a schema if *model* can be held to it, else in the instructions."""
        request = replace(request, output=self.spec)
        return request if model.profile.holds_to_output(request) else in_words(request)

    def read(self, text: str) -> Any:
        """Parse *text* into a value of the type.

        Raises:
            ValueError: The text does not fit; the message is written for the model.
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
    """Return the text that a model would write for *value* if asked for *spec*; for scripts of test doubles.

    Raises:
        ValueError: The value does not fit, or its text would be parsed into another value.
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
    # Objects without an `__eq__` of their own are only equal to themselves: for them the check says nothing.
    compares: Any = type(checked).__eq__
    if back != checked and compares is not object.__eq__:
        raise ValueError(f"what a model writes for it, {text[:80]}, is read as another value")
    return text


def form_of(wanted: Any) -> OutputForm | None:
    """Return the form for the argument `output=`, or None if there is none.

    Raises:
        InputError: *wanted* is neither an OutputSpec nor a type with a JSON schema.
    """
    return wanted if wanted is None or isinstance(wanted, OutputForm) else OutputForm(wanted)


def with_output(reply: Any, form: OutputForm, *, of: str, where: str, prompt: Any) -> Any:
    """Return the *reply* of a harness with `output` parsed from its text.

    An output that the harness made itself is kept, unless it is merely the parsed JSON of the text. Replies with tool
    calls, or that a limit ended, have no output.

    Args:
        reply: What the harness returned.
        form: The form that was asked for.
        of: Name of the harness, for the error.
        where: Place of the call, for the error.
        prompt: What the harness was asked, for the error.

    Raises:
        BadResponseError: The text does not have the form.
    """
    if not issubclass(type(reply), AgentReply):
        return reply  # a harness that is written by hand may return something else: the node gets it as it is
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
    """Return the error for an answer that does not have the form that was asked for.

    Args:
        problem: Why it does not.
        reply: The answer.
        of: Name of the harness or agent.
        where: Place of the call.
        said: The whole conversation.
        told: What was done about it, ending with "; "; may be empty.
    """
    return BAD_OUTPUT(
        of=of,
        problem=problem,
        told=told,
        beginning=reply.text[:80],
        model=reply.model,
        messages=tuple(said),
        where=where,
    )


def in_words(request: ModelRequest) -> ModelRequest:
    """Return *request* with its form as part of the instructions, for models whose provider cannot enforce it."""
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
    """Return the instructions *text* without the last line, if `in_words` added it."""
    at = text.rfind(_TOLD)
    return text if at < 0 or "\n" in text[at:] else text[:at].removesuffix("\n\n")


def _is_made(reply: AgentReply) -> bool:
    """Return whether the harness itself made the output of *reply*, which is more than the parsed JSON of its text."""
    made: Any = reply.output
    if made is None or type(made) not in _DATA:
        return made is not None
    try:
        return bool(made != _parsed(reply.text))
    except ValueError:
        return True


def _parsed(text: str) -> Any:
    """Parse *text* as JSON, which may be inside a fenced code block.

    Raises:
        ValueError: It is not JSON.
    """
    from pydantic_core import from_json

    fenced = _FENCED.match(text)
    try:
        return from_json(fenced[1] if fenced else text.strip())
    except ValueError as error:
        raise ValueError(f"it is no JSON: {error}") from None


def _told(error: ValidationError) -> str:
    """Summarize *error* for the model in one line."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    told = [f"{'.'.join(map(str, one['loc'])) or 'the answer'}: {one['msg']}" for one in found[:_PROBLEMS]]
    more = f" (and {len(found) - _PROBLEMS} more)" if len(found) > _PROBLEMS else ""
    return f"{'; '.join(told)}{more}"


def _check_type(wanted: object) -> None:
    """Check that *wanted* is a type. pydantic would accept a function, and refuse a value with an unclear error.

    Raises:
        InputError: It is a function, or a value instead of its class (`bad-output-type`).
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
    raise NOT_AN_OUTPUT_TYPE(given=what, value=wanted, fix=fix)
