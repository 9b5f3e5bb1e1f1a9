"""How the keys of an encrypted store change: added, made current, retired."""

from __future__ import annotations

import secrets

import pytest
import typing_extensions as te
from tests.stores.test_encrypted import AT, BLOB, CANARY, KEYS, filled, path, plain, read_all, refused

from graphrt import START, GraphBuilder, Runtime
from graphrt.stores.encrypted import EncryptedStore
from graphrt.stores.values import Commit, Record

__all__ = ["path", "plain"]
pytestmark = pytest.mark.needs("cryptography")


class Pages(te.TypedDict, total=False):
    first: str
    second: str
    page: str


def test_keys_can_be_rotated(plain):
    old, new = KEYS, {"k2": secrets.token_bytes(32)}
    first = EncryptedStore(plain, old)
    claim = filled(first)
    both = EncryptedStore(plain, {**new, **old})
    both.commit(claim, Commit(1, AT, [Record(2, 1, b"new")], blobs={"n": b"new", BLOB: b"stays"}))

    assert [record.body for record in both.records("t")] == [CANARY, b"new"]
    assert both.blobs("t", [BLOB, "n"]) == {BLOB: CANARY * 50, "n": b"new"}
    refused(lambda: list(first.records("t")), "missing-key")
    refused(lambda: first.load("t"), "missing-key")
    refused(lambda: EncryptedStore(plain, new).load("t"), "missing-key")


def sealing_under_one_key_and_naming_under(named_by, plain):
    """A store whose bodies are sealed with the key k1, and whose names use another key."""
    first = EncryptedStore(plain, {**KEYS, **named_by})
    only = EncryptedStore(plain, named_by)
    first._keys._naming, first._keys._mark = only._keys._naming, only._keys._mark  # type: ignore[misc]
    return first


def test_missing_name_key_is_reported_before_missing_blobs(plain):
    """Without it no blob would be found; any read of the thread reports it."""
    names = {"k0": secrets.token_bytes(32)}
    first = sealing_under_one_key_and_naming_under(names, plain)
    first.release(filled(first))

    error = refused(lambda: EncryptedStore(plain, KEYS).load("t"), "missing-key")
    assert "names of large values" in error.what
    both = EncryptedStore(plain, {**KEYS, **names})
    assert read_all(both) == read_all(EncryptedStore(plain, {**names, **KEYS}))
    assert both.blobs("t", [BLOB]) == {BLOB: CANARY * 50}


@pytest.mark.parametrize("new", ["a-sorts-first", "z-sorts-last"])
@pytest.mark.parametrize("current", ["k1", "new"])
def test_added_key_hides_nothing(plain, new, current):
    """Whatever its id and the current key: older data stays readable, and new data is readable with both."""
    first = EncryptedStore(plain, KEYS)
    claim = filled(first)
    keys = {new: secrets.token_bytes(32), **KEYS}
    both = EncryptedStore(plain, keys, current=new if current == "new" else current)
    both.commit(claim, Commit(1, AT, [Record(2, 1, b"new")], blobs={"n": b"new", BLOB: b"stays"}))

    for reader in (both, EncryptedStore(plain, keys)):
        assert [record.body for record in reader.records("t")] == [CANARY, b"new"]
        assert reader.blobs("t", [BLOB, "n"]) == {BLOB: CANARY * 50, "n": b"new"}
    if current == "k1":
        assert first.blobs("t", [BLOB, "n"]) == {BLOB: CANARY * 50, "n": b"new"}


@pytest.mark.parametrize("names", ["own", "of another key"])
def test_key_is_retired_by_copying(plain, names):
    """The copy uses neither the first key nor one that was used only for names, even after a prune in between."""
    old, first = dict(KEYS), EncryptedStore(plain, KEYS)
    if names == "of another key":
        old["k0"] = secrets.token_bytes(32)
        first = sealing_under_one_key_and_naming_under({"k0": old["k0"]}, plain)
    g = GraphBuilder(Pages)
    g.add_node("write", lambda state: {"page": f"{len(state)}" * 70_000})
    graph = g.add_edge(START, "write").compile()
    Runtime(graph, store=first).run({"first": "F" * 70_000}, thread="t")
    new = {"k2": secrets.token_bytes(32)}
    runtime = Runtime(graph, store=EncryptedStore(plain, {**old, **new}, current="k2"))
    runtime.run({"second": "S" * 70_000}, thread="t")
    assert runtime.prune("t", before=runtime.history("t")[-3].seq) > 0
    values = runtime.state("t").values
    states = [(one.seq, one.values) for one in runtime.history("t")]

    runtime.copy_thread("t", "u")
    runtime.delete_thread("t")

    alone = Runtime(graph, store=EncryptedStore(plain, new))
    assert alone.state("u").values == values
    assert [(one.seq, one.values) for one in alone.history("u")] == states
    alone.copy_thread("u", "v")
    assert alone.state("v").values == values
    assert alone.verify().ok
