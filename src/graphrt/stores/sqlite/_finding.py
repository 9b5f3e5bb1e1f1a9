"""The methods of `SqliteStore` that search threads by their labels, and list open questions, with their SQL.

The rows that they search are written by `_labels`. A thread has a number, `no`, in the order of creation. Its labels
are a title, tags and a tenant, the customer whose thread it is. The *inbox* is the list of the open questions of all
threads, the oldest first. A question is asked by a paused thread; `place` is its id within the thread.

Lists are read page by page. The caller of `find` continues after a thread id, that of `inbox` after a token, which is
the position of a question as text. Texts that are not valid UTF-8 match nothing: SQLite would raise for them
(`_refusals.encodes`). `_refusals.page_size` returns -1 for a list without a limit, as SQLite's LIMIT takes it.
`row_of` checks a row of the table `thread`, and `head` makes a *head* of it: the summary of a thread. The
functions `work` are called by `Database.read` in a transaction, and may be called several times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from graphrt.stores import _refusals
from graphrt.stores._label_rows import Position, from_token, to_token
from graphrt.stores.ids import check_id
from graphrt.stores.labels import Asked, QuestionFilter, ThreadFilter, folded
from graphrt.stores.protocol import Head, Question
from graphrt.stores.sqlite import _reading as reading
from graphrt.stores.sqlite._labels import QUESTION
from graphrt.stores.sqlite._ownership import Holding
from graphrt.stores.sqlite._rows import QUESTION as QUESTION_TYPES
from graphrt.stores.sqlite._rows import damaged, head, row_of

if TYPE_CHECKING:
    from sqlite3 import Connection

_QUESTIONS: Final = f"SELECT {QUESTION} FROM question WHERE no = ? ORDER BY asked_at, place"  # noqa: S608
_AFTER: Final = "(q.asked_at, q.no, q.place) > (?, coalesce((SELECT no FROM thread WHERE id = ?), 0), ?)"
"""The condition of a page. A deleted thread counts as the first: its questions of the same moment come again."""
_RARE: Final = 2_000
"""Most threads with a tag, or questions of a kind, for which the inbox reads all of these rows and sorts them. If there
are more, it reads questions in order of time and leaves out what does not fit, until the page is full."""
# They count up to the limit that is given, so that a frequent tag or kind costs no more than a rare one.
_COUNT_TAG: Final = "SELECT count(*) FROM (SELECT 1 FROM tag WHERE name = ? LIMIT ?)"
_COUNT_KIND: Final = "SELECT count(*) FROM (SELECT 1 FROM question INDEXED BY question_kind WHERE kind = ? LIMIT ?)"


def find_text(wanted: ThreadFilter, *, newest_first: bool) -> tuple[str, list[Any]]:
    """Return the statement that lists threads, and the parameters of its filters.

    Two parameters follow them: the number of the thread after which the page begins, and the most rows of it.
    """
    texts, values = ["seq > 0"], list[Any]()  # a thread without entries is not listed

    def also(text: str, *given: Any) -> None:
        """Add a condition and its parameters."""
        texts.append(text)
        values.extend(given)

    if wanted.tenant is not None:
        also("label.tenant = ?", wanted.tenant)
    tags = sorted(wanted.tags)
    # `reading.FROM` is `thread LEFT JOIN label`. With a tenant or title, only threads with a row in `label` fit: an
    # INNER JOIN lets SQLite begin with that table.
    # With tags, CROSS JOIN makes it begin with the rows of the first tag, which are in the order of creation.
    source = reading.FROM if wanted.tenant is None and wanted.title is None else reading.FROM.replace("LEFT ", "")
    if tags:
        source = "tag CROSS JOIN thread ON thread.no = tag.no LEFT JOIN label ON label.no = tag.no"
        also("tag.name = ?", tags[0])
    for tag in tags[1:]:
        also("EXISTS (SELECT 1 FROM tag AS other WHERE other.name = ? AND other.no = thread.no)", tag)
    if wanted.status == "running":
        also(f"(status = 'running' OR {reading.BEGUN_BY_MAIL})")
    elif wanted.status is not None:
        also(f"status = ? AND NOT {reading.BEGUN_BY_MAIL}", wanted.status)
    if wanted.graph is not None:
        also("graph = ?", wanted.graph)
    if wanted.prefix is not None:
        also("substr(id, 1, length(?)) = ?", wanted.prefix, wanted.prefix)
    if wanted.title is not None:
        also("instr(folded, ?) > 0", folded(wanted.title))
    if wanted.updated_after is not None:
        also("updated_at >= ?", wanted.updated_after)
    if wanted.updated_before is not None:
        also("updated_at < ?", wanted.updated_before)
    # The page is bounded and sorted by the number in the table that SQLite begins with, whose index has it in order. A
    # title has no index, so a search by title alone goes through the threads.
    leading = "tag.no" if tags else "label.no" if wanted.tenant is not None else "thread.no"
    text = f"SELECT {reading.LISTED_COLUMNS} FROM {source} WHERE {' AND '.join(texts)}"  # noqa: S608 - own names
    return (
        f"{text} AND {leading} {'<' if newest_first else '>'} ? ORDER BY {leading}{' DESC' * newest_first} LIMIT ?",
        values,
    )


def inbox_text(wanted: QuestionFilter, *, rare: str | None, by_kind: bool = False) -> tuple[str, list[Any]]:
    """Return the statement that lists open questions after a position, and the parameters of the filters.

    Four parameters follow these: the position (time of the question, id of its thread, place) and the most rows.
    A row has the eight columns of `QUESTION`, and then the columns of the thread.

    Args:
        wanted: The filters.
        rare: A tag of few threads, which the statement begins with. None: it begins with the oldest question.
        by_kind: Whether it begins with the questions of the kind that is wanted; see `_leads`. Only without *rare*.
    """
    texts, values = list[str](), list[Any]()

    def also(text: str, *given: Any) -> None:
        """Add a condition and its parameters."""
        texts.append(text)
        values.extend(given)

    if wanted.tenant is not None:
        also("q.tenant = ?", wanted.tenant)
    for name in ("kind", "graph", "node"):
        if getattr(wanted, name) is not None:
            also(f"q.{name} = ?", getattr(wanted, name))
    if wanted.without and wanted.kind is None:  # `without`: kinds that are listed only if they are asked for
        also(f"q.kind NOT IN ({', '.join('?' * len(wanted.without))})", *sorted(wanted.without))
    for tag in sorted(wanted.tags):
        if tag == rare:
            also("q.no IN (SELECT no FROM tag WHERE name = ?)", tag)
        else:
            # The plus sign keeps SQLite from looking up questions by their thread, in place of the order of the inbox.
            also("EXISTS (SELECT 1 FROM tag WHERE name = ? AND no = +q.no)", tag)
    # Each index has the questions in the order of the inbox: all, those of a tenant, or those of a kind and graph.
    first = "kind" if by_kind else "asked" if wanted.tenant is None else "tenant"
    index = "" if rare is not None else f"INDEXED BY question_{first}"
    columns = ", ".join(f"q.{name.strip()}" for name in QUESTION.split(","))
    # The threads are read last, for the questions of the page alone.
    page = (
        f"SELECT rowid AS at, no, asked_at, place FROM question AS q {index}"  # noqa: S608 - own names
        f" WHERE {' AND '.join([*texts, _AFTER])}"
        " ORDER BY q.asked_at, q.no, q.place LIMIT ?"
    )
    text = (
        f"SELECT {columns}, {reading.THREADS_COLUMNS} FROM ({page}) AS page JOIN question AS q ON q.rowid = page.at"  # noqa: S608
        " JOIN thread ON thread.no = page.no LEFT JOIN label ON label.no = page.no"
        " ORDER BY page.asked_at, page.no, page.place"
    )
    return text, values


def question_of(thread: str, row: tuple[Any, ...]) -> Question:
    """Return the question of *thread* in the columns *row*, which are those of `QUESTION`.

    Raises:
        StoreError: One of them has a wrong type.
    """
    try:
        ((place, kind, node, graph, asked_at, expires_at, stale, body),) = QUESTION_TYPES.checked([row])
    except TypeError as error:  # questions can be computed again from the journal
        raise damaged(thread, error, "Call reindex() on the runtime of its graph.") from error
    return Question(place, kind, node, graph, asked_at, expires_at, bool(stale), body)  # `stale` is 0 or 1


def _leads(db: Connection, wanted: QuestionFilter) -> bool:
    """Return whether the inbox is read by the index of kinds, and not in the order of all questions.

    That index begins with kind and graph, so the questions of both are in order there. Those of a kind alone have to be
    sorted, so they must be few. With a tenant, the index of tenants is used.
    """
    if wanted.kind is None or wanted.tenant is not None:
        return False
    return wanted.graph is not None or db.execute(_COUNT_KIND, (wanted.kind, _RARE + 1)).fetchall()[0][0] <= _RARE


class Searching(Holding):
    """The base class of `SqliteStore` with the methods of the protocol `Findable`, which `Runtime.threads` also calls.

    Inherited from `Holding`: `_there` returns the row of a thread id and whether the thread is held, or raises
    `InputError`; `_lives` says whether a living owner holds the thread of a row.
    """

    def find(
        self, wanted: ThreadFilter, *, after: str | None = None, newest_first: bool = False, limit: int | None = None
    ) -> list[Head]:
        """Return the heads (summaries) of the threads that *wanted* lets pass, in order of creation.

        Args:
            wanted: The filters.
            after: Id of the thread after which the page begins; None begins with the first.
            newest_first: Whether the order is reversed.
            limit: Most heads of the page; None for all.

        Raises:
            InputError: There is no thread *after*, or *limit* is not a number of threads.
        """
        most = _refusals.page_size(limit, updated_after=wanted.updated_after, updated_before=wanted.updated_before)
        texts = (wanted.status, wanted.graph, wanted.prefix, wanted.tenant, wanted.title, *wanted.tags)
        fits = all(text is None or _refusals.encodes(text) for text in texts)
        text, values = find_text(wanted, newest_first=newest_first)

        def work(db: Connection) -> list[Head]:
            last = 2**62 if newest_first else 0  # beyond every number of a thread
            if after is not None:
                last = self._there(db, check_id(after))[0].no
            found = db.execute(text, (*values, last, most)).fetchall() if fits else []
            rows = [row_of(row) for row in found]
            return [head(row, owned=self._lives(row)) for row in rows]

        return self._file.read(work)

    def inbox(self, wanted: QuestionFilter, *, after: str | None = None, limit: int | None = None) -> list[Asked]:
        """Return the open questions that *wanted* lets pass, the oldest first.

        Args:
            wanted: The filters.
            after: Token of the question after which the page begins; None begins with the oldest.
            limit: Most questions of the page; None for all.

        Raises:
            InputError: *after* is not a token, or *limit* is not a number of questions.
        """
        most = _refusals.page_size(limit)
        # Without a token, the position before all questions.
        last = Position(float("-inf"), "", "") if after is None else from_token(after)
        texts = (wanted.kind, wanted.tenant, wanted.graph, wanted.node, *wanted.tags)
        fits = all(text is None or _refusals.encodes(text) for text in texts)

        def work(db: Connection) -> list[Asked]:
            if not fits:
                return []
            counts = {tag: db.execute(_COUNT_TAG, (tag, _RARE + 1)).fetchall()[0][0] for tag in wanted.tags}
            rare = min(counts, key=counts.__getitem__, default=None)  # the tag of the fewest threads
            if rare is not None and counts[rare] > _RARE:
                rare = None
            text, values = inbox_text(wanted, rare=rare, by_kind=rare is None and _leads(db, wanted))
            found: list[Asked] = []
            for columns in db.execute(text, (*values, *last, most)).fetchall():
                row = row_of(columns[8:])  # after the eight columns of the question, those of the thread
                question = question_of(row.id, columns[:8])
                token = to_token(Position(question.asked_at, row.id, question.place))
                found.append(Asked(head(row, owned=self._lives(row)), question, token))
            return found

        return self._file.read(work)

    def questions(self, thread: str) -> list[Question]:
        """Return the open questions of *thread*, the oldest first.

        Raises:
            InputError: There is no such thread.
        """
        check_id(thread)

        def work(db: Connection) -> list[Question]:
            no = self._there(db, thread)[0].no
            return [question_of(thread, row) for row in db.execute(_QUESTIONS, (no,)).fetchall()]

        return self._file.read(work, thread)
