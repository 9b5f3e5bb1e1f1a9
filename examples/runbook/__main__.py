"""An incident in the night, with the models of `offline` or a real one; the operator is at the terminal, or approves.

`python -m examples.runbook --model openai/gpt-4o-mini` needs `graphrt[litellm]` and a key.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from graphrt import Runtime
from graphrt.harness import ChatModel

from .graph import Site, graph
from .offline import offline

ALERT = {"alert": "checkout fails", "service": "checkout"}


def main() -> None:
    """One incident: a plan with a dangerous step is refused, and a better one is approved and executed once."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", help="a model of litellm, such as openai/gpt-4o-mini")
    parser.add_argument("--ask", action="store_true", help="ask for the decision at the terminal")
    asked = parser.parse_args()
    models: Mapping[str, ChatModel | str] = offline()
    if asked.model:
        models = {name: str(asked.model) for name in models}
    site = Site()
    with Runtime(graph, store="memory:", deps=site, models=models) as runtime:
        result = runtime.run(ALERT, thread="incident-1")
        plan = result.state.plan
        if plan:
            print(f"plan accepted in attempt {plan['attempts']}: {', '.join(result.state.steps)}")
        while result.interrupts:
            question = result.interrupts[0].payload["question"]
            choice = input(f"{question} approve or reject: ").strip() if asked.ask else "approve"
            answer = {"choice": choice, "by": "Ann", "role": "operator", "rationale": "the release is the cause"}
            result = runtime.resume("incident-1", answer=answer)
    print(result.state.report)


if __name__ == "__main__":
    main()
