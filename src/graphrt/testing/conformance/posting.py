"""Clauses on messages that a commit posts to other threads (`Commit.posts`)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from graphrt.errors import ConflictError, InputError
from graphrt.stores.filters import DueFilter, MailFilter
from graphrt.stores.protocol import Store
from graphrt.stores.values import Commit
from graphrt.testing.conformance._world import AT, World, entry, refused, same


def a_commit_posts_letters_to_other_threads(w: World) -> None:
    """A commit posts its messages in order; threads that do not exist or have no entries are skipped."""
    w.thread("u", status="interrupted")
    w.thread("v", status="completed")
    w.claim("empty")
    claim = w.held("t")
    letters = [("u", "b", b"1"), ("nobody", "b", b"2"), ("v", "b", b"3"), ("empty", "b", b"4"), ("u", "a", b"5")]
    w.store.commit(claim, Commit(1, AT, [entry(2)], posts=letters))
    same(_mail(w.store, "u"), [("b", b"1"), ("a", b"5")], "mail of u")
    same(_mail(w.store, "v"), [("b", b"3")], "mail of v")
    same(_mail(w.store, "t"), [], "mail of the sender")
    same([head.thread for head in w.store.query(DueFilter(now=AT))], ["u", "v"], "threads that are due")
    refused(
        InputError,
        lambda: w.store.query(MailFilter(thread="nobody")),
        "the mail of an unknown thread",
        code="unknown-thread",
    )


def a_posted_id_is_kept_once(w: World) -> None:
    """Only the first of several messages with the same id is kept, from a commit or `post`, even once it was taken."""
    w.thread("u")
    claim = w.held("t")
    w.store.commit(claim, Commit(1, AT, posts=[("u", "a", b"1"), ("u", "a", b"2")]))
    same(w.store.post("u", "a", b"3"), False, "a letter with the id of one that a commit posted")
    same(_mail(w.store, "u"), [("a", b"1")], "mail")
    other = w.claim("u")
    w.store.commit(other, Commit(1, AT, taken=[letter.place for letter in w.store.query(MailFilter(thread="u"))]))
    w.store.commit(claim, Commit(1, AT, posts=[("u", "a", b"4"), ("u", "b", b"5")]))
    same(_mail(w.store, "u"), [("b", b"5")], "mail after a letter with the id of one that was taken")


def a_commit_posts_although_it_writes_nothing_else(w: World) -> None:
    """A commit without records posts its messages, even if it releases its thread or deletes it as empty."""
    w.thread("u")
    for thread, held in (("t", w.held("t")), ("empty", w.claim("empty"))):
        seq = 1 if thread == "t" else 0
        w.store.commit(held, Commit(seq, AT, release=True, posts=[("u", thread, b"x")]))
    same(_mail(w.store, "u"), [("t", b"x"), ("empty", b"x")], "mail")


def a_refused_commit_posts_nothing(w: World) -> None:
    """A refused commit posts none of its messages; a commit with an invalid message is refused completely."""
    w.thread("u")
    claim = w.held("t")
    valid = ("u", "a", b"x")
    refused(ConflictError, lambda: w.store.commit(claim, Commit(7, AT, posts=[valid])), "another entry")
    bad: list[tuple[Any, str]] = [(("u", "", b"x"), "bad-letter"), (("u/", "b", b"x"), "bad-thread")]
    bad.append((("t", "b", b"x"), "bad-commit"))  # to the thread itself
    bad.append((("u", "b", "text"), "bad-letter"))
    for letter, code in bad:
        commit = Commit(1, AT, [entry(2)], posts=[valid, letter])
        refused(InputError, partial(w.store.commit, claim, commit), f"the letter {letter!a}", code=code)
    same(w.store.query(MailFilter(thread="u")), [], "mail")
    same(w.store.head("t").seq, 1, "the last entry")


def posted_letters_are_for_held_threads_too(w: World) -> None:
    """Owners of two threads may post to each other repeatedly while both continue to commit."""
    claims = {thread: w.held(thread) for thread in ("t", "u")}
    rounds = 20

    def commit(thread: str) -> None:
        other = "u" if thread == "t" else "t"
        for seq in range(1, rounds + 1):
            letters = [(other, f"{thread}{seq}", b"x"), (f"{other}-none", "x", b"x")]
            w.store.commit(claims[thread], Commit(seq, AT, [entry(seq + 1)], posts=letters))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(commit, ("t", "u")))
    for thread, other in (("t", "u"), ("u", "t")):
        same(
            [letter.id for letter in w.store.query(MailFilter(thread=thread))],
            [f"{other}{seq}" for seq in range(1, rounds + 1)],
            "mail",
        )
        same(w.store.head(thread).seq, rounds + 1, "the last entry")


def posted_letters_outlive_reopening(w: World) -> None:
    """A reopened durable store has the messages that a commit posted."""
    if not w.store.durable:
        return
    w.thread("u", status="completed")
    claim = w.held("t")
    w.store.commit(claim, Commit(1, AT, [entry(2)], release=True, posts=[("u", "a", b"x")]))
    again: Any = w.reopen()
    same(_mail(again, "u"), [("a", b"x")], "mail")


def _mail(store: Store, thread: str) -> list[tuple[str, Any]]:
    return [(letter.id, letter.body) for letter in store.query(MailFilter(thread=thread))]
