"""Column formats of labels and positions: tags as JSON, tokens of the inbox as text.

Threads are found by their labels (title, tags, tenant). The inbox lists the open questions of all threads, oldest
first. A token is a position in this order as text, which callers pass back to get the next page.

Shared by the stores with SQL rows. This module neither reads nor writes a store.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from math import isfinite
from typing import Any, Final, NamedTuple

from graphrt._arguments import is_number
from graphrt.errors import InputError
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.stores.ids import is_id, tenant_of
from graphrt.stores.values import Labels

_LONGEST: Final = 10_000
"""Maximum length of a token; tokens are untrusted, for example from the URL of a web page."""


class LabelRow(NamedTuple):
    """The columns of a thread's labels, besides its number."""

    tenant: str | None
    title: str | None
    folded: str | None
    """The title in the form in which titles are compared, without differences of upper and lower case."""
    tags: str | None
    """A JSON list of the tags, sorted; None without tags."""


def label_row(thread: str, labels: Labels) -> LabelRow | None:
    """Return the label row of *thread*; None if there is nothing to store.

    The priority is not in it: stores keep it in the thread's own row, because workers list due threads in its order.
    """
    tenant = tenant_of(thread)
    if tenant is None and labels.title is None and not labels.tags:
        return None
    title = labels.title
    return LabelRow(tenant, title, None if title is None else title.casefold(), dump_tags(labels.tags))


def dump_tags(tags: Iterable[str]) -> str | None:
    """Return *tags* as the text of a column; None without tags."""
    listed = sorted(tags)
    return json.dumps(listed, ensure_ascii=False) if listed else None


def load_tags(text: str | None) -> frozenset[str]:
    """Return the tags that `dump_tags` wrote.

    Raises:
        ValueError: *text* is something else.
    """
    if text is None:
        return frozenset()
    tags: Any = json.loads(text)
    if tags.__class__ is not list or not all(tag.__class__ is str for tag in tags):
        raise ValueError("not a list of tags")
    return frozenset(tags)


class Position(NamedTuple):
    """The position of a question in the inbox, encoded in a token for callers.

    Questions with the same time are in the order in which their threads were created. A token does not contain the
    number of a thread in that order, which would reveal to a tenant how many threads others have created.
    """

    asked_at: float
    thread: str
    """Id of the thread; empty before all questions. If it was deleted since, the page begins with the first question
    of the same moment."""
    place: str
    """Id of the question inside the thread, `task#key`."""


def to_token(position: Position) -> str:
    """Return *position* as a text for callers, who pass it back unchanged."""
    return urlsafe_b64encode(json.dumps(position).encode()).decode().rstrip("=")


def from_token(token: Any) -> Position:
    """Return the position that `to_token` wrote.

    Raises:
        InputError: *token* is something else (`input`).
    """
    if isinstance(token, str) and len(token) <= _LONGEST and token.isascii():
        try:
            # `to_token` removes the padding, which would need escaping in a URL.
            fields: Any = json.loads(urlsafe_b64decode(token + "=" * (-len(token) % 4)))
            asked_at, thread, place = fields
        except (ValueError, TypeError, RecursionError):
            pass
        else:
            # A forged token must not reach SQL with a number or text that a database would refuse.
            fits = is_number(asked_at) and isfinite(asked_at) and is_id(thread)
            if fits and isinstance(place, str) and "\0" not in place:
                # A lone surrogate, which a database would also refuse, becomes a question mark.
                return Position(float(asked_at), thread, place.encode("utf-8", "replace").decode())
    raise wrong_token(token)


def thread_of(token: Any) -> str | None:
    """Return the thread that *token* names; None if it is not one of graphrt's stores."""
    try:
        return from_token(token).thread
    except InputError:  # a user's store may have its own tokens
        return None


def wrong_token(token: Any) -> InputError:
    """Return the error for a *token* that is invalid, or belongs to another tenant."""
    return INVALID_ARGUMENT(
        argument="after=",
        value=token if isinstance(token, str) else type(token),
        wanted="the `token` of the last item of the page before, as it is",
    )
