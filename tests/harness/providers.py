"""Which features work with which provider: a table of checks, and the page that is generated from their results.

    python -m tests.harness.providers > docs/reference/providers.md

Each check talks to `FakeChatServer` in the form of the provider, over HTTP, whole and streamed. `test_providers` runs
all of them, and compares the page.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pydantic import BaseModel
from tests.harness.wires import WAYS, ask, request

from graphrt.errors import HarnessError, RateLimitError, RefusalError, TransientModelError
from graphrt.events import Usage
from graphrt.harness import (
    Agent,
    AgentReply,
    LiteLLMModel,
    Message,
    StreamItem,
    TextDelta,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from graphrt.testing import ChatAnswer, ChatRequest, FakeChatServer

Base = Literal["url", "anthropic_url", "gemini_url"]
TEXT: Final = 'It rains in Åndalsnes, "as ever".'
TOOLS: Final = [ToolSpec(name="look"), ToolSpec(name="count")]
LOOK: Final = ToolCall(id="call_look", name="look", arguments={"at": "sky"})
COUNT: Final = ToolCall(id="call_cnt1", name="count", arguments={"what": "drops"})
SPENT: Final = Usage(input_tokens=40, output_tokens=12, cached_tokens=8)
THOUGHT: Final = "Clouds, I think."


class City(BaseModel):
    """A structured answer."""

    name: str
    wet: bool


@dataclass(frozen=True)
class Provider:
    """One row: a provider, or a popular server."""

    name: str
    api: str
    model: str
    base: Base = "url"
    dialect: str = "openai"
    returned: Callable[[ChatRequest], Any] | None = None
    """The form of the reasoning in a request; None if the API does not accept it."""
    refuses: bool = True
    """Whether the API has a form for refusals."""
    caches: bool = True
    """Whether it reports how much of the prompt came from a cache."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Options of a request for which the model thinks."""


def _assistants(asked: ChatRequest) -> list[Mapping[str, Any]]:
    return [one for one in asked.body["messages"] if one["role"] == "assistant"]


def _responses_items(asked: ChatRequest) -> list[Any]:
    return [one["encrypted_content"] for one in asked.body["input"] if one.get("type") == "reasoning"]


def _claude_blocks(asked: ChatRequest) -> list[Any]:
    blocks = [block for one in _assistants(asked) for block in one["content"]]
    return [block["signature"] for block in blocks if block["type"] == "thinking"]


def _gemini_signatures(asked: ChatRequest) -> list[Any]:
    parts = [part for content in asked.body["contents"] for part in content["parts"]]
    return [part["thoughtSignature"] for part in parts if "function_call" in part and "thoughtSignature" in part]


def _field(name: str) -> Callable[[ChatRequest], Any]:
    return lambda asked: [one[name] for one in _assistants(asked) if one.get(name)]


PROVIDERS: Final = (
    Provider("OpenAI", "chat completions", "openai/gpt-x"),
    Provider("OpenAI", "Responses", "openai/responses/gpt-5", returned=_responses_items, options={"reasoning": "low"}),
    Provider(
        "Anthropic",
        "messages",
        "anthropic/claude-sonnet-4-5",
        "anthropic_url",
        returned=_claude_blocks,
        options={"reasoning": "low", "max_tokens": 4000},
    ),
    Provider("Google", "Gemini", "gemini/gemini-3-pro-preview", "gemini_url", returned=_gemini_signatures),
    Provider("Mistral", "chat completions", "mistral/mistral-large-latest", dialect="mistral", refuses=False),
    Provider("Groq", "chat completions", "groq/openai/gpt-oss-120b", dialect="groq", returned=_field("reasoning")),
    Provider(
        "DeepSeek",
        "chat completions",
        "deepseek/deepseek-reasoner",
        dialect="deepseek",
        returned=_field("reasoning_content"),
    ),
    Provider(
        "OpenRouter",
        "chat completions",
        "openrouter/openai/gpt-5",
        dialect="openrouter",
        returned=_field("reasoning_details"),
    ),
    Provider("Ollama", "chat completions (compatible)", "openai/llama3.2", dialect="ollama", caches=False),
    Provider("llama.cpp", "chat completions (compatible)", "openai/qwen3", dialect="llama.cpp", caches=False),
    Provider("vLLM", "chat completions (compatible)", "hosted_vllm/qwen3", returned=_field("reasoning")),
)


