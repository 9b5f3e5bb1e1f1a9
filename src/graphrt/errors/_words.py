"""Text that error messages share: the "Where" line, lists of names, guesses, articles and plurals.

This module has no exceptions, and does not decide when to raise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final, final

_ADDRESS: Final = r" at 0x[0-9a-fA-F]+>"
"""The address in memory that the `repr` of a function or an object without its own ends with."""
MOST_ARGUMENT: Final = 200
"""Maximum number of characters of a Send's argument that a message quotes."""


@final
class Place:
    """Where in a run something happened: an error takes it over as attributes, and shows it as its "Where" line.

    Args:
        **known: Attributes of `GraphrtError`: graph, path, node, declared_at, task_id, superstep, arg, thread, run_id,
            seq. A part that is None is not known, and is left out.
    """

    __slots__ = ("known",)

    def __init__(self, **known: Any) -> None:
        self.known: dict[str, Any] = {name: value for name, value in known.items() if value is not None}

    def __str__(self) -> str:
        return ", ".join(parts(self.known))

    def __repr__(self) -> str:
        return f"Place({self})"


def parts(known: Mapping[str, Any]) -> list[str]:
    """Return the parts of a "Where" line, made of the attributes of an error or a `Place`."""
    texts: list[str] = []
    if (graph := known.get("graph")) is not None:
        texts.append(f"graph {graph!r}")
    path = known.get("path") if "graph" in known else None
    declared = known.get("declared_at")
    # The path of a nested graph may already end with the node's name.
    if (node := known.get("node")) is not None and not ("task_id" not in known and path and path.endswith(f":{node}")):
        texts.append(f"node {node!r} at {declared}" if declared else f"node {node!r}")
    elif declared:
        texts.append(f"at {declared}")
    if (task := known.get("task_id")) is not None:
        texts.append(f"task {task}")
    else:
        if (superstep := known.get("superstep")) is not None:
            texts.append(f"superstep {superstep}")
        if path:
            texts.append(f"nested in task {path}")
    if (arg := known.get("arg")) is not None:
        texts.append(f"argument {brief(arg)}")
    if (model := known.get("model")) is not None:
        texts.append(f"model {model!r}")
    if thread := known.get("thread"):  # empty for a write to the memory, which has no thread
        texts.append(f"thread {thread!r}")
    if (run := known.get("run_id")) is not None:
        texts.append(f"run {run}")
    if (seq := known.get("seq")) is not None:
        texts.append(f"entry {seq}")
    return texts


def line(text: str, known: Mapping[str, Any], what: str) -> str:
    """Return the "Where" line.

    Args:
        text: The text with which the error was raised.
        known: Attributes of the error, which add their parts.
        what: The first line of the message; a part that it or *text* contains is not repeated.
    """
    message = f"{text}\n{what}".casefold()
    details = [part for part in parts(known) if part.casefold() not in message]
    return ", ".join([text, *details] if text else details)


def brief(value: object, max_chars: int = MOST_ARGUMENT) -> str:
    """Return the `repr` of *value* on one line, cut to *max_chars* characters; a `__repr__` that raises is handled.

    Addresses in memory are left out: `<function later>`.
    """
    import re  # imported here: most programs never raise
    import reprlib

    shown = reprlib.Repr()
    shown.maxstring = shown.maxother = shown.maxlong = max_chars
    try:
        text = shown.repr(value)
    except Exception:  # noqa: BLE001 - user code; the error that is reported matters more
        text = f"<{type(value).__name__}>"
    text = re.sub(_ADDRESS, ">", " ".join(text.split()))
    return text if len(text) <= max_chars else f"{text[: max_chars - 3]}..."


def a(noun: str) -> str:
    """Return *noun* with its article: `a str`, `an int`, `a UUID`."""
    word = noun.lower()
    vowel = word.startswith(tuple("aeiou")) and not word.startswith(("uni", "use", "uu", "ur", "ut", "one", "eu"))
    return f"{'an' if vowel else 'a'} {noun}"


def a_type(value: object) -> str:
    """Return the name of the class of *value* with its article: `an int`, `a MyState`."""
    return a(type(value).__name__)


def count(number: int, noun: str, many: str | None = None) -> str:
    """Return *number* with *noun* in singular or plural: `1 call`, `3 calls`, `1,000 entries`."""
    return f"{number:,} {noun if number == 1 else many or f'{noun}s'}"


def names(items: Iterable[object], *, max_items: int = 12) -> str:
    """Quote *items* for the "Known" line: at most *max_items* of them, and the number of the rest."""
    iterator = iter(items)
    text = ", ".join(repr(item) for item in islice(iterator, max_items))
    more = sum(1 for _ in iterator)
    return f"{text} and {more} more" if more else text


def closest(name: object, known: Iterable[str]) -> str:
    """Return the item of *known* that *name* most likely means; empty if none is close."""
    from difflib import get_close_matches  # as above

    if not isinstance(name, str):
        return ""
    matches = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else ""


def said(error: BaseException) -> str:
    """Return the text of *error*, even if its `__str__` raises."""
    # An error that a journal kept has its text as `message`.
    recorded: str | None = getattr(error, "message", None) if hasattr(error, "type_name") else None
    if recorded is not None:
        return recorded
    try:
        return str(error)
    except Exception as broken:  # noqa: BLE001 - user code; the error that is reported matters more
        return f"<no text: its str() raised {type(broken).__name__}>"
