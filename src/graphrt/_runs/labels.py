"""Labels of threads: checks of titles, tags and priorities, and the event that gives a thread new ones (decision 0150).

A thread gets labels in the run that begins it (`open_run`), and others by `finding.label`. Both write one
`ThreadLabelled`, from which the store's columns follow. It has all labels as they are afterwards, so that the last one
says everything. The priority orders the threads that are due: the highest is driven first, and 0 is the default. For
the terms, see docs/glossary.md.
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
    """Return *title*, whatever a caller passed, if it can be a title: a line of text, or None for no title.

    Raises:
        InputError: It is not a title (`bad-label`).
    """
    if title is None or _is_line(title, LONGEST_TITLE):
        found: str | None = title
        return found
    raise BAD_LABEL(
        option="title",
        given=_shown(title),
        wanted=f"None, or a str of 1 to {LONGEST_TITLE} characters without control characters",
    )


def checked_tags(option: str, tags: Any) -> frozenset[str]:
    """Return *tags*, whatever a caller passed as the argument named *option*, as a set.

    Raises:
        InputError: It is not a set, list or tuple of tags, or has too many (`bad-label`).
    """
    if not isinstance(tags, _TAGS):
        raise BAD_LABEL(option=option, given=_shown(tags), wanted=_TAGS_WANTED)
    given: list[Any] = list(cast("Iterable[Any]", tags))
    for tag in given:
        if not _is_line(tag, LONGEST_TAG):
            raise BAD_LABEL(option=option, given=_shown(tag), wanted=_TAGS_WANTED)
    return counted(option, frozenset(given))


def checked_priority(priority: Any) -> int:
    """Return *priority*, whatever a caller passed, if it can be a priority.

    Raises:
        InputError: It is not an int, or too high or too low (`bad-label`).
    """
    # By its type, since a bool is an int too.
    if type(priority) is int and -MOST_PRIORITY <= priority <= MOST_PRIORITY:
        return priority
    raise BAD_LABEL(
        option="priority",
        given=f"{priority!r}",
        wanted=f"an int from -{MOST_PRIORITY:,} to {MOST_PRIORITY:,}; threads of a higher one are driven first",
    )


def labels_of_head(head: Head) -> Labels:
    """Return the labels of a thread, which its *head* (its summary in the store) has."""
    return Labels(head.title, head.tags, head.priority)


def counted(option: str, tags: frozenset[str]) -> frozenset[str]:
    """Return *tags*, the argument named *option*, if a thread may have so many.

    Raises:
        InputError: There are too many (`bad-label`).
    """
    if len(tags) > MOST_TAGS:
        raise BAD_LABEL(option=option, given=f"{len(tags)} of them", wanted=_TAGS_WANTED)
    return tags


def _is_line(value: Any, longest: int) -> bool:
    """Return whether *value* is a text of 1 to *longest* characters that can be shown in one line, and stored."""
    # The first test is for speed: printable ASCII has none of the categories.
    return (
        type(value) is str
        and 1 <= len(value) <= longest
        and ((value.isascii() and value.isprintable()) or not _BAD.intersection(map(unicodedata.category, value)))
    )


_BAD: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Unicode categories: control characters, lone surrogates, and separators of lines and paragraphs."""


def _shown(value: Any) -> str:
    """Return *value* for an error message: a text shortened and with its length, anything else by its class only."""
    if not isinstance(value, str):
        return f"{type(value).__name__}"
    return f"{value[:40]!a}{'...' if len(value) > 40 else ''} of {len(value)} characters"


def new_labels(title: Any, tags: Any, priority: Any = 0) -> Labels | None:
    """Return the checked labels that a run is begun with; None if the arguments have their defaults.

    None spares the run a look whether its store can keep labels, which not every store can.

    Raises:
        InputError: One of them is not valid (`bad-label`).
    """
    # By class, since a caller may pass anything: False or 0.0 is not a priority, and has to be refused.
    if title is None and tags.__class__ is tuple and not tags and priority.__class__ is int and not priority:
        return None
    return Labels(checked_title(title), checked_tags("tags", tags), checked_priority(priority))


def with_more(old: Labels, new: Labels) -> Labels:
    """Return the labels of a thread that has *old* and is begun anew with *new*: title and priority of *new*, all tags.

    A title that is None, or a priority of 0, leaves that of *old*.

    Raises:
        InputError: Together they have too many tags (`bad-label`).
    """
    title = old.title if new.title is None else new.title
    return Labels(title, counted("tags", old.tags | new.tags), new.priority or old.priority)


def labelled(config: RunConfig, labels: Labels) -> events.ThreadLabelled:
    """Return the event that gives a thread *labels*, in place of those that it has."""
    tags = tuple(sorted(labels.tags))  # a set has no order, and the same labels must give the same bytes (R13)
    return events.ThreadLabelled(title=labels.title, tags=tags, user=config.user, priority=labels.priority)
