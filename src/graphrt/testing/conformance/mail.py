"""Clauses on mail and on threads that are due: what a store that offers them promises."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import nan
from typing import Any

from graphrt.errors import ConflictError, InputError
from graphrt.events.status import Status
from graphrt.stores.filters import DueFilter, MailFilter, ThreadFilter
from graphrt.stores.values import Commit, Labels, MailMessage, Question
from graphrt.testing.conformance._world import AT, World, entry, refused, same


def letters_are_kept_in_order(w: World) -> None:
    """Messages are read in the order in which they were posted, until a commit takes them."""
    w.thread("t")
    same([w.store.post("t", name, b"about " + name.encode()) for name in ("z", "a", "ü")], [True] * 3, "posted")
    letters = w.store.query(MailFilter(thread="t"))
    same(
        [(letter.id, letter.body) for letter in letters],
        [("z", b"about z"), ("a", b"about a"), ("ü", b"about \xc3\xbc")],
        "mail",
    )
    same(sorted({letter.place for letter in letters}), [letter.place for letter in letters], "places")


def an_id_is_kept_once(w: World) -> None:
    """A second message with the same id is not kept, neither while the first waits nor after it was taken."""
    w.thread("t")
    w.thread("u")
    same(w.store.post("t", "a", b"one"), True, "the first letter")
    same(w.store.post("t", "a", b"two"), False, "a letter with its id")
    same(w.store.post("u", "a", b"three"), True, "a letter with its id to another thread")
    (letter,) = w.store.query(MailFilter(thread="t"))
    same(letter.body, b"one", "the letter that is kept")
    _take(w, "t", [letter])
    same(w.store.post("t", "a", b"four"), False, "a letter with the id of one that was taken")
    same(w.store.query(MailFilter(thread="t")), [], "mail")


def a_held_thread_gets_mail(w: World) -> None:
    """A message is kept while another owner holds the thread, without affecting that owner's commits."""
    claim = w.held("t")
    same(w.store.post("t", "a", b"x"), True, "a letter to a held thread")
    w.store.commit(claim, Commit(1, AT, [entry(2)]))
    same([letter.id for letter in w.store.query(MailFilter(thread="t"))], ["a"], "mail after a commit that takes none")


def a_commit_takes_letters(w: World) -> None:
    """A commit deletes exactly the messages at its places; a place without a message is skipped."""
    w.thread("u")
    claim = w.held("t")
    for name in ("a", "b", "c"):
        w.store.post("t", name, name.encode())
        w.store.post("u", name, name.encode())
    first, second, third = w.store.query(MailFilter(thread="t"))
    w.store.commit(claim, Commit(1, AT, [entry(2)], taken=[first.place, third.place]))
    same(w.store.query(MailFilter(thread="t")), [second], "mail")
    same(len(w.store.query(MailFilter(thread="u"))), 3, "letters of another thread")
    w.store.commit(claim, Commit(2, AT, taken=[first.place, second.place + 1_000_000]))
    same(w.store.query(MailFilter(thread="t")), [second], "mail after a commit that names no letter")
    w.store.post("t", "d", b"d")
    same([letter.id for letter in w.store.query(MailFilter(thread="t"))], ["b", "d"], "mail after another letter")
    w.store.commit(claim, Commit(2, AT, taken=[letter.place for letter in w.store.query(MailFilter(thread="t"))]))
    same(w.store.query(MailFilter(thread="t")), [], "mail after all were taken")


def a_refused_commit_takes_nothing(w: World) -> None:
    """A refused commit leaves the messages unchanged."""
    claim = w.held("t")
    w.store.post("t", "a", b"x")
    (letter,) = w.store.query(MailFilter(thread="t"))
    refused(ConflictError, lambda: w.store.commit(claim, Commit(7, AT, taken=[letter.place])), "another entry")
    same(w.store.query(MailFilter(thread="t")), [letter], "mail")


def unknown_threads_get_no_mail(w: World) -> None:
    """A message to a thread that does not exist or has no entries is refused; so are invalid ids and bodies."""
    w.claim("empty")
    for thread in ("nobody", "empty"):
        refused(InputError, _call(w.store.post, thread, "a", b"x"), f"a letter to {thread}", code="unknown-thread")
    refused(
        InputError,
        lambda: w.store.query(MailFilter(thread="nobody")),
        "the mail of an unknown thread",
        code="unknown-thread",
    )
    w.thread("t")
    for name in ("", "x" * 201, "a\0b", "\ud800", 7):
        refused(InputError, _call(w.store.post, "t", name, b"x"), f"the id {name!a}", code="bad-letter")
    text: Any = "text"
    refused(InputError, lambda: w.store.post("t", "a", text), "a body that is not bytes", code="bad-letter")
    same(w.store.query(MailFilter(thread="t")), [], "mail")


