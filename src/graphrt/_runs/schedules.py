"""Schedules (R23): start one thread automatically at each time of a cron expression.

A store keeps a schedule as a row (`StoredSchedule`): its name, its graph, a version, the next due time, and a body with
its definition, which is encoded here. Each new definition gets a new version.

The id of such a thread consists of the schedule's name and the due time. The thread is started only if it does not
exist. Then the schedule is *moved*: its due time is set to the next one, provided that version and due time are still
those that were read. If a process dies in between, the schedule is not moved. The next process finds the thread and
moves the schedule. So any number of workers start each thread exactly once, even if their clocks differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias, final, get_args
from uuid import uuid4

from graphrt._codec import NotStorable
from graphrt._drivers.child_threads import Tags
from graphrt._engine.engine import Engine
from graphrt._engine.storability import tracked
from graphrt._plan.state import EXTRA
from graphrt._runs import detached, open_run
from graphrt._runs.cron import Cron
from graphrt._runs.if_exists import given_fields
from graphrt._runs.labels import new_labels
from graphrt._runs.loading import exists, the_store
from graphrt._runs.run_config import RunConfig
from graphrt.errors import GraphrtError
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.schedules import SCHEDULE_EXISTS, SCHEDULE_HAS_CHANGED, UNKNOWN_SCHEDULE
from graphrt.stores.filters import ScheduleFilter
from graphrt.stores.ids import BETWEEN, check_id
from graphrt.stores.protocol import Store
from graphrt.stores.values import StoredSchedule

Missed: TypeAlias = Literal["once", "all", "skip"]
"""How to handle missed times; see `Schedules.add`."""
PUNCTUAL_S: Final = 60.0
"""Seconds after which a due time counts as missed if no worker has handled it."""
_MOST_AT_ONCE: Final = 100
"""Maximum number of threads of one schedule started per poll. The next poll starts the others."""
_AHEAD_S: Final = 3_600.0
"""Seconds by which the clocks of two machines may differ without one undoing the other's move of a schedule."""
_LONGEST: Final = 150
"""Maximum length of a name in characters, because a thread id also contains the due time."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A schedule of a store."""

    name: str
    graph: str
    """Name of the graph that its threads run."""
    cron: str
    timezone: str
    input: Any
    """The checked input of each thread, by field."""
    missed: Missed
    title: str | None
    tags: tuple[str, ...]
    """All tags, sorted."""
    due_at: float
    """Next due time, in seconds since the epoch."""


