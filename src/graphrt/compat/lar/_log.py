"""`AuditLogger` and `TokenTracker`, which record a run from its steps and its journal.

A log keeps the initial state and the changes of each step. States before and after a step are folded from these on
request, so neither memory nor the file holds a state per step.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Final, Literal, final

from pydantic_core import from_json, to_json

from graphrt import harness
from graphrt._arguments import is_mapping
from graphrt.audit import AuditLog
from graphrt.audit._log import weakly_keyed
from graphrt.audit.offline import weakness
from graphrt.compat.lar._nodes import not_here
from graphrt.compat.lar._records import SUCCESS
from graphrt.compat.lar._state import BUDGET, apply_diff, copied, is_items
from graphrt.events import Entry, Usage

DEFAULT_FOLDER: Final = "lar_logs"
"""The folder of signed logs if none was given."""
STATES: Final = ("state_before", "state_after")
"""Keys of a record that are derived from others."""


class WeakSecretWarning(UserWarning):
    """A signing secret can be guessed, so the authentication of the log proves little."""


@final
class AuditLogger:
    """The log of the runs of an executor: a history in memory and, with *log_dir*, files for each run.

    A file is `run_<id>.jsonl`: the run with its initial state, a line for each step as it ends, and the end. A line is
    durable before the record of its step is yielded.

    If there is also a secret, the journal of each run is an audit log in the same folder, `<id>.jsonl`: every record
    has a MAC, `graphrt.audit.verify` checks it, and `restore`, `reexecute` and `report` read it. Values of the state
    must be storable then. Next to it is the log in Lár's form, one JSON document, `run_<id>.json`: `run_id`,
    `user_id`, `timestamp`, `outcome`, `steps` with their states, `summary`, and `signature`, the HMAC-SHA256 of the
    rest.

    Args:
        log_dir: The folder for files, created if it does not exist. None writes no file, or uses the folder `lar_logs`
            if there is a secret.
        hmac_secret: The key of the audit logs and of the signature. A secret that can be guessed causes a
            WeakSecretWarning, and `verify` reports `weak-key`.
        pii_redactor: Must be None: Lár's compliance pack is not supported. An AuditLog can redact:
            `AuditLog(redact=...)`.
        document: Whether the JSON document is written at the end of each run; None writes it if there is a secret.
        clock: Returns seconds since the epoch; by default the system clock.

    Raises:
        InputError: An argument is wrong (`input`), or the secret is empty (`weak-key`).
    """

    def __init__(
        self,
        log_dir: str | Path | None = None,
        hmac_secret: str | None = None,
        pii_redactor: None = None,
        *,
        document: bool | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        not_here("pii_redactor", pii_redactor, "AuditLogger")
        self.log_dir: Path | None = None if log_dir is None else Path(log_dir)
        self.document = document
        self._clock = clock
        self._lock = Lock()
        self._newest: RunLog | None = None
        self._secret: bytes | None = None
        self.audit: AuditLog | None = None
        """The audit logs of the runs; None without a secret."""
        if document and log_dir is None:
            self.log_dir = Path(DEFAULT_FOLDER)
        if hmac_secret is not None:
            self.sign_with(hmac_secret)

    def sign_with(self, hmac_secret: str) -> None:
        """Authenticate the journals of later runs with *hmac_secret*; see above.

        Raises:
            InputError: The secret is empty (`weak-key`).
        """
        if self.log_dir is None:
            self.log_dir = Path(DEFAULT_FOLDER)
        secret = hmac_secret.encode()
        self.audit = weakly_keyed(self.log_dir, secret)
        self._secret = secret
        problem = weakness(secret)
        if problem:
            warnings.warn(
                f"hmac_secret is {problem}. The logs are authenticated with it, and anyone who guesses it can forge them. "
                "Use the 32 random bytes of graphrt.audit.generate_key() with GraphExecutor(audit=AuditLog(..., key=...)).",
                WeakSecretWarning,
                stacklevel=4,
            )

    @property
    def history(self) -> list[dict[str, Any]]:
        """The records of the newest run, as `get_history` returns them."""
        return self.get_history()

    def get_history(self) -> list[dict[str, Any]]:
        """Return the records of the newest run, oldest first: 0..n. They are copies."""
        newest = self._newest
        return [] if newest is None else newest.records()

    def clear_history(self) -> None:
        """Forget the records in memory. Files remain."""
        with self._lock:
            self._newest = None

    def log_step(self, step_data: Mapping[str, Any]) -> None:
        """Add a program's own record to the history, after those of the newest run.

        Args:
            step_data: The record. Without a `state_diff` it changes nothing.
        """
        with self._lock:
            if self._newest is None:
                self._newest = RunLog(step_data.get("state_before", {}), None, self._now)
            log = self._newest
        log.add({"state_diff": {}, **step_data})

    def save_to_file(
        self, run_id: str, user_id: str | None = None, summary: Mapping[str, Any] | None = None, outcome: str = SUCCESS
    ) -> Path:
        """Write the history as one JSON document, and return its path; signed, if there is a secret.

        The signature is the HMAC-SHA256 of the document without it, as JSON with sorted keys and without spaces. A
        value without a JSON form is written as its `repr`.

        Args:
            run_id: The file is `run_<run_id>.json`.
            user_id: Recorded in the document.
            summary: Totals of the run.
            outcome: Outcome of the run.
        """
        folder = Path(DEFAULT_FOLDER) if self.log_dir is None else self.log_dir
        folder.mkdir(parents=True, exist_ok=True)
        content = {
            "run_id": run_id,
            "user_id": user_id,
            "timestamp": self._now(),
            "outcome": outcome,
            "steps": self.get_history(),
            "summary": dict(summary or {}),
        }
        document: dict[str, Any] = json.loads(_as_json(content))
        if self._secret is not None:
            signed = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
            document["signature"] = hmac.new(self._secret, signed, hashlib.sha256).hexdigest()
        path = folder / f"run_{run_id}.json"
        _synced(path, json.dumps(document, indent=2).encode(), mode="wb")
        return path

    @property
    def writes_documents(self) -> bool:
        """Whether a JSON document is written at the end of each run."""
        return self._secret is not None if self.document is None else self.document

    def begin(
        self, run_id: str, user_id: str | None, initial: Mapping[str, Any], earlier: Sequence[Mapping[str, Any]] = ()
    ) -> RunLog:
        """Begin the log of a run; `get_history` is about this run from now on.

        Args:
            run_id: Id of the run.
            user_id: Recorded in the log.
            initial: The initial state.
            earlier: Records of another process, whose run continues here. The current content of the file is kept.

        Raises:
            OSError: The file cannot be created.
        """
        path = None if self.log_dir is None else self.log_dir / f"run_{run_id}.jsonl"
        known = path is not None and path.exists()
        log = RunLog(initial, path, self._now)
        if not known:
            header = {"run_id": run_id, "user_id": user_id, "signed": self.audit is not None, "initial_state": initial}
            log.write({"kind": "run", **header})
        for record in earlier:
            log.add(record, known=known)
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
        initial: The initial state.
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

    def add(self, record: Mapping[str, Any], *, known: bool = False) -> None:
        """Add the record of a step, without its states.

        Args:
            record: The record.
            known: Whether the file already has it.
        """
        if not known:
            self.write({"kind": "step", **_stateless(record)})  # durable first: the history has what the file has
        self._steps.append(copied(_packed(record)))

    def records(self) -> list[dict[str, Any]]:
        """Return the records with their states."""
        records: list[dict[str, Any]] = []
        state: dict[str, Any] = self._initial
        for step in self._steps:
            record = _unpacked(copied(step), copied(state))
            records.append({**record, "state_after": copied(record["state_after"])})
            state = apply_diff(state, step["state_diff"])
        return records

    def write(self, line: Mapping[str, Any]) -> None:
        """Append a line to the file, if there is one, and wait until it is durable.

        A value without a JSON form is written as its `repr`.
        """
        if self._path is None:
            return
        _synced(self._path, _as_json({"at": self._now(), **line}) + b"\n", mode="ab")


def _stateless(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record without its states, and without those of its inner records."""
    result = {key: value for key, value in record.items() if key not in STATES}
    if "inner" in result:
        result["inner"] = [_stateless(inner_record) for inner_record in result["inner"]]
    return result


