"""Clauses on the memory across threads, for stores that offer it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import nan
from typing import Any

from graphrt.errors import ConflictError, InputError
from graphrt.stores._vectors import packed
from graphrt.stores.filters import MemoryFilter, NamespaceFilter
from graphrt.stores.protocol import Store
from graphrt.stores.values import Commit, MemoryWrite, StoredItem
from graphrt.testing.conformance._world import AT, World, entry, refused, same


def an_item_is_read_as_it_was_written(w: World) -> None:
    """An item has the bytes, times and key of its write; a second write replaces it but keeps the creation time."""
    w.store.write_memory([_write("a/b", "ключ", b"\0\n\xff", until=AT + 60)], at=AT)
    same(_items(w.store, "a/b"), [StoredItem("a/b", "ключ", b"\0\n\xff", AT, AT, AT + 60)], "items")
    w.store.write_memory([_write("a/b", "ключ", b"")], at=AT + 1)
    same(_items(w.store, "a/b", key="ключ"), [StoredItem("a/b", "ключ", b"", AT, AT + 1, None)], "items")
    same(_items(w.store, "a/b", key="key"), [], "items under another key")


def an_item_is_deleted_with_its_words(w: World) -> None:
    """A write without a body deletes the item; of several writes of one item the last one counts."""
    w.store.write_memory([_write("a", "k", b"1", "tea"), _write("a", "l", b"2", "tea")], at=AT)
    w.store.write_memory([_write("a", "k", b"3", "tea"), _write("a", "k", None), _write("a", "m", None)], at=AT)
    same([item.key for item in _items(w.store, "a")], ["l"], "items")
    same([item.key for item in _items(w.store, "a", words=("tea",))], ["l"], "items with a word")
    w.store.write_memory([_write("a", "l", None), _write("a", "l", b"4")], at=AT)
    same([item.body for item in _items(w.store, "a")], [b"4"], "items")
    same(_items(w.store, "a", words=("tea",)), [], "items with a word of a value that was replaced")


def a_namespace_contains_those_below_it(w: World) -> None:
    """A namespace contains its own items and those of the namespaces below it, and no others."""
    names = ["a", "a/b", "a/b/c", "a-b", "a0", "ab", "b", "a/b.c"]
    w.store.write_memory([_write(name, "k", name.encode()) for name in names], at=AT)
    same(_names(w.store, "a"), ["a", "a/b.c", "a/b", "a/b/c"], "namespaces below one")
    same(_names(w.store, "a/b"), ["a/b", "a/b/c"], "namespaces below one")
    same(_names(w.store, "c"), [], "namespaces below one without items")
    same(sorted(_names(w.store, "")), sorted(names), "all namespaces")
    same(sorted(item.namespace for item in _items(w.store, "a")), ["a", "a/b", "a/b.c", "a/b/c"], "items below one")
    same([item.namespace for item in _items(w.store, "a", key="k")], ["a"], "items under a key")
    first = w.store.query(NamespaceFilter(now=AT), limit=3)
    rest = w.store.query(NamespaceFilter(now=AT), after=first[-1])
    same(first + rest, _names(w.store, ""), "pages of namespaces")


def items_are_listed_the_newest_first(w: World) -> None:
    """Items are listed by the time of their last write, the newest first, and then by namespace and key."""
    for number, (name, key) in enumerate([("a", "1"), ("b", "2"), ("a", "3")]):
        w.store.write_memory([_write(name, key)], at=AT + number)
    w.store.write_memory([_write("a", "1"), _write("a", "0")], at=AT + 2)
    same([item.key for item in _items(w.store, "")], ["0", "1", "3", "2"], "items")
    same([item.key for item in w.store.query(MemoryFilter(now=AT), limit=2)], ["0", "1"], "the first items")


def items_are_found_by_their_words(w: World) -> None:
    """A search finds the items that have one of its words; those with more, and with rarer ones, come first."""
    texts = {"tea": "drinks tea daily", "milk": "drinks milk", "both": "tea milk", "none": "likes cats"}
    for number, (key, text) in enumerate(texts.items()):
        w.store.write_memory([_write("a/b", key, b"x", *text.split())], at=AT + number)
    w.store.write_memory([_write("z", "far", b"x", "tea", "milk")], at=AT)
    items = _items(w.store, "a", words=("tea", "milk"))
    same([item.key for item in items], ["both", "milk", "tea"], "items")
    same([item.score for item in items], [1.0, 0.5, 0.5], "scores")
    rare = _items(w.store, "a", words=("drinks", "cats", "dogs"))
    same([item.key for item in rare], ["none", "milk", "tea"], "items with a rare word, and with a frequent one")
    same([item.score for item in rare], [0.28668, 0.165047, 0.165047], "scores")
    same(
        [item.key for item in w.store.query(MemoryFilter(now=AT, words=("tea",)), limit=1)], ["both"], "the first item"
    )
    same([item.key for item in _items(w.store, "a/b", key="tea", words=("tea", "milk"))], ["tea"], "an item by its key")
    same(_items(w.store, "a", words=("te", "teas", "%")), [], "items with parts of words")


def items_are_found_by_their_meaning(w: World) -> None:
    """A search with a vector ranks items by the mean of their share of the words and the similarity of their vector."""
    items = {"same": (3, 4), "near": (4, 3), "right angle": (-4, 3), "opposite": (-3, -4), "no direction": (0, 0)}
    for number, (key, numbers) in enumerate(items.items()):
        w.store.write_memory([_write("a/b", key, b"x", vector=packed(numbers))], at=AT + number)
    w.store.write_memory([_write("a", "no vector", b"x", "tea"), _write("z", "far", vector=packed((3, 4)))], at=AT)
    meaning = packed((30, 40))
    matching = _items(w.store, "a", vector=meaning)
    same([(item.key, item.score) for item in matching], [("same", 0.5), ("near", 0.48)], "items by their meaning alone")
    same([item.vector for item in matching], [packed((3, 4)), packed((4, 3))], "vectors")
    matching = _items(w.store, "a", vector=meaning, words=("tea", "tea"))
    same([item.key for item in matching], ["no vector", "same", "near"], "items by meaning and words")
    same([item.score for item in matching], [0.5, 0.5, 0.48], "scores")
    w.store.write_memory([_write("a/b", "near", b"x", "tea", vector=packed((4, 3)))], at=AT + 9)
    matching = w.store.query(MemoryFilter(now=AT, namespace="a", vector=meaning, words=("tea",)), limit=1)
    same([(item.key, item.score) for item in matching], [("near", 0.98)], "the first item")
    same([item.key for item in _items(w.store, "a", words=("tea",))], ["near", "no vector"], "items by words alone")


def vectors_of_another_length_are_refused(w: World) -> None:
    """A vector search is refused if an item has a vector of another length; rewriting an item replaces its vector."""
    w.store.write_memory([_write("a", "k", vector=packed((1, 0))), _write("b", "k", vector=packed((1,)))], at=AT)
    refused(InputError, lambda: _items(w.store, "", vector=packed((1,))), "another length", code="bad-memory")
    same([item.namespace for item in _items(w.store, "b", vector=packed((1,)))], ["b"], "items of one namespace")
    w.store.write_memory([_write("a", "k", vector=packed((1,)))], at=AT)
    same(len(_items(w.store, "", vector=packed((1,)))), 2, "items that were embedded again")
    w.store.write_memory([_write("a", "k")], at=AT)
    same([item.vector for item in _items(w.store, "a")], [None], "the vector of an item that was written without")
    bad = _write("a", "k", vector=b"123")
    refused(InputError, lambda: w.store.write_memory([bad], at=AT), "no vector", code="bad-memory")


def an_expired_item_is_not_listed(w: World) -> None:
    """An expired item is in no list, and counts as new when it is written again."""
    w.store.write_memory([_write("a", "k", b"1", "tea", until=AT + 10), _write("a", "l", b"2", "tea")], at=AT)
    late = AT + 10
    same([item.key for item in _items(w.store, "a", now=late - 1)], ["k", "l"], "items before the end")
    same([item.key for item in _items(w.store, "a", now=late)], ["l"], "items at the end")
    same([item.key for item in _items(w.store, "a", now=late, words=("tea",))], ["l"], "what a search finds")
    same(_items(w.store, "a", now=late, words=("tea",))[0].score, 1.0, "the score without it")
    w.store.write_memory([_write("a", "k", b"3")], at=late)
    same([item.created_at for item in _items(w.store, "a", key="k")], [late], "when it was made")
    refused(InputError, lambda: _items(w.store, "a", now=nan), "the time NaN")


def expired_items_are_purged(w: World) -> None:
    """A purge deletes exactly the expired items of its namespace."""
    writes = [_write("a", "1", until=AT + 1), _write("a/b", "2", until=AT + 2), _write("b", "3", until=AT + 1)]
    w.store.write_memory([*writes, _write("a", "4")], at=AT)
    same(w.store.purge_memory(expired_by=AT + 1, namespace="a"), 1, "items that were deleted")
    same(sorted(item.key for item in _items(w.store, "")), ["2", "3", "4"], "items")
    same(w.store.purge_memory(expired_by=AT + 5), 2, "items that were deleted")
    same([item.key for item in _items(w.store, "")], ["4"], "items")


def a_commit_writes_to_the_memory(w: World) -> None:
    """A commit, even one without records, writes to the memory in its transaction; a refused commit writes nothing."""
    claim = w.held("t")
    w.store.commit(claim, Commit(1, AT + 1, [entry(2)], memory=[_write("a", "k", b"1", "tea")]))
    w.store.commit(claim, Commit(2, AT + 2, memory=[_write("a", "l", b"2"), _write("a", "k", b"3", "milk")]))
    want = [StoredItem("a", "k", b"3", AT + 1, AT + 2, None), StoredItem("a", "l", b"2", AT + 2, AT + 2, None)]
    same(_items(w.store, "a"), want, "items")
    same([item.key for item in _items(w.store, "a", words=("tea", "milk"))], ["k"], "items with a word")
    deletions = [_write("a", "k", None)]
    refused(ConflictError, lambda: w.store.commit(claim, Commit(7, AT, memory=deletions)), "another entry")
    bad = Commit(2, AT, [entry(3)], memory=[*deletions, _write("a b", "k")])
    refused(InputError, lambda: w.store.commit(claim, bad), "a bad namespace", code="bad-namespace")
    same(_items(w.store, "a"), want, "items")
    same(w.store.head("t").seq, 2, "the last entry")
    w.store.commit(claim, Commit(2, AT + 3, [entry(3)], release=True, memory=deletions))
    same([item.key for item in _items(w.store, "a")], ["l"], "items after a deletion")
    w.store.delete("t")
    same([item.key for item in _items(w.store, "a")], ["l"], "items after the thread was deleted")


def what_cannot_be_kept_is_refused(w: World) -> None:
    """Namespaces, keys and bodies that cannot be kept are refused, and nothing is written."""
    bad: list[tuple[Any, str]] = [
        (_write(name, "k"), "bad-namespace") for name in ("", "/a", "a/", "a//b", "ä", "a" * 201)
    ]
    bad += [(_write("a", key), "bad-memory") for key in ("", "\0", "\ud800", "k" * 201)]
    bad += [(_write("a", "k", body), "bad-memory") for body in (bytes(65_537), "text")]
    bad.append((_write("a", "k", b"", "black tea"), "bad-memory"))
    for write, code in bad:
        call = partial(w.store.write_memory, [_write("a", "fine"), write], at=AT)
        refused(InputError, call, f"the item {write!a:.80}", code=code)
    same(_items(w.store, ""), [], "items")


def writers_of_one_item_do_not_stop_each_other(w: World) -> None:
    """Commits of two threads that write the same items all succeed, and the items are those of one of them."""
    claims = {thread: w.held(thread) for thread in ("t", "u")}

    def commit(thread: str) -> None:
        for seq in range(1, 11):
            keys = ["x", "y"] if thread == "t" else ["y", "x"]
            writes = [_write("a", key, thread.encode(), thread) for key in keys]
            w.store.commit(claims[thread], Commit(seq, AT, [entry(seq + 1)], memory=writes))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(commit, claims))
    items = _items(w.store, "a")
    same([item.key for item in items], ["x", "y"], "items")
    same(len({bytes(item.body) for item in items}), 1, "threads that wrote what is there")
    same(len(_items(w.store, "a", words=(items[0].body.decode(),))), 2, "items with the word of that thread")


def the_memory_outlives_reopening(w: World) -> None:
    """A durable store still has the memory after it is reopened."""
    if not w.store.durable:
        return
    w.store.commit(w.held("t"), Commit(1, AT, [entry(2)], memory=[_write("a", "k", b"1", "tea")]))
    w.store.write_memory([_write("a", "l", b"2", "tea")], at=AT)
    again = w.reopen()
    same([item.key for item in _items(again, "a", words=("tea",))], ["k", "l"], "items")


def _write(
    namespace: str, key: str, body: Any = b"x", *words: str, until: float | None = None, vector: bytes | None = None
) -> MemoryWrite:
    return MemoryWrite(namespace, key, body, words, until, vector)


def _items(store: Store, namespace: str, *, now: float = AT, **rest: Any) -> list[StoredItem]:
    return store.query(MemoryFilter(now=now, namespace=namespace, **rest))


def _names(store: Store, namespace: str) -> list[str]:
    return store.query(NamespaceFilter(now=AT, namespace=namespace))
