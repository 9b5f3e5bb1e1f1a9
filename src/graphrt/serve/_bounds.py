"""`Bounds`: how much one server, and each of its callers, may take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from threading import Lock
from time import monotonic
from typing import Any, Final, final

from graphrt.errors import InputError
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.serving import REQUEST_TOO_LARGE, TOO_MANY_FILES, TOO_MANY_RUNS
from graphrt.errors._error_code import ErrorCode
from graphrt.runtime import Runtime
from graphrt.serve._access import Caller
from graphrt.stores import Store

_COUNTED_S: Final = 1.0
"""Seconds for which a count of running threads is used: counting costs a query of the store."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Bounds of a server. Whatever exceeds one is refused before it costs anything.

    Raises:
        InputError: A bound is not a number above 0.
    """

    body_bytes: int = 1_048_576
    """Longest body of a request, except for those to chats."""
    chat_body_bytes: int = 16_777_216
    """Longest body of a request to a chat, whose messages may hold files in base64."""
    files: int = 10
    """Files in one request to a chat."""
    file_bytes: int = 5_242_880
    """Largest of these files."""
    header_bytes: int = 16_384
    """Longest headers of a request, together."""
    body_s: float = 30.0
    """Seconds in which the body of a request has to arrive."""
    streams: int = 2_000
    """Event streams that are open at once."""
    streams_per_caller: int = 32
    """Event streams that one user of a tenant may have open at once."""
    waits: int = 1_000
    """Requests that wait for the end of a run (`wait_s`) at once."""
    waits_per_caller: int = 64
    """Requests of one user of a tenant that wait for the end of a run at once."""
    running_per_caller: int = 1_000
    """Running threads of one tenant, or of the whole store for callers without a tenant, above which no run begins."""
    wait_s: float = 60.0
    """Longest time that a request may wait for the end of a run."""
    keep_alive_s: float = 15.0
    """Seconds without an event after which a stream sends a comment, so that proxies keep the connection."""
    stalled_s: float = 30.0
    """Seconds after which the stream of a reader that reads nothing is closed. The reader goes on from its position."""

    def __post_init__(self) -> None:
        for one in fields(self):
            value: Any = getattr(self, one.name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
                raise INVALID_ARGUMENT(argument=f"{one.name}=", value=value, wanted="a number above 0")

    def check_files(self, sizes: Sequence[int]) -> None:
        """Check the files of a request to a chat, by their sizes in bytes.

        Raises:
            InputError: There are too many, or one is too large (`request-too-large`).
        """
        if len(sizes) > self.files:
            raise TOO_MANY_FILES(number=len(sizes), most=self.files)
        if max(sizes, default=0) > self.file_bytes:
            raise REQUEST_TOO_LARGE(part="file", most=self.file_bytes)


@final
class OpenRequests:
    """How many requests of one kind are open, for each caller. Used on the event loop alone.

    Args:
        total: How many may be open at once.
        per_caller: How many of them may be of one user of a tenant.
        refused: The error for one more; its text takes the *number* that the caller has.
    """

    def __init__(self, total: int, per_caller: int, refused: ErrorCode[InputError]) -> None:
        self._total: Final = total
        self._per_caller: Final = per_caller
        self._refused: Final = refused
        self._open: Final[Counter[tuple[str | None, str]]] = Counter()

    def enter(self, caller: Caller) -> None:
        """Count one more request.

        Raises:
            InputError: There are too many (`too-many-requests`).
        """
        key = (caller.tenant, caller.user)
        if self._open.total() >= self._total or self._open[key] >= self._per_caller:
            declared = self._refused
            raise declared(number=self._open[key])
        self._open[key] += 1

    def leave(self, caller: Caller) -> None:
        """Count one less."""
        key = (caller.tenant, caller.user)
        self._open[key] -= 1
        if not self._open[key]:
            del self._open[key]

    def __len__(self) -> int:
        return self._open.total()

    @contextmanager
    def held(self, caller: Caller) -> Generator[None]:
        """Count a request while the block runs; raises as `enter`."""
        self.enter(caller)
        try:
            yield
        finally:
            self.leave(caller)


@final
class RunningThreads:
    """How many threads of a tenant are running, counted in the store once a second, and in between by what begins."""

    def __init__(self, bounds: Bounds) -> None:
        self._most: Final = bounds.running_per_caller
        self._counts: Final[dict[tuple[Store, str | None], tuple[float, int]]] = {}
        """Store and tenant to the monotonic time of the count, and the count."""
        self._lock: Final = Lock()

    def enter(self, store: Store, runtime: Runtime[Any, Any], caller: Caller) -> None:
        """Count a run that is to begin.

        Args:
            store: The store that the application was given. That of a tenant is made anew from time to time.
            runtime: As the caller uses it.
            caller: Who begins the run.

        Raises:
            InputError: Too many threads are running (`too-many-requests`).
        """
        key = (store, caller.tenant)
        with self._lock:
            counted_at, number = self._counts.get(key, (0.0, 0))
        if monotonic() - counted_at > _COUNTED_S:
            number, counted_at = len(runtime.threads(status="running", limit=self._most)), monotonic()
        if number >= self._most:
            raise TOO_MANY_RUNS(number=number)
        with self._lock:
            if len(self._counts) > self._most:  # of tenants that are gone
                self._counts.clear()
            self._counts[key] = counted_at, number + 1
