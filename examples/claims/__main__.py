"""A customer talks 400 times to the desk, makes two claims, and comes back a year later.

The models of `offline` answer, or a real one: `python -m examples.claims --model openai/gpt-4o-mini` needs
`graphrt[litellm]` and a key.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from graphrt import Runtime
from graphrt.harness import AssistantMessage, ChatModel, Image, Message, UserMessage

from .files import invoice, photo
from .graph import Desk, graph
from .offline import offline

FILES = {"screen.pdf": invoice("New screen. Total: 180 EUR"), "roof.pdf": invoice("New roof. Total: 2400 EUR")}


def claim(shows: str, file: str) -> list[Message]:
    """A message of a customer with a photo."""
    text = f"Please pay for this, the invoice is {file}."
    return [UserMessage(content=[text, Image.from_bytes(photo(shows))])]


def earlier(turns: int) -> list[Message]:
    """So many earlier turns."""
    talk: list[Message] = []
    for number in range(turns):
        talk += [UserMessage(text=f"My cat is {number} days old."), AssistantMessage(text="How nice!")]
    return talk


def main() -> None:
    """Two claims in a long conversation, one of which a person approves, and a question in another conversation."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", help="a model of litellm, such as openai/gpt-4o-mini")
    asked = parser.parse_args()
    models: Mapping[str, ChatModel | str] = offline()
    if asked.model:
        models = {name: str(asked.model) for name in models}
    desk = Desk(FILES)
    turns: list[tuple[str, list[Message]]] = [
        ("2026", earlier(400) + claim("a cracked screen", "screen.pdf")),
        ("2026", claim("a hole in the roof", "roof.pdf")),
        ("2027", [UserMessage(text="What do you know about me?")]),
    ]
    with Runtime(graph, store="memory:", deps=desk, models=models) as runtime:
        for thread, said in turns:
            given: dict[str, Any] = {"customer": "ann", "messages": said}
            print("ann: ", said[-1].text)
            result = runtime.run(given, thread=thread)
            while result.interrupts:
                print("asked:", result.interrupts[0].payload)
                result = runtime.resume(thread, True)
            print("desk:", result.state.messages[-1].text)
            left_out = [one.left_out for one in result.state.messages if isinstance(one, AssistantMessage)]
            for note in filter(None, left_out):
                print(f"      [{note.messages} of {len(result.state.messages)} messages were not sent: {note.summary}]")
    print(f"[paid: {desk.paid}]")


if __name__ == "__main__":
    main()
