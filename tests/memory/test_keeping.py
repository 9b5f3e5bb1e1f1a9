"""Erasure, export, encryption and retention cover the memory."""

from __future__ import annotations

import io
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import typing_extensions as te
from tests.patience import eventually

from graphrt import END, START, Context, GraphBuilder, Runtime
from graphrt.errors import GraphrtError, InputError, StoreError
from graphrt.stores import EncryptedStore, MemoryStore, SqliteStore, TenantStore
from graphrt.testing import conformance
from graphrt.workers import Retention, Worker

PERSON = "Ada Lovelace"


class State(te.TypedDict, total=False):
    note: str


def graph() -> Any:
    g = GraphBuilder(State, name="desk")

    @g.node
    def put(state: State, ctx: Context) -> None:
        ctx.memory.search("notes", "nothing")
        ctx.memory.put("notes", state.get("note", ""), {"of": [state.get("note")]})

    g.add_sequence([START, put, END])
    return g.compile()


def files_with(folder: Path, text: str) -> list[str]:
    return [path.name for path in sorted(folder.iterdir()) if text.encode() in path.read_bytes()]


def test_no_file_contains_the_person_after_an_erasure(tmp_path: Path) -> None:
    with Runtime(graph(), store=SqliteStore(tmp_path / "runs.db")) as runtime:
        runtime.run({"note": PERSON}, thread="t")
        runtime.run({"note": "tea"}, thread="u")
        runtime.memory.put("notes", "letter", f"by {PERSON}")
        assert runtime.erase(PERSON, dry_run=True).items == 2
        assert len(runtime.memory.search("notes", "Ada")) == 2
        report = runtime.erase(PERSON)

        assert report.items == 2
        assert "2 items of the memory were erased" in str(report)
        assert files_with(tmp_path, PERSON) == []
        assert files_with(tmp_path, "lovelace") == []
        assert [item.key for item in runtime.memory.search("notes")] == ["tea"]
        assert runtime.verify().ok


def test_erasure_of_a_tenant_leaves_the_memory_of_others() -> None:
    shared = MemoryStore()
    with (
        Runtime(graph(), store=TenantStore(shared, "a")) as one,
        Runtime(graph(), store=TenantStore(shared, "b")) as two,
    ):
        for runtime in (one, two):
            runtime.memory.put("notes", "k", PERSON)

        assert one.erase(PERSON).items == 1
        assert [item.value for item in two.memory.search()] == [PERSON]


@pytest.mark.parametrize("clause", [one for one in conformance.CLAUSES if one.theme == "memory"], ids=repr)
def test_store_of_a_tenant_satisfies_the_clauses_about_the_memory(clause: conformance.Clause) -> None:
    clause(lambda: TenantStore(MemoryStore(), "acme"))


def test_memory_moves_to_another_store_by_a_file(tmp_path: Path) -> None:
    with (
        Runtime(graph(), store="memory:") as source,
        Runtime(graph(), store=SqliteStore(tmp_path / "runs.db")) as target,
    ):
        source.memory.put("notes/a", "k", {"likes": ("tea", 1)}, expires_at=4e9)
        source.memory.put("other", "k", 1)

        assert source.memory.export(tmp_path / "notes.jsonl", "notes") == 1
        assert target.memory.import_items(tmp_path / "notes.jsonl") == 1
        [item] = target.memory.search("", "tea")
        assert (item.namespace, item.key, item.value, item.expires_at) == ("notes/a", "k", {"likes": ("tea", 1)}, 4e9)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "bad-archive"),
        (b'{"namespace": 1}\n', "bad-archive"),
        (b'{"form": 1}\n', "bad-archive"),
        (b'{"form": "graphrt-memory/0"}\n', "bad-archive"),
        (b'{"form": "graphrt-memory/1"}\n', "bad-archive"),
        (b'{"form": "graphrt-memory/1", "items": 1}\n{"namespace": 1}\n', "bad-archive"),
        (b'{"form": "graphrt-memory/1", "items": 1}\n', "bad-archive"),  # cut at the end of a line
        (b'{"form": "graphrt-memory/2"}\n{"namespace": 1}\n', "store-newer"),
    ],
)
def test_file_that_is_not_an_export_or_has_a_newer_form_is_refused(content: bytes, code: str) -> None:
    with Runtime(graph(), store="memory:") as runtime, pytest.raises(GraphrtError) as refused:
        runtime.memory.import_items(io.BytesIO(content))
    assert refused.value.code == code


