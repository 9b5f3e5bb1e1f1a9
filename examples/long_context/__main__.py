"""A question about a log of ten megabytes. The models of `offline` answer, or a real one.

`python -m examples.long_context --model openai/gpt-5` needs `graphrt[litellm]` and a key. It makes some 450 calls, of
6,000 tokens each; `--megabytes 0.5` makes it cheap, and `--file` and `--question` are for a text of your own.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path

from graphrt import Runtime
from graphrt.harness import ChatModel

from .graph import LIMITS, graph
from .log import write_log
from .offline import QUESTION, offline


def main() -> None:
    """Print the cost bound, read, and print the answer and its cost."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", help="a model of litellm, such as openai/gpt-5")
    parser.add_argument("--piece-model", help="a smaller one for the sub-calls")
    parser.add_argument("--megabytes", type=float, default=10.5)
    parser.add_argument("--file", type=Path, help="a text of your own, in place of the log")
    parser.add_argument("--question", default=QUESTION)
    asked = parser.parse_args()
    models: Mapping[str, ChatModel | str] = offline()
    if asked.model:
        models = {"recursive": str(asked.model), "recursive-piece": str(asked.piece_model or asked.model)}
    bound = LIMITS.bound()
    print(f"at most {bound.calls} calls and {bound.tokens:,} tokens")
    with tempfile.TemporaryDirectory() as folder:
        path = asked.file
        if path is None:
            path = Path(folder) / "shop.log"
            write_log(path, int(asked.megabytes * 1_000_000))
        with (
            Runtime(graph, models=models) as runtime,
            runtime.stream({"log": path, "question": asked.question}, modes=["live", "result"]) as stream,
        ):
            pieces = 0
            for mode, item in stream:
                if mode == "live" and item.node == "piece" and item.what == "ended":
                    pieces += 1
                    if pieces % 100 == 0:
                        print(f"{pieces} pieces read", flush=True)
            result = stream.result
    assert result is not None
    assert result.usage is not None
    print(result.state.answer)
    print(f"[{result.usage.calls} calls, {result.usage.total_tokens:,} tokens]")


if __name__ == "__main__":
    main()
