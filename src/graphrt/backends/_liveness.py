"""Detects which processes of a DBOS application are alive. DBOS itself needs its Conductor, which is not open source.

Each process keeps one session with the server, named after its executor. A killed process loses its session at once. A
hung process sends no queries in it, and `pg_stat_activity` says since when. So neither a table nor a lock is needed.
The session has to be a direct one: PgBouncer in transaction mode would share it.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

_OPTIONS: Final = {
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
"""Options of libpq, as graphrt's store sets them. Without them, threads of DBOS wait a quarter of an hour for a
vanished server, and the process cannot exit meanwhile."""
_PREFIX: Final = "graphrt "
_ALIVE: Final = """
SELECT application_name FROM pg_stat_activity
WHERE application_name = ANY(%s)
  -- Sessions of other roles show no time; they are taken to be alive as long as they last.
  AND coalesce(state_change, now()) > now() - make_interval(secs => %s)
"""


def with_timeouts(url: str) -> str:
    """Return *url* with options that detect a vanished server within a minute; options that it has are kept."""
    query = urlsplit(url).query
    present = {name for name, _ in parse_qsl(query, keep_blank_values=True)}
    more = "&".join(f"{name}={value}" for name, value in _OPTIONS.items() if name not in present)
    return f"{url}{'&' if query else '' if url.endswith('?') else '?'}{more}" if more else url


class Liveness:
    """The session of this process, and a view of the sessions of others.

    Args:
        url: The database of DBOS.
        executor: The executor id of this process.
        dead_after_s: Seconds without a sign of life after which a process with a session counts as dead.
    """

    def __init__(self, url: str, executor: str, dead_after_s: float) -> None:
        self._url = url
        self._name = _PREFIX + executor
        self._dead_after_s = dead_after_s
        self._session: Any = None

    def beat(self) -> None:
        """Show that this process is alive; opens the session if there is none, or if the server closed it."""
        try:
            if self._session is None:
                psycopg = import_module("psycopg")
                self._session = psycopg.connect(
                    self._url, autocommit=True, application_name=self._name, connect_timeout=5
                )
            self._session.execute("SELECT 1")
        except BaseException:
            self.close()
            raise

    def dead(self, executors: Iterable[str]) -> set[str]:
        """Return which of *executors* have no session, or one without a recent sign of life."""
        names = {_PREFIX + executor: executor for executor in executors}
        if not names:
            return set()
        alive = {name for (name,) in self._session.execute(_ALIVE, (list(names), self._dead_after_s))}
        return {executor for name, executor in names.items() if name not in alive}

    def close(self) -> None:
        """End the session."""
        session, self._session = self._session, None
        if session is not None:
            session.close()
