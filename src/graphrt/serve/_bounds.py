"""`Bounds`: limits of one server and of each of its callers."""

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
from graphrt.errors._codes.serving import REQUEST_TOO_LARGE, TOO_MANY_RUNS
from graphrt.errors._error_code import ErrorCode
from graphrt.runtime import Runtime
from graphrt.serve._access import Caller
from graphrt.stores import Store

_COUNTED_S: Final = 1.0
"""Seconds for which a count of running threads is reused, since counting costs a store query."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Bounds of a server. A request that exceeds one is refused before it costs anything.

    Raises:
        InputError: A bound is not a number above 0.
    """

    body_bytes: int = 1_048_576
    """Maximum length of a request body, except for requests to chats."""
    chat_body_bytes: int = 16_777_216
    """Maximum length of the body of a request to a chat, whose messages may hold files in base64."""
    files: int = 10
    """Maximum number of files in one request to a chat."""
    file_bytes: int = 5_242_880
    """Maximum size of such a file."""
    header_bytes: int = 16_384
    """Maximum total length of the headers of a request."""
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
    """Maximum time that a request may wait for the end of a run."""
    keep_alive_s: float = 15.0
    """Seconds without an event after which a stream sends a comment, so that proxies keep the connection."""
    stalled_s: float = 30.0
    """Seconds after which a stream is closed if its client reads nothing. The client can continue from its position."""

    def __post_init__(self) -> None:
        for bound in fields(self):
            value: Any = getattr(self, bound.name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
                raise INVALID_ARGUMENT(argument=f"{bound.name}=", value=value, wanted="a number above 0")

    def check_files(self, sizes: Sequence[int]) -> None:
        """Check the files of a request to a chat, by their sizes in bytes.

        Raises:
            InputError: There are too many, or one is too large (`request-too-large`).
        """
        if len(sizes) > self.files:
            raise REQUEST_TOO_LARGE(part="number of files", limit=str(self.files))
        if max(sizes, default=0) > self.file_bytes:
            raise REQUEST_TOO_LARGE(part="file", limit=f"{self.file_bytes} bytes")


@final
class OpenRequests:
    """Counts open requests of one kind per caller. Used only on the event loop.

    Args:
        total: Maximum number of open requests.
        per_caller: Maximum number per user of a tenant.
        refused: The error for one more; its text contains the *number* that the caller has.
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
    """Counts running threads per tenant: in the store once a second, plus the runs begun since then."""

    def __init__(self, bounds: Bounds) -> None:
        self._most: Final = bounds.running_per_caller
        self._counts: Final[dict[tuple[Store, str | None], tuple[float, int]]] = {}
        """Store and tenant to the monotonic time of the count, and the count."""
        self._lock: Final = Lock()

    def enter(self, store: Store, runtime: Runtime[Any, Any], caller: Caller) -> None:
        """Count a run that is about to begin.

        Args:
            store: The application's store; views for tenants are recreated from time to time.
            runtime: The caller's runtime.
            caller: The caller who begins the run.

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