@pytest.mark.parametrize(
    "part",
    ['"expires_at":"2027-01-01"', '"expires_at":true', '"expires_at":NaN', f'"expires_at":1{"0" * 400}',
     '"vector":"AAA="', '"vector":5'],
)  # fmt: skip
def test_item_with_a_wrong_part_is_refused_with_its_line(part: str) -> None:
    item = '{"namespace":"a","key":"k","body":"1","vector":null,"expires_at":null,' + part + "}\n"
    content = '{"form":"graphrt-memory/1","items":1}\n' + item
    with Runtime(graph(), store="memory:") as runtime, pytest.raises(InputError, match="Line 2 is not") as refused:
        runtime.memory.import_items(io.BytesIO(content.encode()))
    assert refused.value.code == "bad-archive"


@pytest.mark.needs("cryptography")
def test_encrypted_store_reveals_neither_values_nor_words(tmp_path: Path) -> None:
    store = EncryptedStore(SqliteStore(tmp_path / "runs.db"), {"k": bytes(range(32))})
    with Runtime(graph(), store=store) as runtime:
        runtime.memory.put("notes", "k", PERSON)
        assert [item.value for item in runtime.memory.search("notes", "lovelace")] == [PERSON]
        with pytest.raises(InputError) as refused:
            runtime.memory.export(io.BytesIO())
        assert refused.value.code == "export-decrypted"
        assert runtime.memory.export(io.BytesIO(), decrypted=True) == 1
    assert files_with(tmp_path, PERSON) == files_with(tmp_path, "lovelace") == []


@pytest.mark.needs("cryptography")
def test_encrypted_store_keeps_values_of_every_size_that_other_stores_keep() -> None:
    """Words and vector, which are sealed with a value, do not count as a part of it."""
    text = " ".join(f"word{number}" for number in range(6_700))
    with Runtime(graph(), store=EncryptedStore(MemoryStore(), {"k": bytes(range(32))})) as runtime:
        runtime.memory.put("notes", "k", text)
        assert runtime.run({"note": text[:100]}, thread="t").status == "completed"
        with pytest.raises(InputError, match="65,537 bytes"):
            runtime.memory.put("notes", "k", "x" * 65_535)

        assert [item.value for item in runtime.memory.search("notes", "word1000")] == [text]


@pytest.mark.needs("cryptography")
def test_item_that_is_read_without_keys_or_with_wrong_ones_names_the_reason() -> None:
    store = MemoryStore()
    Runtime(graph(), store=EncryptedStore(store, {"k": bytes(range(32))})).memory.put("notes", "k", PERSON)
    memory = Runtime(graph(), store=store).memory
    for read in (lambda: memory.get("notes", "k"), memory.search, lambda: memory.export(io.BytesIO())):
        with pytest.raises(StoreError, match="The memory is encrypted") as refused:
            read()
        assert refused.value.code == "missing-key"

    wrong = Runtime(graph(), store=EncryptedStore(store, {"k": bytes(range(1, 33))})).memory
    with pytest.raises(StoreError, match="Where: namespace 'notes' of the memory, key 'k'") as refused:
        wrong.get("notes", "k")
    assert (refused.value.code, refused.value.thread) == ("store-damaged", None)


def test_failed_write_to_the_memory_names_no_thread(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "runs.db", busy_timeout_s=0.01) as store:
        memory = Runtime(graph(), store=store).memory
        memory.put("notes", "k", 1)
        with closing(sqlite3.connect(tmp_path / "runs.db")) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError) as refused:
                memory.put("notes", "k", 2)

    assert refused.value.code == "store-busy"
    assert "thread ''" not in str(refused.value)


def test_worker_with_retention_deletes_expired_items() -> None:
    store = MemoryStore()
    past = Runtime(graph(), store=store, clock=lambda: 1_000.0)
    past.memory.put("notes", "old", 1, expires_s=1)
    past.memory.put("notes", "kept", 2)
    with Worker(Runtime(graph(), store=store), poll_s=0.01, retention=[Retention(older_than=1e9)]):
        eventually(lambda: len(past.memory.search()) == 1)

    assert [item.key for item in past.memory.search()] == ["kept"]


@pytest.mark.parametrize("text", ["हिन्दी चाय", "العَرَبِيَّة", "İstanbul"])
def test_word_has_its_combining_marks(text: str) -> None:
    with Runtime(graph(), store="memory:") as runtime:
        runtime.memory.put("notes", "1", text)
        runtime.memory.put("notes", "2", " ".join(text))

        assert [item.key for item in runtime.memory.search("notes", text.split(maxsplit=1)[0])] == ["1"]
