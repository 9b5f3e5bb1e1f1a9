"""A harness without a model: it reads the licence's text by rules and answers like a model.

It shows the whole protocol of an `AgentHarness`: one async method. The graph cannot distinguish it from a real model.
"""

from __future__ import annotations

import json
import re
from typing import Unpack

from examples.audit import texts
from examples.audit.questions import BEGIN, CLAIMED, END
from examples.audit.spdx import leaves, parse
from examples.audit.state import UNKNOWN
from graphrt.harness import AgentReply, AgentRequest, Prompt, RunOptions, Usage


class OfflineReader:
    """Answers `questions.question` from the text in the prompt alone; usage counts words."""

    name = "offline-reader"

    async def run(self, prompt: Prompt, /, **options: Unpack[RunOptions]) -> AgentReply:
        """Answer one question.

        Raises:
            InputError: The prompt or an option is wrong.
        """
        request = AgentRequest.build(prompt, options)
        licence, confidence, reason = read(request.text)
        text = json.dumps({"licence": licence, "confidence": confidence, "reason": reason})
        asked = sum(len(message.text.split()) for message in request.messages)
        usage = Usage(input_tokens=asked, output_tokens=len(text.split()), calls=1)
        return AgentReply(text=text, usage=usage, model=self.name)


def read(prompt: str) -> tuple[str, float, str]:
    """Licence, confidence and reason for one prompt."""
    text = prompt.partition(BEGIN)[2].rpartition(END)[0].strip()
    claimed = _claimed(prompt.partition(BEGIN)[0])
    found = texts.recognise(text)
    if not text:
        if len(claimed) == 1:
            return claimed[0], 0.5, "no text is shipped to prove it"
        return UNKNOWN, 0.2, "no licence text is shipped"
    if not found:
        return UNKNOWN, 0.2, f"no known text in {len(text):,} characters"
    if len(found) == 1:
        return found[0], 0.95, _compared(found[0], claimed)
    if set(claimed) == set(found) and re.search(r"\b(dual|either|at your option)\b", text, re.IGNORECASE):
        return " OR ".join(found), 0.8, f"{len(found)} texts, offered as a choice"
    return " AND ".join(found), 0.75, f"{len(found)} texts, and no choice is offered"


def _compared(found: str, claimed: tuple[str, ...]) -> str:
    if not claimed:
        return "the text is recognised"
    return "the text matches the claim" if found in claimed else "the text is another's"


def _claimed(head: str) -> tuple[str, ...]:
    line = next((line for line in head.splitlines() if line.startswith(CLAIMED)), CLAIMED)
    names = line.removeprefix(CLAIMED)
    if names == "nothing":
        return ()
    return tuple(leaf.id for name in names.split(", ") for leaf in leaves(parse(name)))