def _asked(
    provider: Provider, way: str, *answers: ChatAnswer, prompts: Callable[[AgentReply], list[Message]] | None = None
) -> tuple[AgentReply, list[StreamItem], list[ChatRequest]]:
    """The last reply to as many requests as there are answers, its streamed items, and the requests."""

    async def go() -> tuple[AgentReply, list[StreamItem], list[ChatRequest]]:
        with FakeChatServer(answers, dialect=provider.dialect) as server:
            model = _model(provider, server)
            items: list[StreamItem] = []
            said: list[Message] = [UserMessage(text="How is the weather?")]
            for number in range(len(answers)):
                items.clear()
                asked = request(said, tools=TOOLS, **provider.options)
                reply = await ask(model, way, asked, items)
                if number < len(answers) - 1:
                    said += [reply.message, *(prompts(reply) if prompts else ())]
            return reply, items, server.requests

    return asyncio.run(go())


def _model(provider: Provider, server: FakeChatServer) -> LiteLLMModel:
    base: str = getattr(server, provider.base)
    return LiteLLMModel(provider.model, api_base=base, api_key="a-key", timeout_s=20)


def _failure(provider: Provider, way: str, answer: ChatAnswer) -> HarnessError:
    try:
        reply = _asked(provider, way, answer)
    except HarnessError as error:
        return error
    raise AssertionError(f"an answer in place of an error: {reply[0]!r}")


def _results(reply: AgentReply) -> list[Message]:
    return [ToolMessage(tool_call_id=call.id, text="wet") for call in reply.tool_calls]


# --------------------------------------------------------------------------------------------------------- the checks


def text(provider: Provider, way: str) -> bool:
    reply, _, _ = _asked(provider, way, ChatAnswer(text=TEXT))
    return (reply.text, reply.tool_calls, reply.finish_reason) == (TEXT, (), "stop")


def parallel_calls(provider: Provider, way: str) -> bool:
    """Two calls in one answer, and their results in the next request."""
    answers = ChatAnswer(tool_calls=(LOOK, COUNT)), ChatAnswer(text=TEXT)
    calls: list[tuple[str, dict[str, Any]]] = []

    def results(reply: AgentReply) -> list[Message]:
        calls.extend((call.name, dict(call.arguments)) for call in reply.tool_calls)
        return _results(reply)

    reply, _, _ = _asked(provider, way, *answers, prompts=results)
    return reply.text == TEXT and calls == [(call.name, dict(call.arguments)) for call in (LOOK, COUNT)]


def structured_output(provider: Provider, way: str) -> bool:
    """An agent with `output=`."""

    async def go() -> bool:
        said = City(name="Åndalsnes", wet=True)
        answer = ChatAnswer(text=said.model_dump_json())
        if provider.api == "messages":  # a model without structured output gets a tool for it
            answer = lambda asked: ChatAnswer(  # type: ignore[assignment]
                tool_calls=(ToolCall(id="call_out1", name=asked.body["tools"][0]["name"], arguments=said.model_dump()),)
                if asked.body.get("tools")
                else (),
                text="" if asked.body.get("tools") else said.model_dump_json(),
            )
        with FakeChatServer([answer], dialect=provider.dialect) as server:
            agent = Agent(_model(provider, server), output=City)
            if way == "invoke":
                return (await agent.run("Where?")).output == said
            last: Any = [item async for item in agent.stream("Where?")][-1]
            return bool(last.output == said)

    return asyncio.run(go())


def streaming(provider: Provider, way: str) -> bool:
    reply, items, _ = _asked(provider, way, ChatAnswer(text=TEXT))
    pieces = [item.text for item in items if isinstance(item, TextDelta)]
    return way == "invoke" or (len(pieces) > 1 and "".join(pieces) == reply.text == TEXT)


def usage(provider: Provider, way: str) -> bool:
    """Tokens as the provider reported them, or none."""
    told, _, _ = _asked(provider, way, ChatAnswer(text=TEXT, usage=SPENT))
    silent, _, _ = _asked(provider, way, ChatAnswer(text=TEXT, usage=None))
    found = told.usage
    counts = None if found is None else (found.input_tokens, found.output_tokens, found.cached_tokens)
    return counts == (40, 12, 8 if provider.caches else 0) and silent.usage is None


def refusal(provider: Provider, way: str) -> bool | None:
    if not provider.refuses:
        return None
    return type(_failure(provider, way, ChatAnswer(refusal="I cannot help with that."))) is RefusalError


