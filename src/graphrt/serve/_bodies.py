"""The content of requests: models that validate and describe JSON bodies and query parameters."""

from __future__ import annotations

import json
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import from_json

from graphrt.runtime import IfExists, InterruptKind
from graphrt.stores import Status

POSITION: Final = r"[0-9]{1,15}(\.[0-9]{1,15}(-[0-9]{1,15})?\.[^\r\n]{1,200})?"
"""The id of an event: the number of an entry, or the position of a live item."""


def json_of(raw: bytes) -> Any:
    """Return the JSON value of a body.

    Raises:
        ValueError: It is not JSON, which has no NaN and no infinity, or an object has a key twice.
    """
    value: Any = from_json(raw, allow_inf_nan=False)
    json.loads(raw, object_pairs_hook=refuse_doubles)  # pydantic_core takes the last one
    return value


def refuse_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of an object, for `json.loads`.

    Raises:
        ValueError: Two have the same key, so it is not clear which one counts.
    """
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("an object has a key twice")
    return members


class Part(BaseModel):
    """A body or a query; unknown fields are rejected."""

    model_config = ConfigDict(extra="forbid")


class Body(Part):
    """A body. JSON has numbers and booleans of its own, so no text or other number is taken for one."""

    model_config = ConfigDict(strict=True)


class NewThread(Body):
    """Start a run on a new thread."""

    input: Any = Field(default_factory=dict)
    thread: str | None = Field(None, description="Id of the thread; one is made if it is left out.")
    if_exists: IfExists = Field("update", description="What becomes of the input if the thread exists.")
    title: str | None = None
    tags: list[str] = []
    priority: int = 0


class NewRun(Body):
    """Give a thread an input: the next run begins with it."""

    input: Any = Field(default_factory=dict)
    if_exists: IfExists = "update"
    while_running: Literal["refuse", "queue", "abandon"] = Field(
        "refuse", description="What becomes of the input while a run of the thread is in progress."
    )
    title: str | None = None
    tags: list[str] = []
    priority: int = 0


class Answers(Body):
    """Answer the open questions of a thread: all by id, or the only one."""

    answers: dict[str, Any] = Field({}, description="Answers by the ids of the questions.")
    answer: Any = Field(None, description="The answer to the only open question.")


class Labels(Body):
    """Change the labels of a thread. Omitted fields stay."""

    title: str | None = None
    add_tags: list[str] = []
    remove_tags: list[str] = []
    priority: int = 0


class Edit(Body):
    """Fold values into the state."""

    values: Any = None
    as_node: str | None = Field(None, description="Continue as if this node had returned the values.")
    goto: str | list[str] | None = Field(
        None, description='Where *as_node* leads instead of its edges; "__end__" ends.'
    )


class NewFork(Body):
    """Create a thread from the state of another one."""

    at: int | None = Field(None, description="Number of the entry; the present state if it is left out.")
    to: str | None = Field(None, description="Id of the new thread; one is made if it is left out.")
    keep_effects: bool = False


class NewSignal(Body):
    """Send a signal to a thread."""

    name: str
    value: Any = None
    id: str | None = Field(
        None, description="A second signal with the same id is not kept; one that differs is refused."
    )


class NewSchedule(Body):
    """Start a thread at each time that a cron expression names."""

    cron: str
    input: Any = Field(default_factory=dict)
    timezone: str = "UTC"
    missed: Literal["once", "all", "skip"] = "once"
    title: str | None = None
    tags: list[str] = []
    replace: bool = False


class Nothing(Part):
    """A query without parameters, or no body."""


class Shown(Part):
    """Query of a request that shows a state."""

    stored: bool = Field(False, description="Whether to add the state in its stored form, as `Client` reads it.")


class Waiting(Shown):
    """How long to wait for the end of the run."""

    wait_s: float = Field(0.0, ge=0, description="Seconds to wait for the end of the run; the server bounds them.")


class At(Shown):
    """Which state."""

    at: int | None = Field(None, ge=1, description="As it was after this entry.")


class Past(Shown):
    """A page of past states."""

    limit: int = Field(20, ge=1, le=200)
    before: int | None = Field(None, ge=1, description="Only states of entries before this one.")


class Turns(Part):
    """A page of a chat."""

    limit: int = Field(50, ge=1, le=200, description="Turns: an input, and the answer to it.")
    before: int | None = Field(None, ge=1, description="Only turns before the page that had this `before`.")


class After(Part):
    """A page of entries or steps."""

    after: int = Field(0, ge=0, description="Only what comes after the entry with this number.")
    limit: int = Field(100, ge=1, le=1_000)


class Following(Part):
    """The position to begin a stream at; the header `Last-Event-ID` takes precedence."""

    after: str = Field(
        "0",
        pattern=f"^{POSITION}$",
        description="Where to continue: the number of an entry, or the position of a live item.",
    )
    live: bool | None = Field(
        None, description="Whether tokens and progress come between entries; yes if the store can."
    )


class Listed(Part):
    """Which threads."""

    status: Status | None = None
    prefix: str | None = None
    tag: list[str] = Field([], description="Only threads that have all these tags.")
    title: str | None = Field(None, description="Only threads whose title contains this text.")
    updated_after: float | None = None
    updated_before: float | None = None
    after: str | None = Field(None, description="The last thread of the page before.")
    newest_first: bool = False
    limit: int = Field(100, ge=1, le=1_000)


class Asked(Part):
    """Which questions."""

    kind: InterruptKind | None = None
    tag: list[str] = []
    node: str | None = None
    after: str | None = Field(None, description="The `token` of the last question of the page before.")
    limit: int = Field(100, ge=1, le=1_000)
