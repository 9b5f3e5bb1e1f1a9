"""Clauses on labels, open questions and tenants: what a store that offers them promises."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import nan
from typing import Any

from graphrt.errors import ConflictError, InputError
from graphrt.stores.filters import QuestionFilter, ThreadFilter
from graphrt.stores.protocol import Store
from graphrt.stores.values import Commit, Head, Labels, Question
from graphrt.testing.conformance._world import AT, World, entry, refused, same


def labels_are_shown_by_every_head(w: World) -> None:
    """Title and tags of a commit are in `head`, `query`, `load` and the next claim."""
    w.store.commit(w.claim(), Commit(0, AT, [entry(1)], labels=Labels("A title", frozenset({"b", "a"})), release=True))
    heads = [
        w.store.head("t"),
        *w.store.query(ThreadFilter()),
        *w.store.query(ThreadFilter(tags=frozenset({"a"}))),
        w.load().head,
        w.claim().head,
    ]
    same([(head.title, head.tags) for head in heads], [("A title", frozenset({"a", "b"}))] * 5, "labels")


def labels_stay_until_they_are_replaced(w: World) -> None:
    """A commit without labels keeps them; one with labels replaces or removes both title and tags."""
    claim = w.claim()
    w.store.commit(claim, Commit(0, AT, [entry(1)], labels=Labels("one", frozenset({"a", "b"}))))
    w.store.commit(claim, Commit(1, AT, [entry(2)]))
    same(_labels(w.store.head("t")), ("one", ["a", "b"]), "labels after a commit without")
    w.store.commit(claim, Commit(2, AT, labels=Labels(None, frozenset({"b", "c"}))))
    same(_labels(w.store.head("t")), (None, ["b", "c"]), "labels that were replaced")
    same(_ids(w.store, tags=frozenset({"a"})), [], "threads with the old tag")
    w.store.commit(claim, Commit(2, AT, labels=Labels()))
    same(_labels(w.store.head("t")), (None, []), "labels that were taken away")
    same(_ids(w.store, tags=frozenset({"c"})), [], "threads with a tag that was taken away")


def a_refused_commit_changes_no_label(w: World) -> None:
    """Labels and questions of a commit that is refused are not written."""
    w.thread("t")
    claim = w.claim("t")
    commit = Commit(9, AT, labels=Labels("no"), questions=[_question("q")])
    refused(ConflictError, lambda: w.store.commit(claim, commit), "a commit of another entry")
    same(w.store.head("t").title, None, "title")
    same(w.store.questions("t"), [], "questions")


def find_by_all_tags(w: World) -> None:
    """`tags` lists the threads that have all of them, compared exactly."""
    _some(w)
    same(_ids(w.store, tags=frozenset({"x"})), ["a", "b", "c"], "threads with x")
    same(_ids(w.store, tags=frozenset({"x", "y"})), ["a", "c"], "threads with x and y")
    same(_ids(w.store, tags=frozenset({"X"})), [], "threads with X")
    same(_ids(w.store, tags=frozenset({"x", "nobody has this"})), [], "threads with an unknown tag")


def find_by_title(w: World) -> None:
    """`title` lists threads whose title contains the text, upper or lower case, without wildcards."""
    _some(w)
    same(_ids(w.store, title="PRICE"), ["a", "b"], "titles with PRICE")
    same(_ids(w.store, title="über"), ["b"], "titles with über")
    same(_ids(w.store, title="%"), ["c"], "titles with %")
    same(_ids(w.store, title="pr_ce"), [], "titles with a wildcard")


def find_by_everything(w: World) -> None:
    """All filters apply together, including those of `heads` and both time bounds."""
    _some(w)
    same(_ids(w.store, tags=frozenset({"x"}), status="failed"), ["b"], "failed threads with x")
    same(_ids(w.store, tags=frozenset({"y"}), title="price", graph="g"), ["a"], "threads of g")
    same(_ids(w.store, prefix="c", tags=frozenset({"x"})), ["c"], "threads that begin with c")
    same(_ids(w.store, updated_after=AT + 1, updated_before=AT + 2), ["b"], "threads by time")
    same(_ids(w.store), ["a", "b", "c", "d"], "all threads")


def find_in_pages(w: World) -> None:
    """Pages follow one another without a gap, the oldest or the newest thread first, with any other filter."""
    _some(w)
    for newest_first in (False, True):
        for wanted in (ThreadFilter(), ThreadFilter(tags=frozenset({"x"})), ThreadFilter(title="e")):
            all_ids = [head.thread for head in w.store.query(replace(wanted, newest_first=newest_first))]
            paged: list[str] = []
            while len(paged) < 20:
                page = w.store.query(
                    replace(wanted, newest_first=newest_first), after=paged[-1] if paged else None, limit=2
                )
                paged += [head.thread for head in page]
                if len(page) < 2:
                    break
            same(paged, all_ids, f"pages, newest first: {newest_first}")
            same(all_ids, sorted(all_ids, reverse=newest_first), "order")
    refused(InputError, lambda: w.store.query(ThreadFilter(), after="nobody"), "an unknown thread to continue from")
    refused(InputError, lambda: w.store.query(ThreadFilter(), limit=-1), "a limit below 0")
    for wanted in (ThreadFilter(updated_after=nan), ThreadFilter(updated_before=nan)):
        refused(InputError, partial(w.store.query, wanted), "the time NaN")


def questions_are_replaced_as_a_whole(w: World) -> None:
    """The questions of a commit replace all listed ones; a commit without questions keeps them."""
    claim = w.claim()
    first, second, third = (_question(place) for place in ("1", "2", "3"))
    w.store.commit(claim, Commit(0, AT, [entry(1)], questions=[second, first]))
    w.store.commit(claim, Commit(1, AT, [entry(2)]))
    same(w.store.questions("t"), [first, second], "questions")
    w.store.commit(claim, Commit(2, AT, questions=[second, third]))
    same(w.store.questions("t"), [second, third], "questions that were replaced")
    w.store.commit(claim, Commit(2, AT, questions=[]))
    same(w.store.questions("t"), [], "questions after the last was answered")
    refused(InputError, lambda: w.store.questions("nobody"), "the questions of an unknown thread")


def a_question_keeps_its_time(w: World) -> None:
    """A question that is already listed keeps `asked_at`; the last commit determines everything else."""
    claim = w.claim()
    first = _question("q")
    w.store.commit(claim, Commit(0, AT, [entry(1)], questions=[first]))
    later = first._replace(asked_at=AT + 50, stale=True, expires_at=AT + 60, node="m", kind="k", graph="h")
    w.store.commit(claim, Commit(1, AT, questions=[later]))
    same(w.store.questions("t"), [later._replace(asked_at=first.asked_at)], "questions")


def the_inbox_is_in_order_of_asking(w: World) -> None:
    """The inbox has the oldest question first, and its pages follow one another without a gap."""
    _asked(w)
    all_questions = [(item.head.thread, item.question.place) for item in w.store.query(QuestionFilter())]
    same(all_questions, [("b", "q"), ("a", "q"), ("a", "r"), ("c", "q")], "inbox")
    paged: list[Any] = []
    after: str | None = None
    while page := w.store.query(QuestionFilter(), after=after, limit=1):
        paged += [(item.head.thread, item.question.place) for item in page]
        after = page[-1].token
    same(paged, all_questions, "pages")


def the_inbox_goes_on_after_an_answer(w: World) -> None:
    """A token stays valid if its question is answered, and even if its thread is deleted."""
    _asked(w)
    token = w.store.query(QuestionFilter(), limit=1)[0].token
    w.store.delete("b")
    same([item.head.thread for item in w.store.query(QuestionFilter(), after=token)], ["a", "a", "c"], "the next page")
    for wrong in ("", "nonsense", "bm9uc2Vuc2U", token[:-3], "é"):
        refused(InputError, partial(w.store.query, QuestionFilter(), after=wrong), f"token {wrong!r}")
    refused(InputError, lambda: w.store.query(QuestionFilter(), limit=-1), "a limit below 0")


def the_inbox_is_filtered(w: World) -> None:
    """Kind, graph, node and tags filter the inbox, together; an item has head and question of its thread."""
    _asked(w)
    for wanted, threads in (
        (QuestionFilter(kind="approval"), ["b"]),
        (QuestionFilter(kind="approval", without=frozenset({"approval"})), ["b"]),
        (QuestionFilter(without=frozenset({"question"})), ["b"]),
        (QuestionFilter(node="other"), ["c"]),
        (QuestionFilter(graph="h"), ["c"]),
        (QuestionFilter(tags=frozenset({"x"})), ["b", "a", "a"]),
        (QuestionFilter(tags=frozenset({"x", "y"}), kind="question"), ["a", "a"]),
        (QuestionFilter(tags=frozenset({"nobody has this"})), []),
        (QuestionFilter(tenant="nobody"), []),
    ):
        same([listed.head.thread for listed in w.store.query(wanted)], threads, f"inbox of {wanted}")
    (item,) = w.store.query(QuestionFilter(kind="approval"))
    same(tuple(item.head), tuple(w.store.head("b")), "head")
    same(item.question, w.store.questions("b")[0], "question")


def a_deleted_thread_leaves_no_labels(w: World) -> None:
    """A thread with the id of a deleted one does not have its labels and questions."""
    _asked(w)
    w.store.delete("a")
    w.thread("a")
    same(_labels(w.store.head("a")), (None, []), "labels")
    same(w.store.questions("a"), [], "questions")
    same(_ids(w.store, tags=frozenset({"y"})), [], "threads with its tag")


def a_tenant_has_its_own_threads(w: World) -> None:
    """A thread whose id names a tenant is found by the tenant, as are its questions."""
    if getattr(w.store, "tenant", None) is not None:
        return
    for thread in ("acme~a", "a", "acme2~a", "acme~b"):
        commit = Commit(0, AT, [entry(1)], questions=[_question("q")], release=True)
        w.store.commit(w.claim(thread), commit)
    same(_ids(w.store, tenant="acme"), ["acme~a", "acme~b"], "threads of the tenant")
    same([head.tenant for head in w.store.query(ThreadFilter())], ["acme", None, "acme2", "acme"], "tenants")
    asked = w.store.query(QuestionFilter(tenant="acme"))
    same([item.head.thread for item in asked], ["acme~a", "acme~b"], "questions of the tenant")
    same(_ids(w.store, tenant="acme", prefix="acme~b"), ["acme~b"], "threads of the tenant with a prefix")


def labels_outlive_reopening(w: World) -> None:
    """A durable store that is opened again has the same labels and questions."""
    if not w.store.durable:
        return
    _asked(w)
    heads, asked = w.store.query(ThreadFilter()), w.store.query(QuestionFilter())
    again: Any = w.reopen()
    same(again.query(ThreadFilter()), heads, "heads")
    same(again.query(QuestionFilter()), asked, "inbox")


def _question(place: str, asked_at: float = AT, **others: Any) -> Question:
    return Question(place, "question", "n", "g", asked_at, None, False, body=b"what")._replace(**others)


def _labels(head: Head) -> tuple[str | None, list[str]]:
    return head.title, sorted(head.tags)


def _ids(store: Store, **filters: Any) -> list[str]:
    return [head.thread for head in store.query(ThreadFilter(**filters))]


def _some(w: World) -> None:
    for n, (thread, title, tags, status) in enumerate(
        (
            ("a", "The price", {"x", "y"}, "completed"),
            ("b", "ÜBER the Price", {"x"}, "failed"),
            ("c", "100 % free", {"x", "y"}, "completed"),
            ("d", None, set[str](), "completed"),
        )
    ):
        labels = Labels(title, frozenset(tags))
        commit = Commit(0, AT + n, [entry(1)], status=status, graph="g", labels=labels, release=True)  # type: ignore[arg-type]  # the literals above are statuses
        w.store.commit(w.claim(thread), commit)


def _asked(w: World) -> None:
    """Create threads a, b and c with questions; the question of b is the oldest."""
    asks = {
        "a": [_question("r", AT + 2), _question("q", AT + 2)],
        "b": [_question("q", AT + 1, kind="approval", expires_at=AT + 100.0)],
        "c": [_question("q", AT + 3, node="other", graph="h", stale=True)],
    }
    tags = {"a": {"x", "y"}, "b": {"x"}, "c": set[str]()}
    for thread, questions in asks.items():
        labels = Labels("The price" if thread == "a" else None, frozenset(tags[thread]))
        w.store.commit(w.claim(thread), Commit(0, AT, [entry(1)], labels=labels, questions=questions, release=True))
