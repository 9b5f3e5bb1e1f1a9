"""The request to a model: the arguments of one call, checked and put into one frozen value.

Harnesses build a `ModelRequest` from the arguments of `run`, and models receive it. Replies are defined in `protocol`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any, Final, Literal, TypeAlias, TypedDict, get_args

from graphrt._arguments import check_amount, check_mapping, check_text, check_whole, each, is_mapping
from graphrt.errors import InputError, closest, names
from graphrt.errors._codes.arguments import INVALID_ARGUMENT, UNKNOWN_OPTION
from graphrt.errors._codes.tools import DUPLICATE_TOOL
from graphrt.harness._output.form import OutputForm
from graphrt.harness._output.spec import OutputSpec
from graphrt.harness.messages import (
    AssistantMessage,
    Message,
    Prompt,
    SystemMessage,
    ToolMessage,
    ToolSpec,
    UserMessage,
    check_conversation,
    is_content,
)

__all__ = ["AgentRequest", "ModelRequest", "OutputSpec", "RunOptions"]

ReasoningEffort: TypeAlias = Literal["none", "low", "medium", "high"]
"""How much a model should reason before it answers, if it can."""


class AllButOutput(TypedDict, total=False):
    """The keyword arguments of `AgentHarness.run` except `output`, which decides the type of the reply."""

    tools: Sequence[ToolSpec]
    """0..n tools that the model may call."""
    tool_choice: str | None
    """"auto", "none", "required", or the name of the tool that must be called."""
    system: str | None
    """Instructions, put before the prompt. None: those that the harness was made with."""
    model: str | None
    """Another model for this call. None: the harness's own."""
    max_tokens: int | None
    """Upper bound of the answer's length, in tokens."""
    temperature: float | None
    top_p: float | None
    stop: Sequence[str] | None
    """Texts at which the model stops writing; a string is one such text."""
    seed: int | None
    """Seed for the provider's sampling, for answers that repeat if the provider supports it."""
    reasoning: ReasoningEffort | None
    timeout_s: float | None
    """Seconds that the call may take. None: the timeout that the harness was made with."""
    options: Mapping[str, Any] | None
    """Further options that only this provider understands, passed on unchanged."""


class TranscribedOptions(AllButOutput, total=False):
    """The keyword arguments of `run` of a harness that is bound to a node, except `output`."""

    transcript: list[Message] | None
    """Receives every message at once, so that the caller has them however the run ends."""


class RunOptions(AllButOutput, total=False):
    """The keyword arguments of `AgentHarness.run`; each may be omitted."""

    output: object
    """The form of the answer: a type, or an `OutputSpec`. The text of the answer is JSON then. An Agent parses it, and
    so does a graph for the harnesses of its nodes: `AgentReply.output` is a value of the type, or the plain value of
    the JSON for an `OutputSpec`. None: free text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One call of a model, checked: the argument of `ChatModel.invoke`, and what `MockHarness.calls` records."""

    messages: tuple[Message, ...]
    """1..n messages; instructions given as `system` come first."""
    tools: tuple[ToolSpec, ...] = ()
    model: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False, repr=False)
    """Further options that only this provider understands; not in the repr, since they may contain credentials."""
    tool_choice: str = "auto"
    """"auto", "none", "required", or the name of one of `tools`."""
    output: OutputSpec | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    reasoning: ReasoningEffort | None = None
    timeout_s: float | None = None

    @property
    def text(self) -> str:
        """The text of the last message, which the model is to answer."""
        return self.messages[-1].text

    @property
    def system(self) -> str | None:
        """The instructions: the texts of all system messages, one per line; None if there are none."""
        texts = [message.text for message in self.messages if isinstance(message, SystemMessage)]
        return "\n".join(texts) if texts else None

    @classmethod
    def build(cls, prompt: Prompt, options: RunOptions, *, defaults: RunOptions | None = None) -> ModelRequest:
        """Check the arguments of one `run` and put them into a request.

        Args:
            prompt: As given to `run`.
            options: As given to `run`.
            defaults: Options that the harness was made with, used for each option that is omitted or None. The
                mappings `options` are merged key by key.

        Raises:
            InputError: An option is unknown or has an invalid value, the prompt is empty, an item of it is not a
                message, or a tool is given twice. Or a tool call in it has no result, or a result no call
                (`bad-conversation`).
        """
        for name in options:
            if name not in RunOptions.__annotations__:
                raise _unknown_option(name)
        base: dict[str, Any] = {**(defaults or {})}
        explicit: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
        merged: dict[str, Any] = {**base, **explicit}
        system: Any = merged.get("system")
        if system is not None and not isinstance(system, str):
            raise INVALID_ARGUMENT(  # only the type is shown, here and for the prompt: the text was written by a user for a model
                argument="system", value=type(system), wanted="a text; render a Template first: template.render(state)"
            )
        _check(base)
        _check(explicit)
        extra: dict[str, Any] = {**(base.get("options") or {}), **(explicit.get("options") or {})}
        messages = _messages(prompt)
        if merged.get("system") is not None:
            messages = (SystemMessage(text=merged["system"]), *messages)
        tools = _tools(merged.get("tools", ()))
        return cls(
            messages=messages,
            tools=tools,
            model=merged.get("model"),
            max_tokens=merged.get("max_tokens"),
            temperature=merged.get("temperature"),
            options=extra,
            tool_choice=_tool_choice(merged.get("tool_choice", "auto"), tools),
            output=_output(merged.get("output")),
            top_p=merged.get("top_p"),
            stop=_stop(merged.get("stop")),
            seed=merged.get("seed"),
            reasoning=merged.get("reasoning"),
            timeout_s=merged.get("timeout_s"),
        )