def mail_goes_with_its_thread(w: World) -> None:
    """Deleting a thread deletes its messages and their remembered ids."""
    w.thread("t")
    w.store.post("t", "taken", b"x")
    _take(w, "t", w.store.query(MailFilter(thread="t")))
    w.store.post("t", "waits", b"x")
    w.store.delete("t")
    w.thread("t")
    same(w.store.query(MailFilter(thread="t")), [], "mail of a thread with the id of a deleted one")
    same([w.store.post("t", name, b"x") for name in ("taken", "waits")], [True] * 2, "its letters")


def threads_with_mail_are_told(w: World) -> None:
    """`mailed` returns those of the named threads that have messages, whoever holds the threads."""
    for thread in ("a", "b", "c"):
        w.thread(thread)
    w.claim("b")
    for thread in ("a", "b", "c"):
        w.store.post(thread, "1", b"x")
    _take(w, "c", w.store.query(MailFilter(thread="c")))
    same(
        sorted([head.thread for head in w.store.query(ThreadFilter(ids=["c", "b", "nobody"], has_mail=True))]),
        ["b"],
        "threads with mail",
    )
    same(
        sorted([head.thread for head in w.store.query(ThreadFilter(ids=[*iter(["a", "b", "c"])], has_mail=True))]),
        ["a", "b"],
        "threads with mail",
    )
    same([head.thread for head in w.store.query(ThreadFilter(ids=[], has_mail=True))], [], "none of no threads")


def letters_of_many_senders_are_all_kept(w: World) -> None:
    """Several threads may post at once: each message is kept once, and each id is reported as kept once."""
    claim = w.held("t")

    def post(number: int) -> bool:
        return w.store.post("t", f"id-{number % 20}", b"%d" % number)

    with ThreadPoolExecutor(4) as pool:
        posted = list(pool.map(post, range(40)))
        w.store.commit(claim, Commit(1, AT, [entry(2)]))
    same(sum(posted), 20, "letters that were kept")
    same(
        sorted(letter.id for letter in w.store.query(MailFilter(thread="t"))),
        sorted(f"id-{n}" for n in range(20)),
        "mail",
    )


def what_is_running_is_due(w: World) -> None:
    """A thread with the status "running" is due unless a living owner holds it; others are not, without mail."""
    for status in ("running", "interrupted", "failed", "cancelled", "completed"):
        w.thread(status, status=status)
    w.thread("held", status="running")
    w.claim("held")
    w.claim("empty")
    same(_due(w), ["running"], "threads that are due")
    same(w.store.query(DueFilter(now=AT))[0], w.store.head("running"), "its head")


def mail_makes_a_thread_due(w: World) -> None:
    """Mail makes a running, paused or completed thread due until it is taken, but not a failed or cancelled one."""
    for status in ("failed", "completed", "cancelled", "interrupted"):
        w.thread(status, status=status)
        w.store.post(status, "a", b"x")
    w.thread("held", status="completed")
    w.store.post("held", "a", b"x")
    w.claim("held")
    same(_due(w), ["completed", "interrupted"], "threads that are due")
    _take(w, "completed", w.store.query(MailFilter(thread="completed")))
    same(_due(w), ["interrupted"], "threads that are due after mail was taken")


def inputs_that_wait_are_seen_in_listings(w: World) -> None:
    """A completed thread with a message that begins a run is listed as running; it does not make a paused one due."""
    for name in ("completed", "interrupted", "failed"):
        w.thread(name, status=name)
        w.store.post(name, "input:queue:1", b"x")
    w.thread("signalled", status="completed")
    w.store.post("signalled", "signal:input:", b"x")
    same(_due(w), ["completed", "signalled"], "threads that are due")
    listed = [(head.thread, head.status) for head in w.store.query(ThreadFilter())]
    shown = [("completed", "running"), ("interrupted", "interrupted"), ("failed", "failed"), ("signalled", "completed")]
    same(listed, shown, "threads with the status that is listed")
    expected: dict[Status, list[str]] = {"running": ["completed"], "completed": ["signalled"], "failed": ["failed"]}
    for status, threads in expected.items():
        same(
            [head.thread for head in w.store.query(ThreadFilter(status=status))], threads, f"threads listed as {status}"
        )
        if "labels" in w.store.offers:
            heads = w.store.query(ThreadFilter(status=status))
            same([head.thread for head in heads], threads, f"threads found as {status}")
    same(w.store.head("completed").status, "completed", "the status of its last commit")
    w.store.post("interrupted", "input:abandon:1", b"x")
    same(_due(w), ["completed", "interrupted", "signalled"], "threads that are due")
    _take(w, "completed", w.store.query(MailFilter(thread="completed")))
    same(
        [head.thread for head in w.store.query(ThreadFilter(status="completed"))],
        ["completed", "signalled"],
        "completed threads",
    )


