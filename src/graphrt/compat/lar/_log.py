"""`AuditLogger` and `TokenTracker`: what remains of a run, each a reading of its steps or of its journal.

A log keeps the state at the beginning and then what each step changed. States before and after a step are folded from
that when they are asked for, so neither memory nor file holds a state for each step.
"""

from __future__ import annotations

import datetime as dt
import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any, Final, final

from pydantic_core import to_json

from graphrt import harness
from graphrt.audit import AuditLog
from graphrt.audit._log import weakly_keyed
from graphrt.audit.offline import weakness
from graphrt.compat.lar._state import apply_diff, copied
from graphrt.events import Entry

STATES: Final = ("state_before", "state_after")
"""Keys of a record that follow from the others."""


class NotSignedWarning(UserWarning):
    """A secret for signing was given, and there is no folder for a log that could be signed."""


class WeakSecretWarning(UserWarning):
    """A secret for signing can be guessed: the log is authenticated with it, and that proves little."""


@final
class AuditLogger:
    """The log of the runs of an executor: a history in memory and, with *log_dir*, a file for each run.

    A file is `run_<id>.jsonl`: the run with its initial state, a line for each step as it ends, and the end. A line is
    written at once, so a process that is killed leaves all lines before.

    With a secret too, the journal of each run is an audit log in the same folder, `<id>.jsonl`: every record has a MAC,
    `graphrt.audit.verify` checks it, and `restore`, `reexecute` and `report` read it. Values of the state must be
    storable then.

    Args:
        log_dir: The folder for files, which is made if it is missing. None writes no file.
        hmac_secret: The key of the audit logs. One that can be guessed is a WeakSecretWarning, and `verify` says
            `weak-key`. Without *log_dir* there is nothing to authenticate: a NotSignedWarning.
        clock: Returns seconds since the epoch; by default the system clock.
    """

    def __init__(
        self,
        log_dir: str | Path | None = None,
        hmac_secret: str | None = None,
        *,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.log_dir: Final = None if log_dir is None else Path(log_dir)
        self._clock = clock
        self._lock = Lock()
        self._newest: RunLog | None = None
        self.audit: AuditLog | None = None
        """The audit logs of the runs; None without a secret."""
        if hmac_secret is not None:
            self.sign_with(hmac_secret)

    def sign_with(self, hmac_secret: str) -> None:
        """Authenticate the journals of later runs with *hmac_secret*; see above.

        Raises:
            InputError: The secret is empty (`weak-key`).
        """
        if self.log_dir is None:
            warnings.warn(
                "hmac_secret was given without log_dir=: there is no file that could be authenticated with it.",
                NotSignedWarning,
                stacklevel=4,
            )
            return
        secret = hmac_secret.encode()
        self.audit = weakly_keyed(self.log_dir, secret)
        problem = weakness(secret)
        if problem:
            warnings.warn(
                f"hmac_secret is {problem}. The logs are authenticated with it, and whoever guesses it can forge them. "
                "Use the 32 random bytes of graphrt.audit.generate_key() with GraphExecutor(audit=AuditLog(..., key=...)).",
                WeakSecretWarning,
                stacklevel=4,
            )

    def get_history(self) -> list[dict[str, Any]]:
        """Return the records of the newest run, oldest first: 0..n. They are copies."""
        newest = self._newest
        return [] if newest is None else newest.records()

    def begin(self, run_id: str, user_id: str | None, initial: Mapping[str, Any]) -> RunLog:
        """Begin the log of a run; `get_history` is about this run from now on.

        Raises:
            OSError: The file cannot be made.
        """
        path = None if self.log_dir is None else self.log_dir / f"run_{run_id}.jsonl"
        log = RunLog(initial, path, self._now)
        log.write(
            {
                "kind": "run",
                "run_id": run_id,
                "user_id": user_id,
                "signed": self.audit is not None,
                "initial_state": initial,
            }
        )
        with self._lock:
            self._newest = log
        return log

    def _now(self) -> str:
        if self._clock is None:
            return dt.datetime.now(dt.UTC).isoformat()
        return dt.datetime.fromtimestamp(self._clock(), dt.UTC).isoformat()

    def __repr__(self) -> str:
        return f"AuditLogger(log_dir={None if self.log_dir is None else str(self.log_dir)!r})"


@final
class RunLog:
    """The log of one run.

    Args:
        initial: The state at the beginning.
        path: The file; None for none.
        now: Returns the time as a text.
    """

    def __init__(self, initial: Mapping[str, Any], path: Path | None, now: Callable[[], str]) -> None:
        self._initial: Final = copied(dict(initial))
        self._path: Final = path
        self._now: Final = now
        self._steps: list[dict[str, Any]] = []
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)

    def add(self, record: Mapping[str, Any]) -> None:
        """Add the record of a step, without its states."""
        kept = copied({key: value for key, value in record.items() if key not in STATES})
        self.write({"kind": "step", **kept})  # durable first: what the file lacks is not in the history either
        self._steps.append(kept)

    def records(self) -> list[dict[str, Any]]:
        """Return the records with their states."""
        found: list[dict[str, Any]] = []
        state: dict[str, Any] = self._initial
        for kept in self._steps:
            before, state = state, apply_diff(state, kept["state_diff"])
            record: dict[str, Any] = {}
            for key, value in kept.items():
                if key == "state_diff":
                    record["state_before"] = copied(before)
                record[key] = copied(value)
                if key == "state_diff":
                    record["state_after"] = copied(state)
            found.append(record)
        return found

    def write(self, line: Mapping[str, Any]) -> None:
        """Append a line to the file, if there is one. A value without a JSON form is written as its `repr`."""
        if self._path is None:
            return
        text = to_json({"at": self._now(), **line}, fallback=repr, inf_nan_mode="constants")
        with open(self._path, "ab", opener=_private) as file:
            file.write(text + b"\n")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)  # a new file: it holds values of the state


@final
class TokenTracker:
    """Adds up the tokens of all runs of all executors that it is given to. A run never resets it.

    It reads the journal of a run as it is written, so it counts every call: those of branches, of calls that were
    repeated, and of steps that failed later.
    """

    def __init__(self) -> None:
        self._sums = harness.TokenTracker()

    def __call__(self, entry: Entry) -> None:
        """Count the call that an entry of a journal records, if it records one."""
        self._sums(entry)

    def get_summary(self) -> dict[str, Any]:
        """Return the sums: `total_tokens`, `total_prompt_tokens`, `total_completion_tokens`, `tokens_by_model`,
        `tokens_by_node`, `calls` and `cost_usd`, which is None if no price is known.
        """  # noqa: D205 - the keys are the sentence
        sums = self._sums.summary()
        return {
            "total_tokens": sums["total_tokens"],
            "total_prompt_tokens": sums["prompt_tokens"],
            "total_completion_tokens": sums["completion_tokens"],
            "tokens_by_model": sums["tokens_by_model"],
            "tokens_by_node": sums["tokens_by_node"],
            "calls": sums["calls"],
            "cost_usd": sums["cost_usd"],
        }

    def reset(self) -> None:
        """Forget all that was counted."""
        self._sums = harness.TokenTracker()

    def __repr__(self) -> str:
        return f"TokenTracker({self._sums.total.total_tokens} tokens)"
