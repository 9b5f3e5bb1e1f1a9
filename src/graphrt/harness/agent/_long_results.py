"""Tool results that are too long for the model: it is sent the beginning and reads the rest with a tool.

The journal has the whole result, with the call that returned it. The rest is kept here for one run of an agent. After a
restart it is rebuilt from the recorded calls in the same order, so results are identified by numbers, not random names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, final

from graphrt.errors._codes.tools import TOOL_ARGUMENTS
from graphrt.harness.messages import ToolSpec
from graphrt.harness.tools.protocol import Tool, ToolContext, ToolPolicy

__all__ = ["LongResults", "cut"]

_SPEC: Final = ToolSpec(
    name="read_result",
    description="Read more of a tool result of which you were sent a part.",
    parameters={
        "type": "object",
        "properties": {
            "result": {"type": "integer", "description": "Number of the result, as its note says."},
            "start": {"type": "integer", "description": "Position of the first character, from 0."},
            "find": {
                "type": "string",
                "description": "If given: read from the next place, at or after start, where this text occurs.",
            },
        },
        "required": ["result", "start"],
        "additionalProperties": False,
    },
)


@final
@dataclass(slots=True)
class LongResults:
    """The long results of one run of an agent, and the tool that reads them."""

    limit: int | None
    """Maximum number of characters of a result sent to the model, unless its tool has its own limit; None for no
    limit."""
    taken: tuple[str, ...]
    """Names of the tools of the run. If one has the name of this module's tool, results are cut and the rest cannot be
    read."""
    kept: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    """Whole texts, each with the maximum number of characters sent at once. After a handoff the next agent has the same
    list, because the conversation refers to its numbers."""

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tool, once there is something to read: 0..1 tools."""
        return (_ReadResult(self.kept),) if self.kept and _SPEC.name not in self.taken else ()

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tool's description for the model: 0..1 specs."""
        return tuple(tool.spec for tool in self.tools)

    def shown(self, text: str, tool: Tool) -> str:
        """Return the result *text* of *tool* in the form sent to the model."""
        tool_limit = tool.policy.max_result_chars
        limit = self.limit if tool_limit is None else tool_limit
        if limit is None or len(text) <= limit or isinstance(tool, _ReadResult):  # that one returns pages
            return text
        hint = ""
        if _SPEC.name not in self.taken:
            self.kept.append((text, limit))
            hint = f"; to read on, call {_SPEC.name}(result={len(self.kept)}, start={limit})"
        return cut(text, limit, hint)


def cut(text: str, limit: int, hint: str = "") -> str:
    """Return the first *limit* characters of *text*, with a note about the rest."""
    return f"{text[:limit]}\n[cut: {len(text) - limit} of {len(text)} characters are not shown{hint}]"


def _page(text: str, result: int, start: int, limit: int) -> str:
    """Return the characters of *text* from *start*, with a note about the range."""
    end = min(start + limit, len(text))
    hint = f"; to read on, call {_SPEC.name}(result={result}, start={end})" if end < len(text) else ""
    return f"{text[start:end]}\n[characters {start} to {end} of {len(text)}{hint}]"


@final
class _ReadResult:
    """The tool that reads long results."""

    def __init__(self, results: list[tuple[str, int]]) -> None:
        self.spec: Final = _SPEC
        self.policy: Final = ToolPolicy(effect="pure")
        self._kept = results

    def check(self, arguments: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Return *arguments* if they name a place in a result.

        Raises:
            ToolArgumentsError: They do not.
        """
        values = {"find": "", **arguments}
        result, start, find = values.get("result"), values.get("start"), values["find"]
        known = len(self._kept)
        problem = ""
        if not values.keys() <= _SPEC.parameters["properties"].keys() or type(find) is not str:
            problem = "Give `result`, `start` and, if you search, the text `find`."
        elif type(result) is not int or not 1 <= result <= known:
            problem = f"There is no result {result!r}: `result` is a number from 1 to {known}."
        elif type(start) is not int or not 0 <= start < len(self._kept[result - 1][0]):
            problem = f"`start` is a number from 0 to {len(self._kept[result - 1][0]) - 1}."
        if problem:
            raise TOOL_ARGUMENTS(text=problem, tool=_SPEC.name)
        return values

    async def call(self, arguments: Mapping[str, Any], context: ToolContext, /) -> str:  # noqa: ARG002
        """Return a page of the result."""
        result, start, find = int(arguments["result"]), int(arguments["start"]), str(arguments["find"])
        text, limit = self._kept[result - 1]
        at = text.find(find, start) if find else start
        if at < 0:
            return f"{find!r} does not occur in result {result} from character {start} on."
        return _page(text, result, at, limit)
