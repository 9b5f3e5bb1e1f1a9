"""Labels of threads: checks of titles, tags and priorities, and the event that gives a thread new ones (decision 0150).

A thread gets its labels from the run that starts it (`open_run`) or from `finding.label`. Both write one
`ThreadLabelled`, from which the store's columns are derived. It holds the complete labels after the change, so only the
last one matters. The priority orders due threads: the highest is driven first, and 0 is the default. For the terms, see
docs/glossary.md.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Any, Final, cast

import typing_extensions as te

from graphrt import events
from graphrt._drivers.child_threads import Tags
from graphrt._runs.if_exists import IfExists
from graphrt._runs.run_config import RunConfig
from graphrt.errors._codes.labels import BAD_LABEL
from graphrt.stores.values import Head, Labels


class Begin(te.TypedDict, total=False):
    """Keyword arguments of `Runtime.steps`, `stream` and their twins for a run on an input; see `Runtime.run`."""

    thread: str | None
    if_exists: IfExists
    title: str | None
    tags: Tags
    allow_older: bool


class GoOn(te.TypedDict, total=False):
    """Keyword arguments of the same verbs for a run that continues a thread; see `Runtime.resume` and `retry`."""

    thread: te.Required[str]
    answers: Any
    answer: Any
    allow_older: bool


LONGEST_TITLE: Final = 200
LONGEST_TAG: Final = 64
MOST_TAGS: Final = 50
MOST_PRIORITY: Final = 1_000_000
"""Highest priority; the lowest is minus this."""


_TAGS_WANTED: Final = (
    f"a set of at most {MOST_TAGS} texts, each a str of 1 to {LONGEST_TAG} characters without control characters"
)
_TAGS: Final[tuple[type, ...]] = (set, frozenset, list, tuple)


def checked_title(title: Any) -> str | None:
    """Return the caller's *title* if it is valid: one line of text, or None for no title.

    Raises:
        InputError: It is not valid (`bad-label`).
    """
    if title is None or _is_line(title, LONGEST_TITLE):
        valid: str | None = title
        return valid
    raise BAD_LABEL(
        option="title",
        given=_shown(title),
        wanted=f"None, or a str of 1 to {LONGEST_TITLE} characters without control characters",
    )


def checked_tags(option: str, tags: Any) -> frozenset[str]:
    """Return the caller's *tags*, passed as the argument *option*, as a set.

    Raises:
        InputError: It is not a set, list or tuple of tags, or has too many (`bad-label`).
    """
    if not isinstance(tags, _TAGS):
        raise BAD_LABEL(option=option, given=_shown(tags), wanted=_TAGS_WANTED)
    items: list[Any] = list(cast("Iterable[Any]", tags))
    for tag in items:
        if not _is_line(tag, LONGEST_TAG):
            raise BAD_LABEL(option=option, given=_shown(tag), wanted=_TAGS_WANTED)
    return counted(option, frozenset(items))


def checked_priority(priority: Any) -> int:
    """Return the caller's *priority* if it is valid.

    Raises:
        InputError: It is not an int, or is out of range (`bad-label`).
    """
    # Check the exact type, since a bool is also an int.
    if type(priority) is int and -MOST_PRIORITY <= priority <= MOST_PRIORITY:
        return priority
    raise BAD_LABEL(
        option="priority",
        given=f"{priority!r}",
        wanted=f"an int from -{MOST_PRIORITY:,} to {MOST_PRIORITY:,}; threads of a higher one are driven first",
    )


def labels_of_head(head: Head) -> Labels:
    """Return the labels of a thread from its *head* (its summary in the store)."""
    return Labels(head.title, head.tags, head.priority)


def counted(option: str, tags: frozenset[str]) -> frozenset[str]:
    """Return *tags*, passed as the argument *option*, if a thread may have that many.

    Raises:
        InputError: There are too many (`bad-label`).
    """
    if len(tags) > MOST_TAGS:
        raise BAD_LABEL(option=option, given=f"{len(tags)} of them", wanted=_TAGS_WANTED)
    return tags


def _is_line(value: Any, longest: int) -> bool:
    """Return whether *value* is a str of 1 to *longest* characters that fits on one line and can be stored."""
    # The first test is for speed: printable ASCII has none of the categories.
    return (
        type(value) is str
        and 1 <= len(value) <= longest
        and ((value.isascii() and value.isprintable()) or not _BAD.intersection(map(unicodedata.category, value)))
    )


_BAD: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Unicode categories: control characters, lone surrogates, and separators of lines and paragraphs."""


def _shown(value: Any) -> str:
    """Describe *value* for an error message: a str truncated and with its length, anything else by its class only."""
    if not isinstance(value, str):
        return f"{type(value).__name__}"
    return f"{value[:40]!a}{'...' if len(value) > 40 else ''} of {len(value)} characters"


def new_labels(title: Any, tags: Any, priority: Any = 0) -> Labels | None:
    """Return the checked labels for starting a run; None if the arguments have their defaults.

    With None, the run need not check whether its store supports labels.

    Raises:
        InputError: One of them is not valid (`bad-label`).
    """
    # Compare the class, since a caller may pass anything: False or 0.0 is not a priority and must be rejected.
    if title is None and tags.__class__ is tuple and not tags and priority.__class__ is int and not priority:
        return None
    return Labels(checked_title(title), checked_tags("tags", tags), checked_priority(priority))


def with_more(old: Labels, new: Labels) -> Labels:
    """Merge a thread's labels *old* with the *new* ones of a restart: all tags, and the title and priority of *new*.

    A title of None or a priority of 0 keeps the one from *old*.

    Raises:
        InputError: Together they have too many tags (`bad-label`).
    """
    title = old.title if new.title is None else new.title
    return Labels(title, counted("tags", old.tags | new.tags), new.priority or old.priority)


def labelled(config: RunConfig, labels: Labels) -> events.ThreadLabelled:
    """Return the event that replaces a thread's labels with *labels*."""
    tags = tuple(sorted(labels.tags))  # sets are unordered, and the same labels must produce the same bytes (R13)
    return events.ThreadLabelled(title=labels.title, tags=tags, user=config.user, priority=labels.priority)
