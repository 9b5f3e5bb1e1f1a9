"""Models and harnesses of every provider that litellm speaks to. litellm itself is imported by `_client` alone."""

from graphrt.harness.litellm._harness import LiteLLMHarness
from graphrt.harness.litellm._model import LiteLLMModel

__all__ = ["LiteLLMHarness", "LiteLLMModel"]