def _packed(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record without its states. The budget of its inner records is kept: a branch has a share."""
    result = {key: value for key, value in record.items() if key not in STATES}
    if "inner" in result:
        result["inner"] = [
            {**_packed(inner_record), BUDGET: inner_record["state_before"].get(BUDGET)}
            for inner_record in result["inner"]
        ]
    return result


def _unpacked(stored: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with its states. As in yielded records, its inner records share the values of *before*."""
    record: dict[str, Any] = {}
    for key, value in stored.items():
        if key == "state_diff":
            after = apply_diff(before, value)
            record |= {"state_before": dict(before), "state_diff": value, "state_after": after}
        elif key != BUDGET:
            record[key] = value
    if "inner" in stored:
        states: dict[Any, Mapping[str, Any]] = {}
        inner: list[dict[str, Any]] = []
        for inner_record in stored["inner"]:
            state = {**states.get(inner_record.get("branch"), before)}
            if inner_record[BUDGET] is not None:
                state[BUDGET] = inner_record[BUDGET]
            inner.append(_unpacked(inner_record, state))
            states[inner_record.get("branch")] = inner[-1]["state_after"]
        record["inner"] = inner
    return record


def _as_json(value: Any) -> bytes:
    """Return *value* as JSON, replacing values without a JSON form by their `repr`."""
    try:
        return to_json(value, fallback=repr, inf_nan_mode="constants")
    except ValueError:  # it contains bytes, or a text that is not valid UTF-8
        return json.dumps(_plain(value)).encode()


def _plain(value: Any) -> Any:
    """Return *value* with everything in it that has no JSON form replaced by its `repr`."""
    if is_mapping(value):
        return {str(key): _plain(item) for key, item in value.items()}
    if is_items(value):
        return [_plain(item) for item in value]
    try:
        return from_json(to_json(value, fallback=repr, inf_nan_mode="constants"))
    except ValueError:
        return ascii(value)


def _synced(path: Path, data: bytes, *, mode: Literal["ab", "wb"]) -> None:
    """Write *data* to a file, and wait until it is durable, with its directory entry if the file is new."""
    new = not path.exists()
    with open(path, mode, opener=_private) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    if new and os.name == "posix":  # other systems cannot open a folder
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)  # a new file is private: it holds values of the state


