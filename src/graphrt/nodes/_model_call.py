"""One question to a model: the prompt from the state, the model or harness, and the reply with its thinking separated.

`llm`, `subagent` and `reduce` differ in what they do with the reply.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, TypeAlias

import typing_extensions as te
from pydantic import Field

from graphrt._drivers.context import Context
from graphrt.errors._codes.arguments import (
    ARGUMENT_NEEDS_ANOTHER,
    ARGUMENTS_EXCLUDE_EACH_OTHER,
    INVALID_ARGUMENT,
    UNKNOWN_NAME_IN_ARGUMENT,
)
from graphrt.errors._codes.ready_nodes import AGENT_WITHOUT_OUTPUT
from graphrt.harness import Agent, AgentHarness, AgentReply, Budget, ChatModel, Prompt, Template
from graphrt.harness.protocol import ROUTED
from graphrt.harness.request import ReasoningEffort
from graphrt.specs import Form, FunctionRef, Section, TemplateRef, TemplateText
from graphrt.specs.manifest import Name

PromptSource: TypeAlias = str | Template | Callable[[Any], Prompt]
"""The text of a Template, a Template, or a function of the state that returns a prompt."""

_THOUGHTS: Final = re.compile(r"\A\s*<think>(.*?)</think>\s*", re.DOTALL)
"""Thinking that a model writes into its text, as models served without a reasoning parser do."""
_FOR_THE_CALL: Final = ("reasoning", "max_tokens", "temperature", "options")


class ModelOptions(te.TypedDict, total=False):
    """Options for the model or harness and the call. All are optional."""

    model: str | ChatModel | None
    """A model, called by a dedicated agent; None uses the run's harness."""
    harness: AgentHarness | None
    """An agent or harness, in place of the run's; with all tools of the agent."""
    fallbacks: Sequence[str | ChatModel]
    """Models that are called in turn when *model* has failed permanently."""
    name: str
    """Name of the agent that calls *model*, for events and for `models=` of a runtime; "llm" by default."""
    system: str | Template | None
    """Instructions: a text, or a Template over fields of the state."""
    reasoning: ReasoningEffort | None
    max_tokens: int | None
    temperature: float | None
    options: Mapping[str, Any] | None
    """Further options that only this provider understands."""


class ModelForm(Form):
    """The fields of all kinds that ask a model. Without model and harness the run's harness answers."""

    model: Name | None = None
    """A model of the registry."""
    harness: Name | None = None
    """An agent or harness of the registry, in place of a model."""
    fallbacks: list[Name] = Field(default=[])
    """Models of the registry that are called in turn when the model has failed permanently."""
    agent_name: Name | None = None
    """Name of the agent that calls the model, for events."""
    system: str | TemplateRef | None = None
    """Instructions."""
    reasoning: ReasoningEffort | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    options: dict[str, Any] | None = None
    """Options that only this provider understands."""

    renamed: ClassVar[Mapping[str, str]] = {"agent_name": "name"}
    names: ClassVar[Mapping[str, Section]] = {
        "model": "models",
        "harness": "agents",
        "fallbacks": "models",
        "output": "types",
    }
    texts: ClassVar[frozenset[str]] = frozenset({"prompt"})


