"""A store in front of another store that simulates the death of its process at a chosen write."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from random import Random
from threading import Lock
from time import sleep
from typing import Any, Final, final

from graphrt.errors import ConflictError, GraphrtError
from graphrt.stores.protocol import Store
from graphrt.stores.values import Claim, Commit
from graphrt.stores.wrapper import StoreWrapper

_SHORT_LEASE_S: Final = 0.05
"""Lease of a claim that a torn file may contain: its owner, this process, seems alive, so only time ends it."""


class CrashError(BaseException):
    """The process ends here. It is not an Exception, so that no node handles it."""


@final
class CrashStore(StoreWrapper):
    """Counts writes, remembers the acknowledged ones, and dies before or after one of the writes.

    Args:
        store: The store that does the work.
        at: Number of the case: 2n - 1 dies before write n, and 2n after it. None never dies.
        rival: Whether a second writer attempts each commit first.
        tear: Number of the write that is torn.
        files: Folder with the files of the store, for *tear*.
        seed: Determines how much of a torn write is in the file.
    """

    def __init__(
        self,
        store: Store,
        at: int | None = None,
        *,
        rival: bool = False,
        tear: int | None = None,
        files: Path | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(store)
        self.writes: list[str] = []
        """A description of each write."""
        self.acked = 0
        """Number of the last acknowledged entry."""
        self.staged: set[str] = set()
        """Keys of the acknowledged staged bodies."""
        self.intruded: list[str] = []
        """The operations that a second writer was wrongly allowed to perform."""
        self.died = ""
        """The write at which it died; empty while it is alive."""
        self.torn: dict[str, bytes] | None = None
        """The result of a torn write in the files; None if no write was torn."""
        self._at = at
        self._rival = rival
        self._tear = tear
        self._files = files
        self._seed = seed
        self._claims: list[Claim] = []
        self._lock = Lock()

    def claim(self, thread: str, *, create: bool, lease_s: float, at: float) -> Claim:
        """Claim the thread, unless the process dies."""
        with self._lock:
            if self.died:
                raise CrashError(self.died)
            claim = self.store.claim(thread, create=create, lease_s=lease_s, at=at)
            self._claims.append(claim)  # its first commit stores it
            return claim

    def renew(self, claims: Iterable[Claim]) -> None:
        """Renew *claims* if the process is alive."""
        if not self.died:
            self.store.renew(claims)

    def commit(self, claim: Claim, commit: Commit) -> None:
        """Write *commit*, unless the process dies."""
        if self._rival and not self.died:
            self._intrude(claim, commit)
        parts = [f"entries to {commit.records[-1].seq}"] if commit.records else []
        parts += [f"staged {key}" for key, _ in commit.stage]
        self._write(
            f"commit ({', '.join(parts) or commit.status or 'no entry'})",
            lambda: self.store.commit(claim, commit),
            lambda _: self._acknowledge(commit),
        )

    def release(self, claim: Claim) -> None:
        """Release the claim. A dead process releases nothing."""
        if not self.died:
            self._write("release", lambda: self.store.release(claim), lambda _: None)

    def close(self) -> None:
        """Leave the store open, because the next process may need it."""

    def bury(self) -> None:
        """Release the dead process's claims, as the store does when it finds the owner dead."""
        if self.torn is not None:
            sleep(_SHORT_LEASE_S * 1.2)
        crash = getattr(self.store, "crash", None)
        if crash is not None:
            crash()
        elif self.durable:
            self.store.close()
        else:
            for claim in self._claims:
                self.store.release(claim)

    def _write(self, operation: str, do: Callable[[], Any], acknowledge: Callable[[Any], object]) -> Any:
        with self._lock:
            if self.died:
                raise CrashError(self.died)
            self.writes.append(operation)
            number = len(self.writes)
            if self._at == 2 * number - 1:
                self.died = f"before write {number}: {operation}"
                raise CrashError(self.died)
            if self._tear == number and self._files is not None:
                for claim in self._claims:
                    claim.lease_s = _SHORT_LEASE_S
                self.store.renew(self._claims)
                before = _contents(self._files)
                with suppress(ConflictError):  # this process was so slow that the lease expired, so nothing is written
                    do()
                self._die_torn(number, operation, before, _contents(self._files))
            result = do()
            acknowledge(result)
            if self._at == 2 * number:
                self.died = f"after write {number}: {operation}"
                raise CrashError(self.died)
            return result

    def _die_torn(self, number: int, operation: str, before: dict[str, bytes], after: dict[str, bytes]) -> None:
        changed = [name for name in after if after[name] != before.get(name)]
        if len(changed) == 1:  # the store decides the order in which several files reach the disk
            (name,) = changed
            new, old = after[name], before.get(name, b"")
            start = next(
                (n for n, (old_byte, new_byte) in enumerate(zip(old, new, strict=False)) if old_byte != new_byte),
                len(old),
            )
            cut = Random(f"{self._seed}:{number}").randrange(start, len(new) + 1)  # noqa: S311 - a place, not a secret
            after[name] = new[:cut] + old[cut:]
            self.died = (
                f"during write {number}: {operation}, of which {cut - start} of {len(new) - start} bytes are written"
            )
        else:
            self.died = f"during write {number}: {operation}, of which all or nothing is written"
            after = before
        self.torn = after
        raise CrashError(self.died)

    def _acknowledge(self, commit: Commit) -> None:
        if commit.records:
            self.acked = commit.records[-1].seq
        if commit.unstage:
            self.staged.clear()
        self.staged.update(key for key, _ in commit.stage)

    def _intrude(self, claim: Claim, commit: Commit) -> None:
        older = Claim(claim.head._replace(epoch=claim.epoch - 1), claim.lease_s)
        tries: list[tuple[str, Callable[[], object]]] = [
            ("claim", lambda: self.store.claim(claim.thread, create=False, lease_s=30.0, at=commit.at)),
            ("commit", lambda: self.store.commit(older, commit)),
        ]
        for verb, call in tries:
            try:
                call()
            except ConflictError:
                continue
            except GraphrtError:
                pass  # the thread may be gone by now; in any case the commit was not refused
            self.intruded.append(
                f"write {len(self.writes) + 1}: a second writer's {verb} was not refused with ConflictError"
            )


def _contents(folder: Path) -> dict[str, bytes]:
    """Return the files in *folder* by name, without SQLite's shared memory, which is lost with a dead process."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith("-shm")
    }
