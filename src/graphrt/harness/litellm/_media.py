"""Images, audio and documents in requests and answers: the form of each in OpenAI's chat format, and back.

litellm turns the form of chat completions into that of the other APIs: blocks `image` and `document` of Anthropic, also
in the result of a tool, `inlineData` of Gemini, `image` and `document` of Bedrock, `input_image` and `input_file` of
Responses. Content that a provider does not accept is refused here, before anything is sent.

A text document goes out as text, which every model reads. A URL goes out only to providers that fetch it themselves, in
a form that litellm passes on; for the others litellm would fetch it on this machine (decision 0241).
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from graphrt._arguments import is_mapping
from graphrt.errors import InputError
from graphrt.errors._codes.models import AUDIO_FORMAT_NOT_TAKEN, MEDIA_URL_NOT_TAKEN
from graphrt.harness.litellm._thinking import Recipient
from graphrt.harness.media import Audio, Document, Image, made_of
from graphrt.harness.messages import AssistantMessage, MediaPart, Message, ProviderPart, TextPart

_FETCHING: Final = frozenset(
    {
        "openai",
        "azure",
        "openrouter",
        "groq",
        "mistral",
        "xai",
        "together_ai",
        "fireworks_ai",
        "hosted_vllm",
        "deepinfra",
    }
)
"""Providers of chat completions and Responses that fetch the URL of an image, which litellm passes on."""
_OPENAI: Final = frozenset({"openai", "azure"})
_OPENAI_AUDIO: Final = frozenset({"wav", "mp3"})
"""Formats of `input_audio` in OpenAI's API."""
_FORMATS: Final[Mapping[str, str]] = {"mpeg": "mp3", "x-wav": "wav"}
"""Subtypes of audio that have another name in `input_audio`."""
_CONVERSE: Final = frozenset({"bedrock", "bedrock_converse"})
_IN_RESULTS: Final = frozenset({"messages", "gemini", "responses"})
"""APIs whose tool results take images and documents. Parts of chat completions are text."""


def in_results(to: Recipient) -> bool:
    """Return whether a result of a tool may hold media for *to*; otherwise they follow in a message of the user."""
    return to.api in _IN_RESULTS or to.named in _CONVERSE


def wire_parts(parts: Iterable[Any], to: Recipient) -> list[dict[str, Any]]:
    """Return the `content` of a message in chat completions.

    Args:
        parts: What the message says: texts and media.
        to: Who it is written for.

    Raises:
        BadRequestError: *to* cannot be given a part (`media-not-taken`).
    """
    return [
        {"type": "text", "text": part.text} if isinstance(part, TextPart) else wire_part(part, to)
        for part in parts
        if not isinstance(part, ProviderPart)
    ]


def wire_part(part: MediaPart, to: Recipient) -> dict[str, Any]:
    """Return one image, audio or document in the form of chat completions; see `wire_parts`."""
    if part.data is None:
        return _of_url(part, to)
    match part:
        case Image():
            return {"type": "image_url", "image_url": {"url": part.data_url()}}
        case Audio():
            subtype = (part.media_type or "").partition("/")[2]
            form = _FORMATS.get(subtype, subtype)
            if to.named in _OPENAI and (form not in _OPENAI_AUDIO or to.api == "responses"):
                takes = "no audio in Responses" if to.api == "responses" else "audio as WAV and MP3"
                raise AUDIO_FORMAT_NOT_TAKEN(part=part, provider=to.named, takes=takes)
            return {"type": "input_audio", "input_audio": {"data": _base64(part.data), "format": form}}
        case Document():
            if part.is_text:
                return {"type": "text", "text": document_text(part)}
            name = part.name or f"document.{_suffix(part)}"
            return {"type": "file", "file": {"filename": name, "file_data": part.data_url()}}


def document_text(part: Document) -> str:
    """Return a document that is a text as models read it: between lines that name it."""
    named = f' name="{part.name}"' if part.name else ""
    return (
        f'<document{named} type="{part.media_type}">\n{(part.data or b"").decode("utf-8-sig", "replace")}\n</document>'
    )