PromptField: TypeAlias = TemplateText | FunctionRef
"""A prompt in a form: the text of a Template, or a function of the state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """A question to a model, from the arguments of a factory."""

    prompt: Template | Callable[[Any], Prompt]
    harness: AgentHarness | None
    """None for the run's own."""
    system: str | Template | None
    options: Mapping[str, Any]
    """Options of the call."""
    item: str | None
    """The template field that is filled with `ctx.arg`."""
    budget: Budget | None = None
    tools: Sequence[Any] | None = None

    @property
    def reads(self) -> tuple[str, ...]:
        """The fields of the state that the templates use."""
        templates = [template for template in (self.prompt, self.system) if isinstance(template, Template)]
        return tuple(dict.fromkeys(name for template in templates for name in template.fields if name != self.item))

    async def ask(self, state: Any, ctx: Context[Any]) -> AgentReply:
        """Ask, and return the reply with its thinking separated.

        Raises:
            InputError: A template cannot be filled.
            AgentLimitError: A limit of the agent ended its run before it had the requested output.
            GraphrtError: The call failed.
        """
        prompt = self._filled(self.prompt, state, ctx) if isinstance(self.prompt, Template) else self.prompt(state)
        options = dict(self.options)
        if self.system is not None:
            system = self.system
            options["system"] = self._filled(system, state, ctx) if isinstance(system, Template) else system
        harness = ctx.harness if self.harness is None else ctx.bind(self.harness, tools=self.tools, budget=self.budget)
        reply = await harness.run(prompt, **options)
        if reply.stopped not in (None, ROUTED) and "output" in options and reply.output is None:
            raise AGENT_WITHOUT_OUTPUT(node=ctx.node, limit=reply.stopped)
        return _thought_apart(reply)

    def _filled(self, template: Template, state: Any, ctx: Context[Any]) -> str:
        more = {self.item: ctx.arg} if self.item is not None and self.item in template.fields else {}
        return template.render(state, **more)


def model_call(
    prompt: Any,
    factory_options: ModelOptions,
    *,
    of: str,
    output: Any = None,
    item: str | None = None,
    budget: Budget | None = None,
    tools: Sequence[Any] | None = None,
) -> ModelCall:
    """Return the call for the arguments of a factory.

    Args:
        prompt: See `PromptSource`.
        factory_options: Options of the factory.
        of: Name of the factory, for messages.
        output: Type of the answer.
        item: See `ModelCall`.
        budget: Budget of the calls.
        tools: Tools that the agent may use; None for all.

    Raises:
        InputError: An argument is wrong, or two do not fit together.
    """
    options: dict[str, Any] = dict(factory_options)
    unknown = [name for name in options if name not in ModelOptions.__annotations__]
    if unknown:
        raise UNKNOWN_NAME_IN_ARGUMENT(
            argument=f"The call of {of}()",
            name=unknown[0],
            what="option",
            known_names=ModelOptions.__annotations__,
        )
    source: Any = Template(prompt) if isinstance(prompt, str) else prompt
    if not _can_prompt(source):
        raise INVALID_ARGUMENT(
            argument=f"The prompt of {of}()", value=prompt, wanted="a text, a Template or a function of the state"
        )
    call = {name: options[name] for name in _FOR_THE_CALL if options.get(name) is not None}
    if output is not None:
        call["output"] = output
    return ModelCall(
        prompt=source,
        harness=_answering(options, of),
        system=options.get("system"),
        options=call,
        item=item,
        budget=budget,
        tools=tools,
    )


def _can_prompt(source: object) -> bool:
    """Return True for a Template or a function; not a type guard, so that checkers keep the argument's type."""
    return callable(source) or isinstance(source, Template)


def _answering(options: Mapping[str, Any], of: str) -> AgentHarness | None:
    model, harness = options.get("model"), options.get("harness")
    if model is None and (options.get("fallbacks") or options.get("name")):
        raise ARGUMENT_NEEDS_ANOTHER(argument=f"fallbacks= or name= of {of}()", missing="model=")
    if model is not None and harness is not None:
        raise ARGUMENTS_EXCLUDE_EACH_OTHER(argument=f"model= of {of}()", other="harness=", superfluous="one of them")
    if model is None:
        result: AgentHarness | None = harness
        return result
    return Agent(model, name=options.get("name", "llm"), fallbacks=options.get("fallbacks", ()))


def _thought_apart(reply: AgentReply) -> AgentReply:
    match = _THOUGHTS.match(reply.text)
    if match is None:
        return reply
    thinking = "\n".join(part for part in (reply.thinking, match[1].strip()) if part)
    return replace(reply, text=reply.text[match.end() :], thinking=thinking)
