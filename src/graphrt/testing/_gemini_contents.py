"""Checks the contents of a request to Gemini: invalid turns, and signatures that do not come back.

Errors have Gemini's wording. Pure functions over request bodies and sent parts; `chat_server` sends the refusal.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from graphrt._arguments import is_list, is_mapping

_PLACEHOLDERS: Final = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
"""Signatures that Google documents for calls that Gemini did not make."""
_NOT_CHECKED: Final = (*_PLACEHOLDERS, *(b64encode(one.encode()).decode() for one in _PLACEHOLDERS))


def refusal_of(body: Mapping[str, Any], sent: Sequence[Mapping[str, Any]]) -> str | None:
    """Return Gemini's error message for an invalid request; None if it would accept the request.

    Args:
        body: The JSON document of the request.
        sent: All parts of content that the server has sent.

    Source:
        https://ai.google.dev/gemini-api/docs/thought-signatures: in the current turn, which begins with the last
        message of the user, the first call of each step needs its signature.
    """
    raw_contents: Any = body.get("contents")
    contents: list[Any] = [content for content in raw_contents if is_mapping(content)] if is_list(raw_contents) else []
    if not contents:
        return "* GenerateContentRequest.contents: contents is not specified\n"
    problem = next(_badly_formed(contents), None) or next(_out_of_turn(contents), None)
    return problem or next(_unsigned(contents, sent), None)


def _badly_formed(contents: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Iterate over the errors for contents without parts, with an empty part, or with an unknown role."""
    for place, content in enumerate(contents):
        at = f"* GenerateContentRequest.contents[{place}].parts"
        if content.get("role", "user") not in ("user", "model"):
            yield "Please use a valid role: user, model."
        if not _parts(content):
            yield f"{at}: contents.parts must not be empty.\n"
        for n, part in enumerate(_parts(content)):
            if part.get("text") == "" and not _signature(part):
                yield f"{at}[{n}].data: required oneof field 'data' must have one initialized field\n"


def _out_of_turn(contents: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Iterate over the errors for calls and responses that do not alternate."""
    before: Mapping[str, Any] | None = None
    for content in contents:
        calls = len(_of(before, "functionCall")) if before is not None else 0
        responses = len(_of(content, "functionResponse"))
        if responses and not calls:
            yield "Please ensure that function response turn comes immediately after a function call turn."
        if responses != calls:
            yield (
                "Please ensure that the number of function response parts is equal to the number of function call "
                "parts of the function call turn."
            )
        if _of(content, "functionCall") and (before is None or before.get("role") == "model"):
            yield (
                "Please ensure that function call turn comes immediately after a user turn or after a function "
                "response turn."
            )
        before = content


def _unsigned(contents: Sequence[Mapping[str, Any]], sent: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Iterate over the errors for changed signatures, and for calls of the current turn that lost theirs."""
    signatures = [part["thoughtSignature"] for part in sent if "thoughtSignature" in part]
    began = max((place for place, content in enumerate(contents) if _begins_turn(content)), default=0)
    for place, content in enumerate(contents):
        for part in _parts(content):
            signature = _signature(part)
            if signature and signature not in signatures and signature not in _NOT_CHECKED:
                yield "Corrupted thought signature."
        calls = _of(content, "functionCall")
        if place > began and calls and not _signature(calls[0]) and _was_signed(_call(calls[0]), sent):
            yield (
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to "
                "work correctly, and missing thought_signature may lead to degraded model performance. Additional "
                f"data, function call `default_api:{_call(calls[0]).get('name')}` , position {place + 1}."
            )


def _was_signed(call: Mapping[str, Any], sent: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the server sent this *call* with a signature, ignoring ids, which clients may omit."""
    return any(
        "thoughtSignature" in part
        and "functionCall" in part
        and all(part["functionCall"].get(key) == call.get(key) for key in ("name", "args"))
        for part in sent
    )


def _begins_turn(content: Mapping[str, Any]) -> bool:
    return content.get("role", "user") == "user" and not _of(content, "functionResponse")


def _of(content: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    """Return the parts of a *kind*, whose name may also be in snake case."""
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in kind)
    return [part for part in _parts(content) if kind in part or snake in part]


def _parts(content: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    parts: Any = content.get("parts")
    return [part for part in parts if is_mapping(part)] if is_list(parts) else []


def _call(part: Mapping[str, Any]) -> Mapping[str, Any]:
    call: Any = part.get("functionCall", part.get("function_call"))
    return call if is_mapping(call) else {}


def _signature(part: Mapping[str, Any]) -> Any:
    return part.get("thoughtSignature", part.get("thought_signature"))
