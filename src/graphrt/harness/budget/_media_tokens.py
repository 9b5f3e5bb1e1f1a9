"""Estimates the tokens of images, audio and documents for reservations; the actual usage is what the provider reports.

Providers count by pixels, seconds and pages, each in its own way. The figures here are those of the most expensive
common case, so that a reservation is rarely too small; decision 0241 has the sources.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from graphrt.harness.media import Audio, Image, Media
from graphrt.harness.messages import AssistantMessage, Message, ToolMessage, UserMessage

_IMAGE: Final = 2_500
"""Tokens of an image: Claude counts up to 1,600, GPT-4o up to 1,500, and Gemini 258 for each tile of 768 pixels."""
_PAGE: Final = 3_000
"""Tokens of a page of a PDF: its text and its picture, at most as Claude counts them."""
_PAGE_BYTES: Final = 50_000
"""Assumed bytes per page if the pages cannot be counted."""
_AUDIO_BYTES: Final = 125
"""Bytes of audio for one token: 32 tokens a second, as Gemini counts, at 32 kbit/s, a low rate."""
_FAR: Final = 10_000
"""Tokens of audio and documents given by URL."""
_PAGES: Final = re.compile(rb"/Type\s*/Page\b(?!s)")


def estimated_tokens(part: Media) -> int:
    """Return an approximate upper bound of the tokens that *part* takes in a request."""
    data = part.data
    match part:
        case Image():
            return _IMAGE
        case Audio():
            return _FAR if data is None else len(data) // _AUDIO_BYTES + 1
        case _ if data is None:
            return _FAR
        case _ if part.is_text:
            return len(data)  # a token is one byte at least
        case _:
            pages = len(_PAGES.findall(data)) or len(data) // _PAGE_BYTES + 1
            return pages * _PAGE


def tokens_of_media(messages: Iterable[Message]) -> int:
    """Return the sum of the estimates for all media in *messages*."""
    return sum(estimated_tokens(part) for message in messages for part in message.media)


def without_media(message: Message) -> Message:
    """Return *message* with only its texts."""
    if not message.media:
        return message
    if isinstance(message, (UserMessage, ToolMessage)):
        return replace(message, content=())
    return replace(message, media=()) if isinstance(message, AssistantMessage) else message