AgentRequest: TypeAlias = ModelRequest
"""The request of a harness: a request to a model with the harness's defaults filled in."""

_KINDS: Final = (SystemMessage, UserMessage, AssistantMessage, ToolMessage)


def _is_a(value: object, kinds: type | tuple[type, ...]) -> bool:
    return isinstance(value, kinds)  # takes any object, because callers without a type checker get here too


def _unknown_option(name: str) -> InputError:
    guess = closest(name, RunOptions.__annotations__)
    hint = f"Did you mean {guess!r}? " if guess else ""
    return UNKNOWN_OPTION(
        name=name,
        what="option of run()",
        known_names=RunOptions.__annotations__,
        value=name,
        advice=f"{hint}Arguments of the agent, such as budget=, go into Agent(...); those of one provider into options={{...}}.",
    )


def _messages(prompt: Prompt) -> tuple[Message, ...]:
    if isinstance(prompt, str):
        return (UserMessage(text=prompt),)
    items: Any = prompt
    if is_mapping(items) or not hasattr(items, "__iter__"):
        raise INVALID_ARGUMENT(
            argument="The prompt",
            value=type(items),
            wanted="a text, a list of texts and media, or a list of messages",
            fix="Render a Template first: template.render(state)." if hasattr(items, "render") else None,
        )
    messages: tuple[Any, ...] = tuple(items)
    if messages and all(map(is_content, messages)):
        return (UserMessage(content=messages),)
    unfit = [message for message in messages if not _is_a(message, _KINDS)]
    if unfit:
        raise INVALID_ARGUMENT(
            argument="A message of the prompt",
            value=next((item for item in unfit if not is_content(item)), unfit[0]),  # what fits neither kind of list
            wanted='a text, a list of messages such as UserMessage(text="..."), or a list of texts and media, '
            "which is one message",
            known=names(kind.__name__ for kind in _KINDS),
        )
    if not messages:
        raise INVALID_ARGUMENT(argument="The prompt", value=[], wanted="a text, or at least one message")
    check_conversation(messages)
    return messages


_CHECKS: Final[Mapping[str, Callable[[str, Any], None]]] = {
    "model": check_text,
    "max_tokens": partial(check_whole, least=1),
    "temperature": check_amount,
    "top_p": partial(check_amount, most=1),
    "seed": partial(check_whole, least=-inf),
    "timeout_s": partial(check_amount, above=True),
    "options": check_mapping,
}
"""Check of each option that is a number, a text or a mapping, in the order in which they are reported."""


def _check(options: Mapping[str, Any]) -> None:
    """Check the types, numbers and bounds of *options*. A `max_tokens` of NaN would pass every token budget.

    Raises:
        InputError: One of them is invalid.
    """
    for name, check in _CHECKS.items():
        value = options.get(name)
        if value is not None:  # most options are not given in most calls
            check(name, value)
    reasoning = options.get("reasoning")
    if reasoning is not None and reasoning not in get_args(ReasoningEffort):
        raise INVALID_ARGUMENT(
            argument="reasoning",
            value=reasoning,
            wanted="one of these; what only one provider understands goes into options={...}",
            known=names(get_args(ReasoningEffort)),
        )


def _stop(value: Any) -> tuple[str, ...]:
    texts = () if value is None else (value,) if isinstance(value, str) else tuple(each("stop", value))
    for text in texts:
        check_text("an item of stop", text)
    return texts


def _output(output: Any) -> OutputSpec | None:
    if output is None or isinstance(output, OutputSpec):
        return output
    return OutputForm(output).spec


def _tools(tools: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
    known: dict[str, ToolSpec] = {}
    for tool in each("tools", tools) if tools != () else ():
        if not _is_a(tool, ToolSpec):
            raise INVALID_ARGUMENT(argument="A tool of a request", value=tool, wanted="ToolSpec values")
        if tool.name in known:
            raise DUPLICATE_TOOL(tool=tool.name, known=names(known), where="")
        known[tool.name] = tool
    return tuple(known.values())


def _tool_choice(choice: str, tools: Sequence[ToolSpec]) -> str:
    known = {tool.name for tool in tools}
    if choice == "auto":
        return choice
    check_text("tool_choice", choice)
    if choice not in ("auto", "none", "required") and choice not in known:
        raise INVALID_ARGUMENT(
            argument="tool_choice",
            value=choice,
            wanted='"auto", "none", "required" or the name of a tool of the call',
            known=names(known) or "no tools",
        )
    if choice == "required" and not known:
        raise INVALID_ARGUMENT(
            argument="tool_choice", value=choice, wanted='tools too, or "auto"', known="there are no tools"
        )
    return choice
