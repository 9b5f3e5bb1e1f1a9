"""Research on one topic, with the models of `offline` or a real one.

`python -m examples.research_map_reduce --model openai/gpt-4o-mini` needs `graphrt[litellm]` and a key.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from graphrt.harness import ChatModel

from .graph import graph
from .offline import offline


def main() -> None:
    """Research one topic and print the report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("topic", nargs="?", default="tea and coffee and cocoa")
    parser.add_argument("--model", help="a model of litellm, such as openai/gpt-4o-mini")
    asked = parser.parse_args()
    models: Mapping[str, ChatModel | str] = offline()
    if asked.model:
        models = {name: str(asked.model) for name in models}
    result = graph.run({"topic": asked.topic}, models=models)
    print(result.state.report)
    print(f"[{', '.join(result.state.sources)}; {result.state.words} words, {result.usage.calls} model calls]")


if __name__ == "__main__":
    main()
