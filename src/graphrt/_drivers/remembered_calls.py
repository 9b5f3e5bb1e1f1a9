"""Matching of a task's repeated calls to recorded ones: by name and the digest of the arguments (rule R10).

A node that paused, failed or crashed runs again from its start, and calls `ctx.effect` and `ctx.start` again. The
record of a call is found by its name and arguments. The order of the calls of one name (their *ordinals*) is only a
hint, because `asyncio.gather` and thread pools change it. The first match of this list is used:

1. the record with the same ordinal, if its arguments are the same;
2. another record of the name with these arguments, which no other call of this execution has taken;
3. if the record with the same ordinal has other arguments: the call *differs* from it, and a person is asked;
4. nothing: the call is new, and gets the next free ordinal.

Calls without arguments are indistinguishable, and different functions may be behind them. So rule 2 does not apply to
them, nor to calls with an omitted argument, unless the record with their ordinal belongs to another call.

Arguments are stored with the record, on a line that can be erased: small plain ones as they are, others as a digest and
a readable text. Arguments are omitted if they cannot be stored, or if they contain values that are never written:
values of untracked fields, revealed secrets of the state, and texts of `deps`. An omitted argument matches any value.
With `redact=`, arguments are redacted first. Ids of the run are replaced by names, because a fork has different ids.
For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, final

from pydantic_core import PydanticSerializationError, from_json, to_json

from graphrt._codec import NotStorable
from graphrt._engine.redacting import redacted_value
from graphrt._plan.quoting import short
from graphrt.commands import ERASED

if TYPE_CHECKING:
    from graphrt._codec import Codec
    from graphrt._engine.task import Task

Arguments: TypeAlias = Any
"""Arguments of a call in events: None for a call without arguments, ERASED if they were erased, else the text of a JSON
array. The array has one item per argument: a plain value, `{"digest": ..., "shown": ...}`, or `{"left_out": type}`. It
is stored as text, because walking an array took three times as long."""
_SHOWN_BYTES: Final = 500
"""Size of the stored form up to which an argument is stored in full."""
_SHOWN_CHARS: Final = 200
"""Number of characters that are shown of a larger argument."""
_SHORTEST: Final = 4
"""Minimum length of a secret text that is searched for in arguments. Shorter ones would occur in too many."""
_SHORTEST_PART: Final = 8
"""Minimum length of a secret text that is also searched for inside longer texts."""
_SMALL: Final = 2**63
"""Integers of a smaller magnitude are written as JSON numbers."""
_LEFT_OUT: Final = '{"left_out":'


class Call(NamedTuple):
    """One call of a node, as the task records it."""

    key: str
    """Identifies the call within the task."""
    arguments: Arguments = None
    """Its arguments."""
    differs: str | None = None
    """Key of the record with the position of this call but different arguments; None if there is none."""
    is_tool: bool = False
    """Whether a model requested the call. Its result then has a form that graphrt defines; see `redacted_form`."""


class _Calls:
    """The calls of one name in one execution, and the task's earlier records of that name."""

    __slots__ = ("logged", "next", "recorded", "taken")

    def __init__(self, recorded: Mapping[str, Arguments], logged: Mapping[str, Arguments]) -> None:
        self.logged = logged.keys() - recorded.keys()
        """Keys that only the log of the first execution has, if the run is executed again from a log."""
        self.next: Final = count().__next__
        """Returns the ordinal of the next call, from 0. Thread-safe."""
        self.recorded = {**logged, **recorded}
        """Arguments by key."""
        self.taken: set[str] = set()
        """Keys used by calls of this execution; tracked only if something was recorded."""

    def take(self, prefix: str, ordinal: int, arguments: Arguments) -> Call:
        """Return a call of the name, with the key of its record; see the module docstring."""
        key = f"{prefix}{ordinal}"
        known, taken = self.recorded, self.taken
        differs: str | None = None
        if key in known and key not in taken:
            if _alike(known[key], arguments):
                taken.add(key)
                return Call(key, arguments)
            differs = key
            # A person is asked as in the first execution, whose log contains the consequences.
            if key not in self.logged:
                known = {key: value for key, value in known.items() if key not in self.logged}
        if differs is not None or key in taken or (arguments is not None and _LEFT_OUT not in arguments):
            for candidate, stored in known.items():
                if candidate not in taken and stored is not ERASED and _alike(stored, arguments):
                    taken.add(candidate)
                    return Call(candidate, arguments)
        while key in known or key in taken:
            ordinal += 1
            key = f"{prefix}{ordinal}"
        taken.add(key)
        return Call(key, arguments, differs)


