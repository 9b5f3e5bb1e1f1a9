"""The adapter for litellm: a model and a harness for all its providers. Only `_client` imports litellm itself."""

from graphrt.harness.litellm._harness import LiteLLMHarness
from graphrt.harness.litellm._model import LiteLLMModel

__all__ = ["LiteLLMHarness", "LiteLLMModel"]
