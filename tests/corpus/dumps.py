"""Databases of PostgreSQL as text that any version of the server takes: the tables' definitions, and their rows.

A dump is JSON lines, compressed. The first line has the statements that make the tables, with `{s}` for the schema, the
others have a table's columns and rows each, as COPY writes them. Numbers that the server gives out go on behind those
that are taken.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, Final

TABLES: Final = ("schema_version", "thread", "record", "staged", "snapshot", "blob", "meta")
_COUNTED: Final = {"thread": "no", "staged": "place"}


def dump(connection: Any, schema: str, definitions: list[str], path: Path) -> None:
    """Write the tables of *schema*, which *definitions* made, to *path*."""
    lines: list[Any] = [{"statements": definitions}]
    for table in TABLES:
        found = connection.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s"
            " ORDER BY ordinal_position",
            [schema, table],
        )
        columns = [name for (name,) in found]
        with connection.cursor().copy(_copy(schema, table, columns, "TO STDOUT")) as copy:
            rows = b"".join(bytes(piece) for piece in copy).decode()
        lines.append({"table": table, "columns": columns, "rows": rows.splitlines()})
    text = "".join(json.dumps(line) + "\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def load(connection: Any, schema: str, path: Path) -> Dump:
    """Make *schema* what the dump at *path* says."""
    definitions, *tables = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    connection.execute(f'CREATE SCHEMA "{schema}"')
    for statement in definitions["statements"]:
        connection.execute(statement.replace("{s}", f'"{schema}"'))
    found = Dump(connection, schema, {table["table"]: (table["columns"], table["rows"]) for table in tables})
    found.fill()
    return found


class Dump:
    """A dump in a schema, of which single threads can be put back as they were."""

    def __init__(self, connection: Any, schema: str, tables: dict[str, tuple[list[str], list[str]]]) -> None:
        self._connection = connection
        self._schema = schema
        self._tables = tables
        columns, rows = tables["thread"]
        split = [row.split("\t") for row in rows]
        self.numbers = {row[columns.index("id")]: row[columns.index("no")] for row in split}
        """Of each thread."""

    def fill(self) -> None:
        """Write all rows into empty tables."""
        for table, (_, rows) in self._tables.items():
            self._write(table, rows)
        for table, column in _COUNTED.items():
            named = f'"{self._schema}".{table}'
            self._connection.execute(
                f"SELECT setval(pg_get_serial_sequence('{named}', '{column}'), (SELECT max({column}) + 1 FROM {named}))"
            )

    def put_back(self, thread: str) -> None:
        """Let *thread* be as it was, and forget those that came after the dump was loaded."""
        number = self.numbers[thread]
        newest = max(map(int, self.numbers.values()))
        for table in TABLES[1:]:
            columns, rows = self._tables[table]
            place = columns.index("no")
            self._connection.execute(f'DELETE FROM "{self._schema}".{table} WHERE no = {number} OR no > {newest}')
            self._write(table, [row for row in rows if row.split("\t")[place] == number])

    def _write(self, table: str, rows: list[str]) -> None:
        columns = self._tables[table][0]
        if rows:
            with self._connection.cursor().copy(_copy(self._schema, table, columns, "FROM STDIN")) as copy:
                copy.write("".join(f"{row}\n" for row in rows))


def _copy(schema: str, table: str, columns: list[str], where: str) -> str:
    names = ", ".join(f'"{name}"' for name in columns)
    return f'COPY "{schema}".{table} ({names}) {where}'