def cut(provider: Provider, way: str) -> bool:
    """An answer that `max_tokens` truncated is marked; a stream that breaks off is an error."""
    reply, _, _ = _asked(provider, way, ChatAnswer(text=TEXT, finish_reason="length"))
    broken = (
        way == "invoke" or type(_failure(provider, way, ChatAnswer(text=TEXT, unfinished=True))) is TransientModelError
    )
    return broken and reply.finish_reason == "length"


def errors_in_streams(provider: Provider, way: str) -> bool:
    """The class and the text of an error within a stream, and of the same error with its status."""
    late = {"error_after": 2} if way == "stream" else {}
    failed = ChatAnswer(
        status=429,
        error={"message": "slow down, please", "type": "rate_limit_error", "code": "rate_limit_exceeded"},
        **late,  # type: ignore[arg-type]
    )
    error = _failure(provider, way, failed)
    return type(error) is RateLimitError and "slow down, please" in str(error)


def reasoning_returned(provider: Provider, way: str) -> bool | None:
    """The reasoning before a call is sent back in the next request, in the provider's form."""
    if provider.returned is None:
        return None
    answers = ChatAnswer(thinking=THOUGHT, tool_calls=(LOOK,)), ChatAnswer(text=TEXT)
    _, _, requests = _asked(provider, way, *answers, prompts=_results)
    return bool(provider.returned(requests[1])) and not provider.returned(requests[0])


FEATURES: Final[Mapping[str, Callable[[Provider, str], bool | None]]] = {
    "Text": text,
    "Parallel calls": parallel_calls,
    "Structured output": structured_output,
    "Streaming": streaming,
    "Usage": usage,
    "Refusal": refusal,
    "Cut off": cut,
    "Errors in streams": errors_in_streams,
    "Reasoning returned": reasoning_returned,
}

_HEAD: Final = """# Providers

What graphrt does with the answers of each provider, whole and streamed.
A program makes this page: it asks `FakeChatServer`, which speaks each API, over HTTP, and writes down what came of it.
The tests of graphrt run the same checks.

`yes`: the same whole and streamed. `-`: the API has nothing of the kind. Anything else would be a fault.

"""
_FOOT: Final = """
- **Text**, **parallel calls**: two calls in one answer are two `ToolCall`s with ids of their own, and their results go back in the form of the API.
- **Structured output**: an agent with `output=` gets a checked value.
- **Streaming**: the pieces of a streamed answer are its text.
- **Usage**: the tokens that the provider reported, those from its cache among them. What it does not report is unknown: `usage` is None.
- **Refusal**: the model or a filter refused, and there is no answer beside it: `RefusalError`.
- **Cut off**: an answer that `max_tokens` cut off has `finish_reason="length"`, and none of its calls is made. A stream that ends before its API's end is a `TransientModelError`.
- **Errors in streams**: an error after the first piece has the class and the text that it has with a status of its own.
- **Reasoning returned**: what the model thought before it called a tool goes back with the result, unchanged, in the form that the provider documents.

Amazon Bedrock's Converse, Cohere's chat and Ollama's own API are read below litellm too; `FakeChatServer` does not speak them.
Every other provider of litellm works as litellm reads it.

litellm sends the system message to `gemini/gemini-2.0-flash` and to Gemma as text of the user, because these models take none.
"""


def cells() -> Iterator[tuple[Provider, list[str]]]:
    """Yield the row of each provider: the result of each check."""
    for provider in PROVIDERS:
        yield provider, [_cell(check, provider) for check in FEATURES.values()]


def _cell(check: Callable[[Provider, str], bool | None], provider: Provider) -> str:
    found = {way: check(provider, way) for way in WAYS}
    if None in found.values():
        return "-"
    return (
        "yes"
        if all(found.values())
        else f"only {', '.join(way for way, ok in found.items() if ok)}"
        if any(found.values())
        else "no"
    )


def page(rows: list[tuple[Provider, list[str]]]) -> str:
    """Return the page for the results of the checks."""
    lines = [f"| Provider | API | Model | {' | '.join(FEATURES)} |", "|---" * (len(FEATURES) + 3) + "|"]
    for provider, row in rows:
        lines.append(f"| {provider.name} | {provider.api} | `{provider.model}` | {' | '.join(row)} |")
    return _HEAD + "\n".join(lines) + "\n" + _FOOT


if __name__ == "__main__":
    os.environ.setdefault("GRAPHRT_CHECK_STATE", "0")
    sys.stdout.write(page(list(cells())))
