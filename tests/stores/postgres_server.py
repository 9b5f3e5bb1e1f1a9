"""A PostgreSQL server for tests: started in a temporary folder, and removed when the tests end.

This module only finds, runs and breaks the server; the reaction of a store is tested elsewhere. Each process of a test
run starts its own, because a test may stop it. `GRAPHRT_TEST_POSTGRES=url` names a server that runs already:
then nothing is started, and tests that have to stop the server are skipped. Without binaries the tests are skipped;
where `CI` is set they fail.
"""

from __future__ import annotations

import itertools
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import pytest

VARIABLE: Final = "GRAPHRT_TEST_POSTGRES"
PASSWORD: Final = "open-sesame-%-canary"
"""Password of the role `guarded`, the only one with a password."""
_LINES: Final = """
local all guarded scram-sha-256
local all all trust
host  all guarded 127.0.0.1/32 scram-sha-256
host  all all 127.0.0.1/32 trust
"""
_SETTINGS: Final = """
listen_addresses = ''
unix_socket_directories = '{folder}'
max_connections = 100
shared_buffers = '32MB'
autovacuum_naptime = '10s'
log_min_messages = 'fatal'
"""


def binaries() -> Path | None:
    """The folder with `initdb` and `pg_ctl`, or None if no server is installed."""
    for folder in _folders():
        if all((folder / name).exists() for name in ("initdb", "pg_ctl", "postgres")):
            return folder
    return None


def _folders() -> Iterator[Path]:
    for name in ("initdb", "postgres"):
        if found := shutil.which(name):
            yield Path(found).resolve().parent
    versions = Path("/usr/lib/postgresql")
    if versions.is_dir():
        numbered = (folder for folder in versions.iterdir() if folder.name.isdigit())
        yield from (folder / "bin" for folder in sorted(numbered, key=lambda folder: -int(folder.name)))
    if tool := shutil.which("pg_config"):
        told = subprocess.run([tool, "--bindir"], capture_output=True, text=True, check=False)
        yield Path(told.stdout.strip() or "/nonexistent")


