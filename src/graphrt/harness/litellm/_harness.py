"""LiteLLMHarness: a `LiteLLMModel` with instructions of its own, behind the methods that nodes call.

Only the way from the arguments of `run` to a request lives here.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Final, Unpack

from graphrt.harness.litellm._model import LiteLLMModel
from graphrt.harness.messages import Prompt
from graphrt.harness.protocol import AgentReply, ModelProfile, RunOptions, StreamItem
from graphrt.harness.request import AgentRequest

__all__ = ["LiteLLMHarness"]


class LiteLLMHarness:
    """A harness for every provider that litellm knows. Needs the extra `graphrt[litellm]`.

    It is a `LiteLLMModel` that answers prompts: see there how litellm is kept quiet, that nothing is retried, and
    that it may be used from several tasks, event loops and worker threads at once.

    Args:
        model: Provider and model as litellm writes them, for instance `"openai/gpt-4o-mini"`.
        api_base: Address of the provider's interface. None: the provider's own.
        api_key: Credential. None: the provider's environment variable. Never part of an error's text.
        timeout_s: Seconds that `run` may take, and that `stream` may take until its next chunk.
        system: Instructions for calls that give none.
        max_tokens: Bound of an answer, in tokens, for calls that give none.
        temperature: For calls that give none.
        options: Further arguments of `litellm.acompletion`, for every call.

    Raises:
        InputError: An argument is wrong.
    """

    def __init__(
        self,
        model: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        timeout_s: float = 60.0,
        system: str | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._model: Final = LiteLLMModel(
            model,
            api_base=api_base,
            api_key=api_key,
            timeout_s=timeout_s,
            max_tokens=max_tokens,
            temperature=temperature,
            options=options,
        )
        self._name: Final = model
        self.defaults: Final[RunOptions] = {
            "system": system,
            "model": model,
            "max_tokens": max_tokens,
            "temperature": temperature,
        }
        """What a call has that gives nothing else: budgets and cassettes look at it."""

    @property
    def profile(self) -> ModelProfile:
        """What litellm's tables know of the model; looking imports litellm."""
        return self._model.profile

    async def run(self, prompt: Prompt, /, **options: Unpack[RunOptions]) -> AgentReply:
        """Ask the model once and wait for the whole reply.

        If the caller is cancelled, so is the call.

        Raises:
            InputError: The prompt or an option is wrong.
            ModelRequestForbiddenError: Real requests are forbidden in this process, and the address is not loopback.
            MissingExtraError: litellm is not installed.
            HarnessError: The call failed; its subclasses say what kind of failure it was.
        """
        return await self._model.invoke(AgentRequest.build(prompt, options, defaults=self.defaults))

    async def stream(self, prompt: Prompt, /, **options: Unpack[RunOptions]) -> AsyncGenerator[StreamItem, None]:
        """Ask the model once and yield the reply in pieces, the whole reply last.

        If the reader stops or is cancelled, so is the call.

        Raises:
            InputError: The prompt or an option is wrong.
            ModelRequestForbiddenError: Real requests are forbidden in this process, and the address is not loopback.
            MissingExtraError: litellm is not installed.
            HarnessError: The call failed, also in the middle.
        """
        request = AgentRequest.build(prompt, options, defaults=self.defaults)
        async with aclosing(self._model.stream(request)) as items:
            async for item in items:
                yield item

    def __graphrt_check_real__(self, request: AgentRequest | None = None) -> None:
        self._model.__graphrt_check_real__(request)

    def __repr__(self) -> str:
        return f"LiteLLMHarness({self._name!r})"