@final
class Schedules:
    """The schedules of a runtime's store for its graph: `runtime.schedules`.

    Workers start due threads. Each method has an async twin with an `a` before its name.
    """

    __slots__ = ("_config", "_unhurried")

    def __init__(self, config: RunConfig, unhurried: Callable[[Callable[[], Any]], Any]) -> None:
        self._config = config
        self._unhurried = unhurried
        """Makes a call that may block, and returns an awaitable of its result; for the async twins."""

    def add(
        self,
        name: str,
        cron: str,
        input: Any,
        *,
        timezone: str = "UTC",
        missed: Missed = "once",
        title: str | None = None,
        tags: Tags = (),
        replace: bool = False,
    ) -> Schedule:
        """Start a thread of the graph with *input* at each time that *cron* names.

        The thread has the id `name@2027-01-31T08:00:00Z`, with the due time in UTC. If a schedule with this name and
        the same definition exists, nothing changes, so a program may call this at every start. The exception is a
        schedule that a machine with a fast clock moved too far: it becomes due at its next time again.

        Args:
            name: Unique in the store, of the form of a thread's id, at most 150 characters.
            cron: Minute, hour, day of month, month, day of week: `0 9 * * MON-FRI`.
            input: The input of each thread, checked now.
            timezone: Name of the time zone of *cron*. When clocks change, a fixed time is still due once: a repeated
                time on its first occurrence, and a skipped time right after the gap.
            missed: What to do about times that no worker handled within a minute, because none was running: "once"
                starts one thread for the last of them, "all" starts one for each, and "skip" starts none.
            title: Title under which its threads are listed.
            tags: Tags to find its threads by.
            replace: Put this definition in place of another definition of this name.

        Returns:
            The schedule as it is stored.

        Raises:
            InputError: There is another definition (`schedule-exists`), an argument is wrong (`bad-cron`,
                `bad-timezone`, `input`, `bad-thread`), the input does not fit, or the store keeps no schedules.
            MissingExtraError: cronsim is not installed: the extra is `graphrt[schedule]`.
        """
        config, store = self._config, self._store()
        if missed not in get_args(Missed):
            raise INVALID_ARGUMENT(argument="missed=", value=missed, wanted='"once", "all" or "skip"')
        if len(check_id(name)) > _LONGEST or BETWEEN in name:
            raise INVALID_ARGUMENT(
                argument="name=", value=name, wanted=f"at most {_LONGEST} characters, without {BETWEEN!r}"
            )
        times = Cron(cron, timezone)
        labels = new_labels(title, tags)
        # Sorted, as equal definitions must have equal bytes.
        title_and_tags = ("", ()) if labels is None else (labels.title or "", sorted(labels.tags))
        body = _written(
            config,
            {
                "cron": cron,
                "timezone": timezone,
                "missed": missed,
                "title": title_and_tags[0],
                "tags": [*title_and_tags[1]],
            },
            input,
        )
        existing = _stored(store, name)
        if existing is not None and (existing.graph, existing.body) == (config.plan.name, body):
            return _read(config, self._in_time(store, existing, times))
        if existing is not None and not replace:
            raise _exists(config, existing, body)
        due_at = times.first_after(config.clock())
        row = StoredSchedule(name, config.plan.name, uuid4().hex, due_at, body)
        if not store.put_schedule(row, replaces=None if existing is None else existing.version):
            # Another process stored a schedule with this name between the check and the call.
            current = _stored(store, name)  # None: it was deleted since
            # The same definition is not a conflict: it comes from this call, if an earlier attempt was stored, or from
            # another process that started at the same time.
            if current is None or (current.graph, current.body) != (row.graph, body):
                raise SCHEDULE_HAS_CHANGED(name=name)
            row = current
        return _read(config, row)

    def _in_time(self, store: Store, row: StoredSchedule, times: Cron) -> StoredSchedule:
        """Return the schedule, reset to its next time if a fast clock has moved it beyond that.

        If another process moves it at the same time, it is returned as it was read. Threads already started are not
        started again, since their ids contain their times.
        """
        due_at = times.first_after(self._config.clock())
        if row.due_at - due_at <= _AHEAD_S or not store.move_schedule(
            row.name, row.version, due_at=row.due_at, to=due_at
        ):
            return row
        return row._replace(due_at=due_at)

    def list(self) -> tuple[Schedule, ...]:
        """Return the schedules of the graph, in the order of their names."""
        return tuple(
            _read(self._config, row) for row in self._store().query(ScheduleFilter(graph=self._config.plan.name))
        )

    def remove(self, name: str) -> None:
        """Delete a schedule. Threads that it started continue.

        Raises:
            InputError: There is no schedule of this name (`unknown-schedule`).
        """
        store = self._store()
        if not store.delete_schedule(check_id(name)):
            raise UNKNOWN_SCHEDULE(name=name, names=[row.name for row in store.query(ScheduleFilter())])

    def start_due(self) -> tuple[str, ...]:
        """Start the threads of all schedules of the graph that are due by the runtime's clock, and return their ids.

        Workers call this; a program without workers can call it too. Threads that another process started first are not
        returned.

        Raises:
            GraphrtError: A thread could not be started. The other schedules were still processed.
        """
        store, now = self._store(), self._config.clock()
        started: list[str] = []
        failure: GraphrtError | None = None  # the first one, raised after all schedules were processed
        for row in store.query(ScheduleFilter(graph=self._config.plan.name, due_by=now)):
            try:
                started += _start(self._config, store, row, now)
            except GraphrtError as error:
                error.add_note(f"Schedule {row.name!r} stays due until its thread can be started, or it is removed.")
                failure = failure or error
        if failure is not None:
            raise failure
        return tuple(started)

    async def aadd(
        self,
        name: str,
        cron: str,
        input: Any,
        *,
        timezone: str = "UTC",
        missed: Missed = "once",
        title: str | None = None,
        tags: Tags = (),
        replace: bool = False,
    ) -> Schedule:
        """Start a thread at each time that *cron* names; see `add`."""
        schedule: Schedule = await self._unhurried(
            lambda: self.add(
                name, cron, input, timezone=timezone, missed=missed, title=title, tags=tags, replace=replace
            )
        )
        return schedule

    async def alist(self) -> tuple[Schedule, ...]:
        """Return the schedules of the graph; see `list`."""
        schedules: tuple[Schedule, ...] = await self._unhurried(self.list)
        return schedules

    async def aremove(self, name: str) -> None:
        """Delete a schedule; see `remove`."""
        await self._unhurried(lambda: self.remove(name))

    async def astart_due(self) -> tuple[str, ...]:
        """Start due threads; see `start_due`."""
        started: tuple[str, ...] = await self._unhurried(self.start_due)
        return started

    def _store(self) -> Store:
        """Return the store of the runtime; raise an InputError if there is none or it does not support schedules."""
        store = the_store(self._config)
        store.require("schedules")
        return store

    def __repr__(self) -> str:
        return f"<Schedules of graph {self._config.plan.name!r}>"