@final
class TokenTracker:
    """Sums the tokens of all runs of all executors that use it. A run never resets it.

    It reads the journal of a run as it is written, so it counts every call, including those in branches, retries and
    steps that failed later.
    """

    def __init__(self) -> None:
        self._sums = harness.TokenTracker()
        self._added: dict[str, Usage] = {}
        """Tokens that a program counted itself, by model."""

    def __call__(self, entry: Entry) -> None:
        """Count the call that an entry of a journal records, if it records one."""
        self._sums(entry)

    def add_tokens(self, metadata: Mapping[str, Any] | None) -> None:
        """Count the tokens of calls made elsewhere.

        Args:
            metadata: `prompt_tokens`, `output_tokens` and `model`, as in the `run_metadata` of a record; None counts
                nothing.
        """
        if not metadata:
            return
        usage = Usage(
            input_tokens=metadata.get("prompt_tokens", 0), output_tokens=metadata.get("output_tokens", 0), calls=1
        )
        model = str(metadata.get("model", "unknown"))
        self._added[model] = self._added.get(model, Usage()) + usage

    @property
    def total_tokens(self) -> int:
        """Tokens of all calls."""
        total: int = self.get_summary()["total_tokens"]
        return total

    @property
    def total_prompt_tokens(self) -> int:
        """Tokens that models read."""
        total: int = self.get_summary()["total_prompt_tokens"]
        return total

    @property
    def total_completion_tokens(self) -> int:
        """Tokens that models wrote."""
        total: int = self.get_summary()["total_completion_tokens"]
        return total

    @property
    def tokens_by_model(self) -> dict[str, int]:
        """Tokens by the name of the model."""
        by_model: dict[str, int] = self.get_summary()["tokens_by_model"]
        return by_model

    def get_summary(self) -> dict[str, Any]:
        """Return the sums: `total_tokens`, `total_prompt_tokens`, `total_completion_tokens`, `tokens_by_model`,
        `tokens_by_node`, `calls` and `cost_usd`, which is None if no price is known.
        """  # noqa: D205 - the keys are the sentence
        sums = self._sums.summary()
        by_model: dict[str, int] = dict(sums["tokens_by_model"])
        for model, usage in self._added.items():
            by_model[model] = by_model.get(model, 0) + usage.total_tokens
        added = sum(self._added.values(), Usage())
        return {
            "total_tokens": sums["total_tokens"] + added.total_tokens,
            "total_prompt_tokens": sums["prompt_tokens"] + added.input_tokens,
            "total_completion_tokens": sums["completion_tokens"] + added.output_tokens,
            "tokens_by_model": by_model,
            "tokens_by_node": sums["tokens_by_node"],
            "calls": sums["calls"] + added.calls,
            "cost_usd": sums["cost_usd"],
        }

    def reset(self) -> None:
        """Reset all counts."""
        self._sums = harness.TokenTracker()
        self._added.clear()

    def __repr__(self) -> str:
        return f"TokenTracker({self.total_tokens} tokens)"
