"""Removal of credentials from texts, messages and replies before they are written to a cassette.

Pure: values go in and redacted values come out. Only texts are changed. The forms of credentials are in
`_sensitive_texts`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, Final, TypeVar, cast

from graphrt._arguments import is_mapping, is_sequence, is_tuple
from graphrt._sensitive_texts import credentials, forms_of, of_environment, without_credentials
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.harness._doubles.reply_pieces import Piece
from graphrt.harness.media import Media
from graphrt.harness.messages import Message, ProviderPart, TextPart, ThinkingBlock, ToolCall
from graphrt.harness.protocol import AgentReply, TextDelta, ToolCallDelta

T = TypeVar("T", bound=Message | AgentReply | ThinkingBlock | ProviderPart | TextPart | Media | ToolCall)

_NO_OPTIONS: Final[Mapping[str, Any]] = {}
_SHORTEST: Final = 8
"""Minimum length of a known credential: a shorter one would match inside ordinary words."""
_CLEANED: Final = frozenset(
    {"text", "thinking", "thinking_blocks", "signature", "redacted", "data", "tool_calls", "provider_parts", "messages"}
    | {"content", "media"}
)
"""Fields of messages, replies and their parts that may contain a secret."""
_DIGIT: Final = re.compile(r"\d")


class Redactor:
    """Removes credentials: texts that look like one, those of the environment and of a call, and what a hook removes.

    Args:
        hook: Returns the text that may be written for a text; called last. It must be pure.
        environment: Whether values of environment variables such as `OPENAI_API_KEY` are removed too.
        options: Options of a call. Credentials among them are removed from all other texts.
    """

    def __init__(
        self,
        hook: Callable[[str], str] | None = None,
        *,
        environment: bool = True,
        options: Mapping[str, Any] = _NO_OPTIONS,
    ) -> None:
        self._hook: Final = hook
        option_values = _credentials(options)
        # Only values with a digit: an option that is merely named like a credential may have an ordinary word as its
        # value, which must not be removed from all texts.
        known = {
            *(of_environment() if environment else ()),
            *(value for value in option_values if _DIGIT.search(value)),
        }
        self._known: Final = forms_of(known, _SHORTEST)

    def text(self, text: str) -> str:
        """Return *text* without secrets.

        Raises:
            InputError: The hook did not return a string.
        """
        text = without_credentials(text, self._known, prose=True)
        if self._hook is None:
            return text
        redacted: Any = self._hook(text)
        if not isinstance(redacted, str):
            raise INVALID_ARGUMENT(
                argument="The result of the redact hook of a Cassette",
                value=type(redacted),
                wanted="a function that returns the text that may be written",
            )
        return redacted

    def data(self, value: Any) -> Any:
        """Return JSON data with every string in it redacted, keys included; other values stay as they are."""
        if isinstance(value, str):
            return self.text(value)
        if is_mapping(value):
            return {self.data(name): self.data(item) for name, item in value.items()}
        if is_sequence(value):
            return [self.data(item) for item in value]
        return value

    def call(self, call: ToolCall) -> ToolCall:
        """Return *call* without secrets; the same object if it has none."""
        arguments, text = self.data(call.arguments), self.text(call.arguments_text)
        if arguments != call.arguments:
            text = self.text(json.dumps(arguments, ensure_ascii=False))
        if text == call.arguments_text and (call.error is None or self.text(call.error) == call.error):
            return call
        if call.error is not None:
            return replace(call, arguments_text=text, error=self.text(call.error))
        return ToolCall(id=call.id, name=call.name, arguments_text=text)

    def clean(self, value: T) -> T:
        """Return a message, a reply or a part of one without secrets.

        The `output` of a reply is left as it is: `clean_reply` redacts it as JSON data. The text of a thinking block that
        had secrets no longer fits the provider's signature.
        """
        if isinstance(value, ToolCall):
            return cast("T", self.call(value))
        if isinstance(value, Media):
            return cast("T", self._file(value))
        names = [field.name for field in fields(value) if field.name in _CLEANED]
        if isinstance(value, ThinkingBlock):
            names.append("id")
        return replace(value, **{name: self._field(getattr(value, name)) for name in names})

    def _file(self, file: Media) -> Media:
        """Return *file* without secrets in its name, its URL, and its bytes if they are a text."""
        url, data = file.url and self.text(file.url), file.data
        name = file.name and self.text(file.name)
        if data is not None and file.is_text:
            text = data.decode(errors="surrogateescape")
            data = self.text(text).encode(errors="surrogateescape")
        return (
            file
            if (url, data, name) == (file.url, file.data, file.name)
            else type(file)._restored(data, url, file.media_type, name)
        )

    def _field(self, value: Any) -> Any:
        return tuple(map(self.clean, value)) if is_tuple(value) else self.data(value)

    def pieces(self, pieces: list[Piece]) -> list[Piece]:
        """Return the pieces of a stream without secrets, including those that are split over several pieces."""
        for source in sorted({_whose(piece) for piece in pieces}):
            indexes = [n for n, piece in enumerate(pieces) if _whose(piece) == source]
            text = "".join(_written(pieces[n]) for n in indexes)
            clean = self.text(text)
            if clean != text:  # the first piece then carries the whole text
                first, rest = indexes[0], set(indexes[1:])
                pieces = [
                    _rewritten(piece, clean if n == first else "") if n == first or n in rest else piece
                    for n, piece in enumerate(pieces)
                    if n not in rest or isinstance(piece, ToolCallDelta)
                ]
        return pieces


def _whose(piece: Piece) -> int:
    """Return which text the piece belongs to: the index of a tool call, -1 for the text, or -2 for the thinking."""
    if isinstance(piece, ToolCallDelta):
        return piece.index
    return -1 if isinstance(piece, TextDelta) else -2


def _written(piece: Piece) -> str:
    return piece.arguments_text if isinstance(piece, ToolCallDelta) else piece.text


def _rewritten(piece: Piece, text: str) -> Piece:
    return replace(piece, arguments_text=text) if isinstance(piece, ToolCallDelta) else replace(piece, text=text)


def _credentials(options: Mapping[str, Any]) -> tuple[str, ...]:
    try:
        return credentials(api_key=None, api_base=None, options=options) if options else ()
    except RecursionError:  # options that contain themselves; `canonical` refuses them
        return ()