def _of_url(part: MediaPart, to: Recipient) -> dict[str, Any]:
    """Return the form of a part with a URL.

    Raises:
        BadRequestError: The provider does not fetch such URLs, or litellm would (`media-not-taken`).
    """
    url = str(part.url)
    if to.named == "anthropic" and url.startswith("https://") and not isinstance(part, Audio):
        # With a format, litellm neither asks the address whether it is a PDF nor takes it for one.
        form = part.media_type or ("application/pdf" if isinstance(part, Document) else "image/png")
        if isinstance(part, Image) or form == "application/pdf":
            return {"type": "image_url", "image_url": {"url": url, "format": form}}
    if to.named in _FETCHING and isinstance(part, Image):
        return {"type": "image_url", "image_url": {"url": url}}
    raise MEDIA_URL_NOT_TAKEN(part=part, provider=to.named or "?")


def _base64(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def _suffix(part: Document) -> str:
    subtype = (part.media_type or "").partition("/")[2]
    return subtype if subtype.isalnum() else "bin"


def asked_with(messages: Iterable[Message]) -> list[MediaPart]:
    """Return the parts of *messages* whose bytes a request must have: those of the user and of tools."""
    parts = (part for message in messages if not isinstance(message, AssistantMessage) for part in message.media)
    return [part for part in parts if part.data is not None and not (isinstance(part, Document) and part.is_text)]


# ---------------------------------------------------------------------------------------------------------- answers


def taken_out(parts: Sequence[ProviderPart]) -> tuple[tuple[MediaPart, ...], tuple[ProviderPart, ...]]:
    """Return the images, audio and documents that a model made, and the remaining content of the parts."""
    media: list[MediaPart] = []
    others: list[ProviderPart] = []
    for part in parts:
        key, decoded = _of_answer(part)
        if decoded is None:
            others.append(part)
            continue
        media.append(decoded)
        rest = {name: value for name, value in part.data.items() if name != key}
        if rest and part.type in _TOLD:  # such as the transcript of speech
            others.append(replace(part, data=rest))
    return tuple(media), tuple(others)


_TOLD: Final = frozenset({"audio", "image_generation_call"})
"""Types of parts that have more content than the bytes."""


def _of_answer(part: ProviderPart) -> tuple[str, MediaPart | None]:
    """Return the media that the model made and their key, if *part* is such a part and has its bytes."""
    data = part.data
    match part.type:
        case "image" | "image_url":
            image: Any = data.get("image_url", data)
            url: Any = image.get("url") if is_mapping(image) else image
            return "image_url", _of_link(url)
        case "audio":
            # Streams have raw samples without a header.
            return "data", _decoded(data.get("data"), Audio.from_bytes, "audio/pcm")
        case "inline_data":
            media_type: Any = data.get("mimeType")
            return "data", _decoded(
                data.get("data"), partial(made_of, media_type=media_type if _is_text(media_type) else None)
            )
        case "image_generation_call":
            return "result", _decoded(data.get("result"), Image.from_bytes)
        case _:
            return "", None


def _of_link(url: Any) -> MediaPart | None:
    try:
        return Image(url=url)
    except InputError:
        return None  # the part stays as the provider sent it


def _decoded(text: Any, make: Callable[..., MediaPart], default_type: str | None = None) -> MediaPart | None:
    """Return the result of *make* for the bytes in *text*; None if they are not base64, or not such a file.

    Args:
        text: The bytes in base64.
        make: Makes the part of the bytes.
        default_type: Media type of bytes that show none.
    """
    if not _is_text(text):
        return None
    try:
        data = b64decode(text, validate=True)
    except (Base64Error, ValueError):
        return None
    for options in ({}, {"media_type": default_type}) if default_type else ({},):
        try:
            return make(data, **options)
        except InputError:
            continue  # the part stays as the provider sent it
    return None


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)
