"""LiteLLMHarness: a `LiteLLMModel` with default options, as a harness for nodes.

It only turns the arguments of `run` into a request.
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

    It prompts a `LiteLLMModel`. As described there, litellm is kept quiet, nothing is retried, and the harness may be
    used from several tasks, event loops and worker threads at once.

    Args:
        model: Provider and model as litellm names them, for instance `"openai/gpt-4o-mini"`.
        api_base: Address of the provider's API. None: the provider's own.
        api_key: Credential. None: the provider's environment variable. Never part of an error's text.
        timeout_s: Seconds that `run` may take, and that `stream` may take until its next chunk.
        system: Default instructions.
        max_tokens: Default upper bound of an answer, in tokens.
        temperature: Default temperature.
        options: Further arguments of `litellm.acompletion`, for every call.

    Raises:
        InputError: An argument is invalid.
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
        """Default options of a call; budgets and cassettes read them too."""

    @property
    def profile(self) -> ModelProfile:
        """Facts about the model from litellm's bundled tables; the first access imports litellm."""
        return self._model.profile

    async def run(self, prompt: Prompt, /, **options: Unpack[RunOptions]) -> AgentReply:
        """Ask the model once and return the whole reply.

        If the caller is cancelled, so is the call.

        Raises:
            InputError: The prompt or an option is wrong.
            ModelRequestForbiddenError: Real requests are forbidden in this process, and the address is not loopback.
            MissingExtraError: litellm is not installed.
            HarnessError: The call failed; its subclasses name the kind of failure.
        """
        return await self._model.invoke(AgentRequest.build(prompt, options, defaults=self.defaults))

    async def stream(self, prompt: Prompt, /, **options: Unpack[RunOptions]) -> AsyncGenerator[StreamItem, None]:
        """Ask the model once and yield the reply in pieces, the whole reply last.

        If the reader stops or is cancelled, so is the call.

        Raises:
            InputError: The prompt or an option is wrong.
            ModelRequestForbiddenError: Real requests are forbidden in this process, and the address is not loopback.
            MissingExtraError: litellm is not installed.
            HarnessError: The call failed, perhaps in the middle of the stream.
        """
        request = AgentRequest.build(prompt, options, defaults=self.defaults)
        async with aclosing(self._model.stream(request)) as items:
            async for item in items:
                yield item

    def __graphrt_check_real__(self, request: AgentRequest | None = None) -> None:
        self._model.__graphrt_check_real__(request)

    def __repr__(self) -> str:
        return f"LiteLLMHarness({self._name!r})"