def thread_of(name: str, due_at: float) -> str:
    """Return the id of the thread that a schedule starts at *due_at*."""
    return f"{name}@{datetime.fromtimestamp(due_at, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _stored(store: Store, name: str) -> StoredSchedule | None:
    """Return the schedule of this name, of any graph; None if there is none."""
    return next((row for row in store.query(ScheduleFilter(prefix=name)) if row.name == name), None)


def _start(config: RunConfig, store: Store, row: StoredSchedule, now: float) -> list[str]:
    """Start the due threads of a schedule, move it, and return the ids of the newly started threads."""
    schedule = _read(config, row)
    cron = Cron(schedule.cron, schedule.timezone)
    if schedule.missed == "all":
        # The schedule is moved past the last time started now. If the new time is also past, the next poll continues.
        times = [row.due_at]
        while len(times) < _MOST_AT_ONCE and (time_s := cron.after(times[-1])) <= now:
            times.append(time_s)
        following = cron.after(times[-1])
    else:
        # The latest time up to now. The stored time need not match the expression, since the time zone's rules may have
        # changed.
        last = max(row.due_at, cron.last_until(now))
        times = [last] if schedule.missed == "once" or now - last <= PUNCTUAL_S else []
        following = cron.after(now)
    started = [thread for time_s in times if (thread := _started(config, schedule, time_s)) is not None]
    # Changes nothing if another process has moved or replaced the schedule meanwhile. This must come last: after a
    # crash before this line, the next poll finds the threads and moves the schedule.
    store.move_schedule(row.name, row.version, due_at=row.due_at, to=following)
    return started


def _started(config: RunConfig, schedule: Schedule, due_at: float) -> str | None:
    """Start one thread and return its id; None if it exists already."""
    thread = thread_of(schedule.name, due_at)
    if exists(the_store(config), thread):
        return None
    labels = new_labels(schedule.title, schedule.tags)
    return detached.start_new(config, schedule.input, thread, labels)  # None if another process was faster


def _written(config: RunConfig, definition: dict[str, Any], input_: Any) -> bytes:
    """Return the definition of a schedule as bytes, with the input checked and redacted as in `start`.

    Args:
        definition: The rest of the definition: cron, timezone, missed, title and tags.
        input_: The input, unchecked: a mapping of fields or an instance of the state class.

    Raises:
        InputError: The input does not fit, or cannot be stored.
    """
    plan = config.plan
    schema = plan.spec.input_schema
    # Checked, with the defaults of other fields.
    values = plan.state.initial(input_, where=plan.place(), given_as=schema)
    if schema is not None and not plan.state.is_instance(input_):  # each thread is given what this schema takes
        values |= schema.initial(input_, where=plan.place())
    engine = Engine(plan, config.limits)
    values = open_run.entered(config, engine, values)  # redacts, if the runtime has redaction rules
    # Leave out defaults: each thread gets fresh ones, and a factory returns a different value at every call of `add`. A
    # pydantic model knows which of its fields were set; for other objects all fields count.
    set_fields = given_fields(plan, input_)
    # `tracked` leaves out the fields that are never stored.
    stored = {name: value for name, value in tracked(engine, values).items() if name in set_fields}
    stored |= stored.pop(EXTRA, {})
    if schema is not None:
        stored = {
            name: value for name, value in stored.items() if name in schema.fields or name not in plan.state.fields
        }
    try:
        return plan.codec.dump(definition | {"input": stored})
    except NotStorable as error:
        raise open_run.not_storable(engine, error, "The input of the schedule holds a value") from error


def _read(config: RunConfig, row: StoredSchedule) -> Schedule:
    """Return the schedule of a row whose body was written by `_written`."""
    definition: Any = config.plan.codec.load(row.body)
    return Schedule(
        name=row.name,
        graph=row.graph,
        cron=definition["cron"],
        timezone=definition["timezone"],
        input=definition["input"],
        missed=definition["missed"],
        title=definition["title"] or None,
        tags=tuple(definition["tags"]),
        due_at=row.due_at,
    )


def _exists(config: RunConfig, stored: StoredSchedule, body: bytes) -> GraphrtError:
    """Return the error for a definition (*body*) other than that of the *stored* schedule."""
    if stored.graph != config.plan.name:  # its input may contain classes that are unknown here
        # "?" stands for values that were not read.
        return SCHEDULE_EXISTS(name=stored.name, differs=["graph"], graph=stored.graph, cron="?", timezone="?")
    old_schedule = _read(config, stored)
    new_schedule = _read(config, stored._replace(body=body))
    # If no field differs, only the stored forms of the inputs differ.
    differs = [
        field.name
        for field in fields(Schedule)
        if getattr(old_schedule, field.name) != getattr(new_schedule, field.name)
    ]
    return SCHEDULE_EXISTS(
        name=stored.name,
        differs=differs or ["input"],
        graph=old_schedule.graph,
        cron=old_schedule.cron,
        timezone=old_schedule.timezone,
    )
