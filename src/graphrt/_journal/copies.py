"""The entry by which a copy of a thread names itself (decision 0204).

A copy has the records of its source, byte for byte, and therefore its hash chain too. Without an additional entry, the
two could not be distinguished: anyone who can write to the store could swap their ids. So a thread that is written
under another id gets an additional record, `ThreadCopied`, which is sealed like all others. Creating it requires only
the seal of the last record, neither the graph nor the values of the thread.
"""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json

from graphrt._journal.batch import Batch
from graphrt._journal.batch_format import digest, encode
from graphrt._journal.body import Body, Names
from graphrt._journal.log_keys import KeyRing
from graphrt._journal.reader import Reader
from graphrt._journal.standing import ThreadStanding
from graphrt._journal.thread_meta import name_in, read_meta
from graphrt._journal.verifying import PLAIN
from graphrt.errors._codes.stores import STORE_DAMAGED
from graphrt.events import ThreadCopied
from graphrt.stores._copying import Whole
from graphrt.stores.values import Record


def named(
    whole: Whole,
    to: str,
    *,
    source: str,
    at: float,
    keys: KeyRing | None,
    adopt: bool = False,
    seed: int | None = None,
) -> Whole:
    """Return the thread to write under the id *to*. If it has another name, a last entry with the new name is added.

    Args:
        whole: The thread.
        to: Its id from now on, with its tenant.
        source: Its id until now, with its tenant. A thread that is chained names itself.
        at: Time of the entry, in seconds since the epoch.
        keys: Keys of the log; None without any.
        adopt: Allow a key for a log that had none so far.
        seed: Makes the salts the same each time; None draws them at random.

    Raises:
        InputError: The log has a key that is not available (`log-key-needed`), or none (`log-not-keyed`).
        StoreError: The thread is damaged.
    """
    meta = read_meta(whole.meta, source)
    source = name_in(meta) or source
    if source == to:
        return whole
    if not whole.records:
        raise STORE_DAMAGED(problem=f"Thread {source!r} has no record", thread=source, seq=None)
    last = whole.records[-1]
    logged: list[tuple[str, Any]] = [("", ThreadCopied(source=source, thread=to))]
    reader = Reader(None, source, PLAIN, meta=meta)  # type: ignore[arg-type]  # a record without a value fetches nothing
    before = reader.batch(last)
    standing = ThreadStanding()
    standing.cause = before.cause
    standing.apply(before.logged, last.seq - last.count + 1, before.run)
    batch = Batch(at, standing.run, standing.cause, logged)
    newest = whole.snapshots.get(last.seq)
    body = Body(PLAIN, Names())
    vouched = None if newest is None else (last.seq, digest(newest))
    payload = encode(body, batch, snapshot=vouched)
    seal = b""
    if meta.get("chained"):
        seal = _sealed(last, str(meta["chained"]), body.lines, at, keys, adopt=adopt, seed=seed)
    record = Record(last.seq + 1, 1, payload, seal)
    return whole._replace(
        head=whole.head._replace(seq=record.seq, updated_at=at),
        meta=to_json({**meta, "name": to}, fallback=repr),
        records=[*whole.records, record],
    )


def _sealed(
    last: Record,
    log: str,
    lines: list[bytes],
    at: float,
    ring: KeyRing | None,
    *,
    adopt: bool,
    seed: int | None,
) -> bytes:
    """Return the seal of the record with *lines* that follows the record *last*.

    Args:
        log: Id of the thread that the chain began with.
    """
    from graphrt._journal.chain import check_keys, next_seal  # imported here because it loads OpenSSL
    from graphrt._journal.seal import parsed

    seal = parsed(last.seal, len(last.body.split(b"\n")) - 1)  # the last line of a body is its checksum
    if seal is None:
        raise STORE_DAMAGED(problem=f"Entry {last.seq} of the journal has no seal that could be read", seq=last.seq)
    keys = ring.of(log) if ring is not None else None
    check_keys(log, seal.kid, keys, adopt=adopt)
    return next_seal(seal, keys, last.seq + 1, at, lines, seed)