def time_makes_a_paused_thread_due(w: World) -> None:
    """A paused thread is due once one of its open questions has expired."""
    for thread, status, expires_at in (
        ("later", "interrupted", AT + 20),
        ("sooner", "interrupted", AT + 10),
        ("never", "interrupted", None),
        ("over", "completed", AT),
    ):
        questions = [_question("q"), _question("r", expires_at)]
        w.thread(thread, status=status, questions=questions)
    same(_due(w, AT + 9.5), [], "threads that are due before the first time")
    same(_due(w, AT + 10), ["sooner"], "threads that are due at the first time")
    same(_due(w, AT + 99), ["later", "sooner"], "threads that are due at last")


def due_threads_are_filtered_and_paged(w: World) -> None:
    """Graphs and prefix filter the due threads; pages follow one another in the order of creation."""
    for n in range(6):
        w.thread(f"{'ab'[n % 2]}{n}", status="running" if n % 3 else "completed", graph=f"g{n % 3}")
        w.store.post(f"{'ab'[n % 2]}{n}", "1", b"x")
    same(_due(w), ["a0", "b1", "a2", "b3", "a4", "b5"], "threads that are due")
    same(_due(w, graphs=["g1", "g2"]), ["b1", "a2", "a4", "b5"], "threads of two graphs")
    same(_due(w, graphs=[]), [], "threads of no graph")
    same(_due(w, graphs=["nothing"]), [], "threads of an unknown graph")
    same(_due(w, prefix="a", graphs=["g2", "g0"]), ["a0", "a2"], "threads with a prefix")
    same(_due(w, limit=2), ["a0", "b1"], "a page")
    same(_due(w, limit=2, after="b1"), ["a2", "b3"], "the next page")
    same(_due(w, after="b5"), [], "the page after the last")
    same(_due(w, limit=0), [], "a page of nothing")
    refused(InputError, lambda: w.store.query(DueFilter(now=AT), limit=-1), "a limit below 0", code="input")
    refused(InputError, lambda: w.store.query(DueFilter(now=nan)), "the time NaN", code="input")
    refused(
        InputError, lambda: w.store.query(DueFilter(now=AT), after="nobody"), "an unknown thread", code="unknown-thread"
    )


def threads_of_a_higher_priority_are_due_first(w: World) -> None:
    """Due threads and their pages are ordered by priority, then by creation; a changed priority takes effect."""
    if "labels" not in w.store.offers:
        return
    for name, priority in (("a", 0), ("b", 5), ("c", -3), ("d", 5), ("e", 0), ("f", 1_000_000), ("g", -1_000_000)):
        w.thread(name, status="running", labels=Labels(None, frozenset(), priority))
    w.thread("mailed", status="completed", labels=Labels(None, frozenset(), 7))
    w.store.post("mailed", "1", b"x")
    same(_due(w), ["f", "mailed", "b", "d", "a", "e", "c", "g"], "threads that are due")
    same([head.priority for head in w.store.query(DueFilter(now=AT), limit=3)], [1_000_000, 7, 5], "their priorities")
    same(_due(w, limit=2, after="b"), ["d", "a"], "a page within a priority")
    same(_due(w, after="e"), ["c", "g"], "the page after the last of a priority")
    same((w.store.head("c").priority, w.load("b").head.priority), (-3, 5), "priorities as they are read")
    claim = w.claim("c")
    same(claim.head.priority, -3, "the priority in a claim")
    w.store.commit(claim, Commit(1, AT, labels=Labels("named", frozenset(), 6), release=True))
    same(_due(w, limit=3), ["f", "mailed", "c"], "threads that are due after a change")


def mail_outlives_reopening(w: World) -> None:
    """A reopened durable store has the same messages, and remembers the ids of those that were taken."""
    if not w.store.durable:
        return
    w.thread("t", status="completed")
    for name in ("a", "b"):
        w.store.post("t", name, name.encode())
    _take(w, "t", w.store.query(MailFilter(thread="t"))[:1])
    before = w.store.query(MailFilter(thread="t"))
    again: Any = w.reopen()
    same(again.query(MailFilter(thread="t")), before, "mail")
    same(again.post("t", "a", b"x"), False, "a letter with the id of one that was taken")
    same(_due(w), ["t"], "threads that are due")


def _take(w: World, thread: str, letters: list[MailMessage]) -> None:
    claim = w.claim(thread)
    commit = Commit(claim.head.seq, AT, taken=[letter.place for letter in letters], release=True)
    w.store.commit(claim, commit)


def _due(w: World, now: float = AT, *, after: str | None = None, limit: int | None = None, **words: Any) -> list[str]:
    return [head.thread for head in w.store.query(DueFilter(now=now, **words), after=after, limit=limit)]


def _question(place: str, expires_at: float | None = None) -> Question:
    return Question(place, "question", "n", "g", AT, expires_at, False, body=b"what")


def _call(call: Callable[..., Any], *args: Any) -> Callable[[], Any]:
    return lambda: call(*args)
