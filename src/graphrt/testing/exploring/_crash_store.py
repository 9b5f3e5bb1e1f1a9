"""A store in front of another one, whose process dies at a chosen write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Final, final

from graphrt.errors import ConflictError, GraphrtError
from graphrt.stores.protocol import Claim, Commit, Store

WRITES: Final = ("claim", "commit", "release")


class CrashError(BaseException):
    """The process ends here. It is not an Exception, so that no node handles it."""


@final
class CrashStore:
    """Counts writes, remembers what was acknowledged, and dies before or after one of the writes.

    Args:
        store: The store that does the work.
        at: Number of the case: 2n - 1 dies before write n, and 2n after it. None never dies.
        rival: Whether a second writer tries each commit first.
    """

    def __init__(self, store: Store, at: int | None = None, *, rival: bool = False) -> None:
        self.inner = store
        self.durable = store.durable
        self.blocking = store.blocking
        self.writes: list[str] = []
        """What each write was."""
        self.acked = 0
        """Number of the last entry that was acknowledged."""
        self.staged: set[str] = set()
        """Keys of the staged bodies that were acknowledged."""
        self.intruded: list[str] = []
        """What a second writer was allowed to do."""
        self.died = ""
        """The write at which it died; empty while it lives."""
        self._at = at
        self._rival = rival
        self._claims: list[Claim] = []
        self._lock = Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def claim(self, thread: str, *, create: bool, lease_s: float, at: float) -> Claim:
        """Claim the thread, unless the process dies."""
        claim: Claim = self._write(
            "claim", lambda: self.inner.claim(thread, create=create, lease_s=lease_s, at=at), self._claims.append
        )
        return claim

    def renew(self, claims: Sequence[Claim]) -> None:
        """Renew *claims* if the process is alive."""
        if not self.died:
            self.inner.renew(claims)

    def commit(self, claim: Claim, commit: Commit) -> None:
        """Write *commit*, unless the process dies."""
        if self._rival and not self.died:
            self._intrude(claim, commit)
        parts = [f"entries to {commit.records[-1].seq}"] if commit.records else []
        parts += [f"staged {key}" for key, _ in commit.stage]
        self._write(
            f"commit ({', '.join(parts) or commit.status or 'no entry'})",
            lambda: self.inner.commit(claim, commit),
            lambda _: self._acknowledge(commit),
        )

    def release(self, claim: Claim) -> None:
        """Release the claim. A dead process releases nothing."""
        if not self.died:
            self._write("release", lambda: self.inner.release(claim), lambda _: None)

    def close(self) -> None:
        """Leave the store open, since the next process may need it."""

    def bury(self) -> None:
        """Free what the dead process held, as the store does when it finds the owner dead."""
        crash = getattr(self.inner, "crash", None)
        if crash is not None:
            crash()
        elif self.durable:
            self.inner.close()
        else:
            for claim in self._claims:
                self.inner.release(claim)

    def _write(self, what: str, do: Callable[[], Any], acknowledge: Callable[[Any], object]) -> Any:
        with self._lock:
            if self.died:
                raise CrashError(self.died)
            self.writes.append(what)
            number = len(self.writes)
            if self._at == 2 * number - 1:
                self.died = f"before write {number}: {what}"
                raise CrashError(self.died)
            result = do()
            acknowledge(result)
            if self._at == 2 * number:
                self.died = f"after write {number}: {what}"
                raise CrashError(self.died)
            return result

    def _acknowledge(self, commit: Commit) -> None:
        if commit.records:
            self.acked = commit.records[-1].seq
        if commit.unstage:
            self.staged.clear()
        self.staged.update(key for key, _ in commit.stage)

    def _intrude(self, claim: Claim, commit: Commit) -> None:
        older = Claim(claim.head._replace(epoch=claim.epoch - 1), claim.lease_s)
        tries: list[tuple[str, Callable[[], object]]] = [
            ("claim", lambda: self.inner.claim(claim.thread, create=False, lease_s=30.0, at=commit.at)),
            ("commit", lambda: self.inner.commit(older, commit)),
        ]
        for verb, call in tries:
            try:
                call()
            except ConflictError:
                continue
            except GraphrtError:
                pass  # the thread may be gone by now: in any case the refusal is missing
            self.intruded.append(
                f"write {len(self.writes) + 1}: a second writer's {verb} was not refused with ConflictError"
            )