@final
class RememberedCalls:
    """Matches the calls of one execution of a task to their records.

    Args:
        task: The task.
        deps: The run's `deps`.
        home: The asyncio task or the id of the thread that runs the node; None if it is not known.
        key: The idempotency key of the task.
        thread: Id of the thread; None without one.
    """

    __slots__ = ("_calls", "_deps", "_hidden", "_home", "_ids", "_lock", "_task")

    def __init__(self, task: Task, deps: Any, home: object, key: str, thread: str | None) -> None:
        self._task = task
        self._deps = deps
        self._ids = [(to_json(key)[1:-1], b"<idempotency key>")]
        """Encoded ids and their replacements. The idempotency key may be a part of a text."""
        if thread is not None:
            self._ids.append((to_json(thread), b'"<thread>"'))
        self._home = home
        self._calls: dict[str, _Calls] = {}
        self._hidden: list[bytes] | None = None
        """Parts of encoded values that must not be written to entries; None until first use."""
        self._lock = Lock()
        """Held while a call gets its key, because threads of a sync node may make calls at the same time."""

    def find(
        self,
        prefix: str,
        args: tuple[Any, ...],
        recorded: Callable[[str], tuple[Mapping[str, Arguments], Mapping[str, Arguments]]],
        codec: Codec | None = None,
    ) -> Call:
        """Return the call with the key under which the task records it: the key of an earlier record, or a new one.

        Args:
            prefix: Prefix of the keys of this name; the ordinal follows.
            args: Arguments of the call.
            recorded: Called at the first call of the name, with *prefix*. Returns two mappings of arguments by key: the
                task's records of this name from before the execution, and those in the log.
            codec: Encodes the arguments; None for the codec of the task's graph.

        Raises:
            AuditError: An argument could not be redacted.
        """
        arguments = self._arguments(args, codec) if args else None
        calls = self._calls.get(prefix)
        if calls is None:
            with self._lock:
                calls = self._calls.get(prefix)
                if calls is None:
                    calls = self._calls[prefix] = _Calls(*recorded(prefix))
        ordinal = calls.next()
        if not calls.recorded:  # the common case: nothing is repeated
            return Call(f"{prefix}{ordinal}", arguments)
        with self._lock:
            return calls.take(prefix, ordinal, arguments)

    def in_order(self) -> bool:
        """Return whether the node itself makes this call, and not an asyncio task or thread that it started.

        Only then is the order of its calls meaningful.
        """
        home = self._home
        if home is None or home.__class__ is int:
            return home in (None, get_ident())
        import asyncio

        try:
            return asyncio.current_task() is home
        except RuntimeError:  # this thread has no running loop
            return False

    def _arguments(self, args: tuple[Any, ...], codec: Codec | None) -> Arguments:
        """Return *args* in the form that events contain.

        Raises:
            AuditError: One of them could not be redacted.
        """
        engine = self._task.engine
        hidden = self._hidden
        if hidden is None:
            hidden = self._hidden = list(self._never_written())
        if engine.redactor is None and not hidden and all(map(_is_plain, args)):
            try:
                line = to_json(args)
            except PydanticSerializationError:  # a text with a lone surrogate is handled below
                line = b""
            if 0 < len(line) <= _SHOWN_BYTES:
                return self._named(line).decode()
        if codec is None:
            codec = engine.plan.codec
        items: list[bytes] = []
        for argument in args:
            if engine.redactor is not None:
                argument = redacted_value(engine, argument, "an argument of an effect")
            try:
                line = codec.dump(argument)
            except NotStorable:
                line = b""
            if not line or any(text in line for text in hidden):
                items.append(to_json({"left_out": type(argument).__name__}))
                continue
            line = self._named(line)
            # A `$t` marks a value that JSON cannot represent.
            if len(line) > _SHOWN_BYTES or b'"$t"' in line:
                line = to_json({"digest": _hash(line), "shown": short(argument, _SHOWN_CHARS)}, fallback=repr)
            items.append(line)
        return f"[{b','.join(items).decode()}]"

    def _named(self, line: bytes) -> bytes:
        """Return an encoded argument with the run's ids replaced by names."""
        for id_, name in self._ids:
            if id_ in line:
                line = line.replace(id_, name)
        return line

    def _never_written(self) -> Iterator[bytes]:
        """Yield parts of encoded values that must not be written to entries, as they appear in encoded arguments."""
        engine = self._task.engine
        codec = engine.plan.codec
        for name in engine.plan.state.untracked:
            yield from map(_part, _texts(codec, engine.values.get(name)))
        if codec.met_secrets:
            for value in engine.values.values():
                yield from map(_part, _secrets(codec, value))
        if self._deps is None:
            return
        from graphrt._secret import Secret  # also loads the errors about secrets

        # Only the texts directly in `deps`, not those in its lists and objects, which may be large. Short texts, such
        # as the name of a region, are hardly secrets, and would match harmless arguments.
        for value in _held(self._deps):
            texts = _secrets(codec, value) if isinstance(value, Secret) else [value] if isinstance(value, str) else []
            yield from (_part(text) for text in texts if len(text) >= _SHORTEST_PART)


