"""Tool calls of chat completions, in the forms that servers give them, read into one form.

Arguments may be an object instead of its JSON text, or null. The deprecated `function_call` is a call without an id.
Servers differ in how they number the calls of a stream: some number all of them 0, and some give neither ids nor
numbers. The clients merge such calls into one whose arguments cannot be parsed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from graphrt.harness.litellm._wire._values import is_object, mapping, mappings, parsed, text


@dataclass(slots=True)
class _Call:
    """A call that has arrived in part."""

    id: str
    name: str
    arguments: list[str] = field(default_factory=list[str])
    """The pieces of the JSON text."""

    def is_complete(self) -> bool:
        """Return whether the arguments are a complete object, which no further piece can continue."""
        return is_object(parsed("".join(self.arguments)))


@dataclass(slots=True)
class Calls:
    """Reads the calls of one answer, whole or in pieces, and numbers them."""

    _calls: list[_Call] = field(default_factory=list[_Call])
    _latest: dict[int, int] = field(default_factory=dict[int, int])
    """Position in `_calls` of the latest call with each number of the server."""
    _known: dict[tuple[int, str], int] = field(default_factory=dict[tuple[int, str], int])
    """Position of the call with a number and an id of the server."""

    def whole(self, message: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the calls of a whole *message*, each with an id."""
        return [
            {
                "id": _id(call.get("id")) or f"call_{n}",
                "type": "function",
                "function": {"name": _name(call), "arguments": _arguments(call)},
            }
            for n, call in enumerate(_calls_of(message))
        ]

    def pieces(self, delta: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the pieces of calls in a *delta* of a stream; each `index` is the position of its call."""
        return [self._piece(n, piece) for n, piece in enumerate(_calls_of(delta))]

    def _piece(self, n: int, piece: Mapping[str, Any]) -> dict[str, Any]:
        index: Any = piece.get("index")
        number = index if isinstance(index, int) else n
        id_, name, arguments = _id(piece.get("id")), _name(piece), _arguments(piece)
        position = self._known.get((number, id_), self._latest.get(number))
        is_new = position is None or _is_another(self._calls[position], id_, name)
        if position is None or is_new:
            position = len(self._calls)
            self._calls.append(_Call(id_, name))
        call = self._calls[position]
        call.id, call.name = call.id or id_, call.name or name
        call.arguments.append(arguments)
        self._latest[number] = position
        if id_:
            self._known[number, id_] = position
        function = {"name": name, "arguments": arguments} if is_new else {"arguments": arguments}
        return {"index": position, "type": "function", "function": function, **({"id": call.id} if call.id else {})}


def _is_another(call: _Call, id_: str, name: str) -> bool:
    """Return whether a piece with the number of *call* begins another call."""
    if id_ and call.id and id_ != call.id:
        return True
    if not name or not call.name:
        return False
    return name != call.name or (not id_ and call.is_complete())  # some servers repeat the name in each piece


def _calls_of(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    calls = mappings(message.get("tool_calls"))
    old = mapping(message.get("function_call"))
    return calls or ([{"function": old}] if old else [])


def _function(call: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(call.get("function")) or mapping(call.get("custom"))


def _name(call: Mapping[str, Any]) -> str:
    return text(_function(call).get("name"))


def _arguments(call: Mapping[str, Any]) -> str:
    function = _function(call)
    arguments: Any = function.get("arguments", function.get("input"))
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else json.dumps(arguments, ensure_ascii=False)


def _id(value: Any) -> str:
    return str(value) if isinstance(value, int) else text(value)
