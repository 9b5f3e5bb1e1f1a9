"""Two tickets at the desk, with the models of `offline` or a real one.

`python -m examples.support_triage --model openai/gpt-4o-mini` needs `graphrt[litellm]` and a key.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from graphrt import Runtime
from graphrt.harness import ChatModel

from .graph import Desk, Verdict, graph
from .offline import offline


def main() -> None:
    """Two tickets: one is answered at once, and a person is asked twice about the other."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", help="a model of litellm, such as openai/gpt-4o-mini")
    asked = parser.parse_args()
    models: Mapping[str, ChatModel | str] = offline()
    if asked.model:
        models = {name: str(asked.model) for name in models}
    verdicts = iter([Verdict(do="rewrite", text="say sorry"), Verdict(do="send")])
    desk = Desk()
    with Runtime(graph, store="memory:", deps=desk, models=models) as runtime:
        for number, text in enumerate(["I cannot sign in.", "You charged me twice!"], 1):
            thread = f"ticket-{number}"
            ticket = {"number": number, "customer": f"c{number}@example.org", "ticket": text}
            result = runtime.run(ticket, thread=thread)
            while result.interrupts:
                print("asked:", result.interrupts[0].payload["draft"])
                result = runtime.resume(thread, next(verdicts, Verdict(do="send")))
    for customer, text in desk.sent:
        print(f"sent to {customer}: {text}")


if __name__ == "__main__":
    main()