def _held(deps: Any) -> list[Any]:
    """Return *deps* and the values of its keys or attributes."""
    attributes: Any = deps if issubclass(type(deps), dict) else getattr(deps, "__dict__", {})
    slots: Any = getattr(deps, "__slots__", ())
    names: Any = (slots,) if isinstance(slots, str) else slots
    return [deps, *attributes.values(), *(getattr(deps, name, None) for name in names)]


def _part(text: str) -> bytes:
    """Return *text* as it appears in an encoded argument: with quotes if it is short, else without."""
    encoded = to_json(text.encode("utf-8", "replace").decode())
    return encoded if len(text) < _SHORTEST_PART else encoded[1:-1]


def _texts(codec: Codec, value: Any) -> Iterator[str]:
    """Yield each longer text in *value*; nothing for a value that cannot be stored."""
    try:
        waiting: list[Any] = [from_json(codec.dump(value))]
    except NotStorable:
        return
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            if len(item) >= _SHORTEST:
                yield item
        elif isinstance(item, list):
            waiting.extend(item)  # pyright: ignore[reportUnknownArgumentType]  # JSON
        elif isinstance(item, dict):
            tagless: dict[str, Any] = {**item, "$t": None}  # the tag is not the user's
            waiting.extend(tagless.values())


def _secrets(codec: Codec, value: Any) -> Iterator[str]:
    """Yield the longer revealed texts of the Secrets in *value*."""
    try:
        secrets = codec.secrets_in(value)
    except NotStorable:
        return
    for secret in secrets:
        if secret.known:
            yield from _texts(codec, secret.reveal())


def _is_plain(argument: Any) -> bool:
    """Return whether *argument* can be written directly as JSON."""
    kind: Any = argument.__class__
    if kind is str:
        return True
    return argument is None or kind is bool or (kind is int and -_SMALL < argument < _SMALL)


def _hash(data: bytes) -> str:
    """Return 32 hex digits of the BLAKE2b of *data*."""
    global _blake2b  # noqa: PLW0603 - a slow import, made once: it loads OpenSSL
    if _blake2b is None:
        from hashlib import blake2b

        _blake2b = blake2b
    digits: str = _blake2b(data, digest_size=16).hexdigest()
    return digits


_blake2b: Any = None
"""The function `hashlib.blake2b`; None before the first use."""


def shown(arguments: Arguments) -> list[Any]:
    """Return *arguments* in the form that a question shows."""
    return [] if arguments is None else [_for_people(item) for item in from_json(arguments)]


def _for_people(item: Any) -> Any:
    """Return one stored argument in the form that a question shows."""
    match item:
        case {"left_out": kind}:
            return f"<{kind}: not stored>"
        case {"digest": digest, "shown": text}:  # with a digest, because two large arguments may begin alike
            return f"{text} <{digest[:16]}>"
        case _:
            return item


def _alike(recorded: Arguments, present: Arguments) -> bool:
    """Return whether the known arguments are equal. Erased and omitted ones match anything."""
    if recorded == present or recorded is ERASED:
        return True
    if recorded is None or present is None or not (_LEFT_OUT in recorded or _LEFT_OUT in present):
        return False
    old, new = from_json(recorded), from_json(present)
    return len(old) == len(new) and all(
        left == right or _is_left_out(left) or _is_left_out(right) for left, right in zip(old, new, strict=True)
    )


def _is_left_out(item: Any) -> bool:
    """Return whether *item* represents an argument that is not stored."""
    return isinstance(item, dict) and "left_out" in item
