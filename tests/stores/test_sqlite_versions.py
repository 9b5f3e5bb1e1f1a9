"""Files of other versions of the schema, and two programs that open one file at once."""

from __future__ import annotations

import ast
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.stores.support import claimed, end, line, opened, other_process, pragma, refused

from graphrt.errors import StoreError
from graphrt.stores.filters import ThreadFilter
from graphrt.stores.sqlite import SqliteStore
from graphrt.stores.sqlite import _schema as schema


@pytest.mark.parametrize("version", [schema.VERSION - 1, schema.VERSION + 1])
def test_file_of_another_version_is_refused_and_unchanged(tmp_path, version):
    path = tmp_path / "runs.db"
    with SqliteStore(path) as store:
        store.release(claimed(store))
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()

    error = refused(path)

    assert error.code == ("store-older" if version < schema.VERSION else "store-newer")
    assert path.read_bytes() == before


def test_file_names_its_application(tmp_path):
    opened(tmp_path / "runs.db").close()

    assert pragma(tmp_path / "runs.db", "application_id") == schema.APPLICATION
    assert pragma(tmp_path / "runs.db", "user_version") == schema.VERSION
    assert pragma(tmp_path / "runs.db", "integrity_check") == "ok"


def test_opening_waits_for_a_process_that_writes(tmp_path):
    """The other process is creating the file: a short lock delays opening, and a long one is busy."""
    path = tmp_path / "runs.db"
    process = other_process(
        """
        import sqlite3, sys
        db = sqlite3.connect(sys.argv[1], isolation_level=None)
        db.execute("BEGIN EXCLUSIVE")
        print("locked", flush=True)
        sys.stdin.readline()
        """,
        path,
    )
    assert line(process) == "locked"
    with pytest.raises(StoreError) as caught:
        SqliteStore(path, busy_timeout_s=0.05).query(ThreadFilter()).query(ThreadFilter()).query(ThreadFilter())
    assert caught.value.code == "store-busy"

    end(process)
    opened(path).close()


def test_no_statement_has_numbered_placeholders():
    """Python 3.12.0 to 3.12.3 treat `?1` as a name, and warn about a sequence of parameters at each call."""
    rooms = Path(schema.__file__).parent.glob("*.py")
    texts = [
        (path.name, node.value)
        for path in rooms
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]

    assert len(texts) > 100
    assert [one for one in texts if re.search(r"\?\d", one[1])] == []
