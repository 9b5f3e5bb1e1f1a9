"""Labels of threads: checks of titles, tags and priorities, and the event that gives a thread new ones (decision 0150).

A thread gets labels in the run that begins it (`open_run`), and others by `finding.label`. Both write one
`ThreadLabelled`, from which the store's columns follow.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Any, Final, cast

import typing_extensions as te

from graphrt import events
from graphrt._drivers.child_threads import Tags
from graphrt._runs.run_config import RunConfig
from graphrt.errors._codes.labels import BAD_PRIORITY, BAD_TAGS, BAD_TITLE
from graphrt.stores.protocol import Head, Labels


class Begin(te.TypedDict, total=False):
    """Keyword arguments of a run on an input, besides what is watched of it; see `Runtime.run`."""

    thread: str | None
    abandon: bool
    title: str | None
    tags: Tags


class GoOn(te.TypedDict, total=False):
    """Keyword arguments of a run that goes on, besides what is watched of it; see `Runtime.resume` and `retry`."""

    thread: te.Required[str]
    answers: Any
    answer: Any


LONGEST_TITLE: Final = 200
LONGEST_TAG: Final = 64
MOST_TAGS: Final = 50
MOST_PRIORITY: Final = 1_000_000
"""Highest priority; the lowest is minus this."""


_TAGS: Final[tuple[type, ...]] = (set, frozenset, list, tuple)


def checked_title(title: Any) -> str | None:
    """Return *title*; None is none.

    Raises:
        InputError: It is no title (`bad-label`).
    """
    if title is None or _is_label(title, LONGEST_TITLE):
        found: str | None = title
        return found
    raise BAD_TITLE(option="title", given=_shown(title), longest=LONGEST_TITLE)


def checked_tags(option: str, tags: Any) -> frozenset[str]:
    """Return *tags*, the argument named *option*, as a set.

    Raises:
        InputError: They are no tags, or too many (`bad-label`).
    """
    if not isinstance(tags, _TAGS):
        raise BAD_TAGS(option=option, given=_shown(tags), most=MOST_TAGS, longest=LONGEST_TAG)
    given: list[Any] = list(cast("Iterable[Any]", tags))
    for tag in given:
        if not _is_label(tag, LONGEST_TAG):
            raise BAD_TAGS(option=option, given=_shown(tag), most=MOST_TAGS, longest=LONGEST_TAG)
    return counted(option, frozenset(given))


def checked_priority(priority: Any) -> int:
    """Return *priority*.

    Raises:
        InputError: It is no priority (`bad-label`).
    """
    if type(priority) is int and -MOST_PRIORITY <= priority <= MOST_PRIORITY:
        return priority
    raise BAD_PRIORITY(given=priority, most=MOST_PRIORITY)


def labels_of_head(head: Head) -> Labels:
    """Return the labels of a thread."""
    return Labels(head.title, head.tags, head.priority)


def counted(option: str, tags: frozenset[str]) -> frozenset[str]:
    """Return *tags*, the argument named *option*, if a thread may have so many.

    Raises:
        InputError: There are too many (`bad-label`).
    """
    if len(tags) > MOST_TAGS:
        raise BAD_TAGS(option=option, given=f"{len(tags)} of them", most=MOST_TAGS, longest=LONGEST_TAG)
    return tags


def _is_label(value: Any, longest: int) -> bool:
    """Return whether *value* is a text that can be shown in one line, and stored."""
    # Cc, Cs, Zl and Zp: control characters, lone surrogates, and separators of lines and paragraphs.
    return (
        type(value) is str
        and 1 <= len(value) <= longest
        and ((value.isascii() and value.isprintable()) or not _BAD.intersection(map(unicodedata.category, value)))
    )


_BAD: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})


def _shown(value: Any) -> str:
    if not isinstance(value, str):
        return f"{type(value).__name__}"
    return f"{value[:40]!a}{'...' if len(value) > 40 else ''} of {len(value)} characters"


def new_labels(title: Any, tags: Any, priority: Any = 0) -> Labels | None:
    """Return the labels that a run is begun with; None if none were given."""
    if title is None and tags.__class__ is tuple and not tags and priority.__class__ is int and not priority:
        return None  # the defaults
    return Labels(checked_title(title), checked_tags("tags", tags), checked_priority(priority))


def with_more(old: Labels, new: Labels) -> Labels:
    """Return the labels of a thread that has *old* and is begun anew with *new*: their title and priority, and all tags.

    A title that is None, or a priority of 0, leaves that of *old*.
    """
    title = old.title if new.title is None else new.title
    return Labels(title, counted("tags", old.tags | new.tags), new.priority or old.priority)


def labelled(config: RunConfig, labels: Labels) -> events.ThreadLabelled:
    """Return the event that gives a thread *labels*."""
    tags = tuple(sorted(labels.tags))
    return events.ThreadLabelled(title=labels.title, tags=tags, user=config.user, priority=labels.priority)
