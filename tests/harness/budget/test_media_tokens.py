from __future__ import annotations

import pytest

from graphrt.errors import BudgetExceededError
from graphrt.harness import Agent, Audio, Budget, Document, Image, Media, ModelProfile, ScriptedModel
from graphrt.harness.budget._media_tokens import estimated_tokens

PNG = b"\x89PNG\r\n\x1a\n"
PAGE = b"<< /Type /Page >>"


@pytest.mark.parametrize(
    ("part", "tokens"),
    [
        (Image.from_bytes(PNG * 10_000), 2_500),
        (Image(url="https://example.org/a.png"), 2_500),
        (Document.from_bytes(b"%PDF-1.7 /Type /Pages " + 3 * PAGE), 9_000),
        (Document.from_bytes(b"%PDF-1.7 " + b"\xff" * 120_000), 9_000),
        (Document.from_bytes(b"a,b,c"), 5),
        (Audio.from_bytes(b"ID3" + bytes(32_000)), 257),
        (Audio(url="https://example.org/a.wav"), 10_000),
    ],
)
def test_media_are_estimated_by_their_kind_and_size(part: Media, tokens: int) -> None:
    assert estimated_tokens(part) == tokens


def test_reservation_counts_pictures_and_is_replaced_by_the_usage() -> None:
    profile = ModelProfile(name="m", max_output_tokens=100)
    picture = Image.from_bytes(PNG)

    with pytest.raises(BudgetExceededError):
        Agent(ScriptedModel(["x"], profile=profile, check_calls=False), budget=Budget(tokens=2_500)).run_sync([picture])
    reply = Agent(ScriptedModel(["x"], profile=profile), budget=Budget(tokens=4_000)).run_sync(["What?", picture])

    assert reply.usage is not None
    assert reply.usage.output_tokens == 1