def _runner() -> str | None:
    """The user that the server runs as, or None for our own: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


class Server:
    """One cluster in its own folder, reached through a socket in that folder."""

    def __init__(self, tools: Path) -> None:
        self._tools = tools
        self._user = _runner()
        # Not pytest's own folder: only its owner may enter it, and the path of a socket must be short. In memory where
        # there is room (tests/conftest.py): on a disk the conformance suite takes two to three times as long.
        places = [os.environ.get("PYTEST_DEBUG_TEMPROOT"), "/tmp"]
        place = next((place for place in places if place and Path(place).is_dir()), None)
        self.folder = Path(tempfile.mkdtemp(prefix="pg-", dir=place))
        self.data = self.folder / "data"
        if self._user:
            shutil.chown(self.folder, self._user)
        self._tool("initdb", "--no-sync", "-D", self.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale")
        (self.data / "pg_hba.conf").write_text(_LINES)
        with (self.data / "postgresql.conf").open("a") as settings:
            settings.write(_SETTINGS.format(folder=self.folder))
        self.start()

    @property
    def url(self) -> str:
        """Of the database `postgres`, as its superuser."""
        return f"postgresql://postgres@/postgres?{_query({'host': str(self.folder)})}"

    def start(self) -> None:
        """Start it, and wait until it accepts connections."""
        self._tool("pg_ctl", "-D", self.data, "-w", "-t", "60", "-l", self.folder / "log", "start")

    def stop(self, mode: str = "immediate") -> None:
        """Stop it: `immediate` is a crash, `fast` closes all connections in order."""
        self._tool("pg_ctl", "-D", self.data, "-w", "-m", mode, "stop")

    def restart(self, mode: str = "immediate") -> None:
        self.stop(mode)
        self.start()

    def kill(self, pid: int) -> None:
        """SIGKILL one of its processes: the server then terminates all others and recovers."""
        os.kill(pid, signal.SIGKILL)

    def set(self, **settings: str | None) -> None:
        """Change settings of the server and reload them; None restores a default."""
        for name, value in settings.items():
            change = f"RESET {name}" if value is None else f"SET {name} = '{value}'"
            run(self.url, f"ALTER SYSTEM {change}")
        run(self.url, "SELECT pg_reload_conf()")

    def remove(self) -> None:
        if (self.data / "postmaster.pid").exists():
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _tool(self, name: str, *arguments: object) -> None:
        command = [str(self._tools / name), *map(str, arguments)]
        group = pwd.getpwnam(self._user).pw_gid if self._user else None
        with tempfile.TemporaryFile() as said:  # a file: the server inherits it, and a pipe would never end
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                user=self._user,
                group=group,
                extra_groups=[] if self._user else None,
                cwd=self.folder,
                check=False,
                timeout=90,
            )
            if done.returncode:
                said.seek(0)
                log = self.folder / "log"
                tail = log.read_text(errors="replace")[-2000:] if log.exists() else ""
                raise RuntimeError(f"{name} failed: {said.read().decode(errors='replace')}\n{tail}")


_servers: list[Server] = []
_numbers: Final = itertools.count(1)
_run: Final = secrets.token_hex(3)


def server(config: pytest.Config) -> Server:
    """The server of this process, which a test may stop and start; skips the test if the server is external."""
    if os.environ.get(VARIABLE):
        pytest.skip(f"the server that {VARIABLE} names is not ours to stop")
    if not _servers:
        tools = binaries()
        if tools is None:
            message = "needs a PostgreSQL server: no initdb in PATH or /usr/lib/postgresql"
            if os.environ.get("CI"):
                pytest.fail(f"{message}: CI runs every test", pytrace=False)
            pytest.skip(message)
        started = Server(tools)
        _servers.append(started)
        config.add_cleanup(started.remove)
        run(started.url, f"CREATE ROLE guarded LOGIN SUPERUSER PASSWORD '{PASSWORD}'")
    return _servers[0]


def base_url(config: pytest.Config) -> str:
    """Where tests may create schemas."""
    return os.environ.get(VARIABLE) or server(config).url


def fresh_url(config: pytest.Config, **options: str) -> str:
    """A URL with a new schema."""
    return with_options(base_url(config), schema=f"t_{_run}_{next(_numbers)}", **options)


def with_options(url: str, **options: str) -> str:
    """*url* with *options* in its query, replacing the earlier ones."""
    parts = urlsplit(url)
    query = {**dict(parse_qsl(parts.query)), **options}
    return urlunsplit(parts._replace(query=_query(query)))


def _query(options: dict[str, str]) -> str:
    return urlencode(options, quote_via=quote)  # libpq does not decode a plus sign as a space


def plain(url: str) -> tuple[str, str]:
    """*url* as libpq expects it, and the schema that it named."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    schema = query.pop("schema", "graphrt")
    for own in ("unsafe", "pool_size", "connect_timeout_s", "busy_timeout_s"):
        query.pop(own, None)
    return f"{parts.scheme}://{parts.netloc}{parts.path}?{_query(query)}", schema


def run(url: str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """Run one statement on its own connection, and return its rows. The lock timeout is bounded."""
    import psycopg

    address, _ = plain(url)
    with psycopg.connect(address, autocommit=True, connect_timeout=60) as connection:
        connection.execute("SET lock_timeout = '60s'")
        found = connection.execute(statement.encode(), values or None)
        return found.fetchall() if found.description else []


def drop(url: str) -> None:
    """Remove the schema of *url*."""
    from psycopg.errors import LockNotAvailable

    _, schema = plain(url)
    try:
        run(url, f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')
    except LockNotAvailable as error:
        open_ = run(
            url, "SELECT pid, state, now() - xact_start, query FROM pg_stat_activity WHERE xact_start IS NOT NULL"
        )
        raise RuntimeError(f"the schema is still in use: {open_}") from error
