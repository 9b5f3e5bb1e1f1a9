"""The event stream of a thread for the page: its entries, and live items between them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, final

from graphrt.events import Entry
from graphrt.runtime import LiveItem
from graphrt.serve._events import HEADERS, event
from graphrt.serve._problems import problem
from graphrt.viewer._documents import entry_document
from graphrt.viewer._values import Bounds, Documents

_PIECES: Final = {"TextDelta": "text", "ThinkingDelta": "thinking", "ToolCallDelta": "tool"}


@final
class LiveForm:
    """The events `entry`, `live`, `end` and `problem`, with bounded values.

    Args:
        end: Returns the data of the last event.
        bounds: Size limits of values.
        code: Whether the code of the thread's graph is available.
    """

    headers: Mapping[str, str] = HEADERS
    over: bool = False

    def __init__(self, end: Callable[[], Awaitable[Any]], bounds: Bounds, *, code: bool) -> None:
        self._end: Final = end
        self._bounds: Final = bounds
        self._code: Final = code

    async def item(self, item: Entry | LiveItem) -> bytes:
        """Return the event of an entry, or of a live item."""
        if isinstance(item, LiveItem):
            return event("live", live_document(item, self._bounds), item.position or None)
        return event("entry", entry_document(item, self._bounds, code=self._code), item.seq)

    async def end(self) -> bytes:
        """Return the event for the end of the run."""
        return event("end", await self._end())

    def problem(self, error: Exception) -> bytes:
        """Return the event of a problem."""
        return event("problem", problem(error))


def live_document(live_item: LiveItem, bounds: Bounds) -> dict[str, Any]:
    """Return the `LiveDoc` of a live item."""
    shown: Any = live_item.item
    inner: Any = getattr(shown, "item", None)
    kind = type(inner if live_item.mode == "messages" and inner is not None else shown).__name__
    path, _, _ = live_item.task_id.rpartition("/")
    document: dict[str, Any] = {
        "mode": live_item.mode, "task": live_item.task_id, "node": getattr(shown, "node", None), "path": path,
        "what": "value", "text": "", "value": None, "missed": live_item.missed,
    }  # fmt: skip
    if live_item.mode == "messages":
        document["what"] = _PIECES.get(kind, kind)
        document["text"] = str(getattr(inner, "text", ""))
        if kind not in ("TextDelta", "ThinkingDelta"):
            document["value"] = Documents(bounds).of(inner if inner is not None else shown)
    elif live_item.mode == "live":
        document["what"] = str(getattr(shown, "what", ""))
        document["value"] = Documents(bounds).of(getattr(shown, "value", None))
    else:
        document["value"] = Documents(bounds).of(shown)
    return document
