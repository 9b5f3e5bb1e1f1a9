"""Secrets of unfinished threads. A runtime keeps them in memory, since no store has them.

A store records only the presence of a `Secret`, so a loaded thread has fields with unknown secrets. A runtime that saw
their values restores them when it drives the thread again, if the rest of the field is unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

from graphrt._codec import NotStorable
from graphrt._engine.edit import put_back
from graphrt._engine.engine import Engine
from graphrt._plan.fields import own


@final
class KnownSecrets:
    """The secrets of the threads of one runtime, by thread and field."""

    __slots__ = ("_threads",)

    def __init__(self) -> None:
        self._threads: dict[str, dict[str, Any]] = {}

    def remember(self, engine: Engine, fields: Iterable[str] | None = None) -> None:
        """Keep the values of *fields* that hold secrets; None means all fields. Called when a run or an edit ends."""
        thread, codec = engine.thread, engine.codec
        # Without a thread there is no later run. `codec` is None if nothing is stored. `met_secrets` says whether a
        # secret was encoded. It is false in nearly every graph and free to check.
        if thread is None or codec is None or not codec.met_secrets:
            return
        for name in engine.values if fields is None else fields:
            value = engine.values.get(name)
            if name in engine.plan.state.untracked:  # it is reset to its default on resume, with or without secrets
                continue
            try:
                # `known` is false for a secret that was loaded from a store: this process does not have its value.
                known = any(secret.known for secret in codec.secrets_in(value))
            except NotStorable:  # it cannot be searched for secrets
                continue
            if known:
                # Copy the value, so that no node can change it, and the dict, since a queued task may be reading it.
                self._threads[thread] = {**self._threads.get(thread, {}), name: own(value)}

    def give_back(self, engine: Engine) -> None:
        """Put known secrets into the values of a loaded thread, in fields whose stored form is unchanged.

        Called after a thread is loaded for a run or for a queued task.

        The stored form contains no secrets, so it shows whether anything else in the field has changed.
        """
        secrets = self._threads.get(engine.thread or "")
        if not secrets:
            return
        codec, values = engine.plan.codec, engine.values
        unchanged = {
            name: own(value)
            for name, value in secrets.items()
            if name in values and codec.dump(values[name], name) == codec.dump(value, name)
        }
        if unchanged:
            put_back(engine, unchanged)

    def forget(self, thread: str) -> None:
        """Drop the secrets of *thread*, whose run has completed."""
        self._threads.pop(thread, None)
