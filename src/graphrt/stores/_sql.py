"""The statements of `Store.query` for the SQL stores: the condition for each field of a filter, in both dialects.

`CONDITIONS` has the condition for each field of each filter, and the functions below the order and the page. A `Sql` is
a dialect: it has the parts that differ between SQLite and PostgreSQL. Statements have `{s}` in place of the schema's
name and parameters in the form `%(name)s`; `Sql.finished` turns both into those of the database. Values of callers are
parameters, never part of a text.

`no` is the number of a thread, in order of creation, and `rank` minus its priority. A thread has a row in `label` if it
has a tenant, title or tags, and one in `question` for each open question.
"""

# ruff: noqa: S608 - only constant texts are put into these texts

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

from graphrt.stores.filters import (
    BEGINS,
    WAITING,
    WAITS,
    DueFilter,
    Filter,
    MailFilter,
    QuestionFilter,
    ScheduleFilter,
    ThreadFilter,
)

# {p} is the parameter with the field's value, and {among} a condition that it contains the value on its left. Words in
# capitals are texts of the dialect.
CONDITIONS: Final[Mapping[type, Mapping[str, str]]] = {
    ThreadFilter: {
        "tenant": "label.tenant = {p}",
        "tags": "TAGS",
        "status": "LISTED_STATUS = {p}",
        "graph": "thread.graph = {p}",
        "prefix": "BEGINS(thread.id)",
        "title": "CONTAINS(label.folded)",
        "updated_after": "updated_at >= {p}",
        "updated_before": "updated_at < {p}",
        "ids": "thread.id {among}",
        "has_mail": "HAS_MAIL",
    },
    DueFilter: {"graphs": "thread.graph {among}", "prefix": "BEGINS(thread.id)"},
    QuestionFilter: {
        "thread": "q.no = (SELECT no FROM {s}.thread WHERE id = {p})",
        "tenant": "q.tenant = {p}",
        "kind": "q.kind = {p}",
        "without": "NOT q.kind {among}",
        "graph": "q.graph = {p}",
        "node": "q.node = {p}",
        "tags": "TAGS",
    },
    ScheduleFilter: {"graph": "graph = {p}", "due_by": "due_at <= {p}", "prefix": "BEGINS(name)"},
}
_WAITING: Final = ", ".join(f"'{status}'" for status in WAITING)


class Statement(NamedTuple):
    """A statement, and the parameters of its conditions. The caller adds the columns of its page."""

    text: str
    values: dict[str, Any]


class Sql(ABC):
    """A dialect of SQL. The class variables are the texts that differ."""

    head_columns: ClassVar[str]
    """Columns of a thread's head, with those of its label."""
    question_columns: ClassVar[str]
    mail: ClassVar[str]
    """The table with messages, as `m`."""
    untaken: ClassVar[str]
    """Condition: the message `m` was not taken yet."""
    message: ClassVar[str]
    """Column with the id of a message."""
    free: ClassVar[str]
    """Condition: the thread has no living owner; true if the caller has to check that."""

    @abstractmethod
    def finished(self, text: str) -> str:
        """Return *text* with the database's own form of parameters and names."""

    @abstractmethod
    def among(self, name: str, values: Sequence[Any]) -> tuple[str, dict[str, Any]]:
        """Return the condition that a column has one of *values*, and its parameters, which begin with *name*."""

    @abstractmethod
    def begins(self, column: str, name: str) -> str:
        """Return the condition that *column* begins with the parameter *name*. Wildcards are ordinary characters."""

    @abstractmethod
    def contains(self, column: str, name: str) -> str:
        """Return the condition that *column* contains the parameter *name*."""

    @abstractmethod
    def tags(self, wanted: Filter[Any], tags: Sequence[str], rare: str | None) -> tuple[str, dict[str, Any]]:
        """Return the condition that a thread, or that of a question, has all *tags* of *wanted*; for *rare*, see `inbox`."""

    @abstractmethod
    def value(self, field: str, value: Any) -> Any:
        """Return *value* of a filter's *field* in the form of the column."""

    @abstractmethod
    def id_begins(self, beginning: str) -> str:
        """Return the condition that the id of the message `m` begins with *beginning*, a constant text."""

    @abstractmethod
    def threads(self, wanted: ThreadFilter) -> tuple[str, str]:
        """Return the text after FROM, and the column with the thread's number by which the page is read."""

    @abstractmethod
    def accepts(self, text: str) -> bool:
        """Return whether a column can have *text*. The database may refuse the parameter otherwise."""

    @property
    def listed_status(self) -> str:
        """The status that listings show: that of a completed thread is "running" if a message begins its next run."""
        begins_again = f"status = 'completed' AND {self.has_mail(f' AND {self.id_begins(BEGINS)}')}"
        return f"CASE WHEN {begins_again} THEN 'running' ELSE status END"

    def has_mail(self, condition: str = "") -> str:
        """Return the condition that a thread has messages that were not taken yet and match *condition*."""
        return f"EXISTS (SELECT 1 FROM {self.mail} WHERE m.no = thread.no AND {self.untaken}{condition})"

    @property
    def listed_columns(self) -> str:
        """`head_columns` with the status that listings show."""
        return self.head_columns.replace(" status,", f" {self.listed_status},")

    def conditions(self, wanted: Filter[Any], rare: str | None = None) -> tuple[list[str], dict[str, Any]] | None:
        """Return the conditions of *wanted* and their parameters; None if no row can match."""
        texts: list[str] = []
        values: dict[str, Any] = {}
        for field, text in CONDITIONS[type(wanted)].items():
            value = getattr(wanted, field)
            if value is None or value is False or (field in {"tags", "without"} and not value):
                continue
            if field == "without" and getattr(wanted, "kind", None) is not None:
                continue  # a requested kind is listed
            parameters: dict[str, Any] = {}
            if text == "TAGS":
                text, parameters = self.tags(wanted, sorted(value), rare)
            elif "{among}" in text:
                listed = [item for item in (self.value(field, item) for item in value) if self._fits(item)]
                among, parameters = self.among(field, listed)
                text = text.replace("{among}", among)
            elif text == "HAS_MAIL":
                text = self.has_mail()
            else:
                parameters = {field: self.value(field, value)}
                text = self._filled(text, field)
            if not all(self._fits(parameter) for parameter in parameters.values()):
                return None
            texts.append(text)
            values |= parameters
        return texts, values

    def _filled(self, text: str, field: str) -> str:
        """Return the condition *text* with the texts of the dialect, for the parameter *field*."""
        word, _, column = text.removesuffix(")").partition("(")
        if word == "BEGINS":
            return self.begins(column, field)
        if word == "CONTAINS":
            return self.contains(column, field)
        if "LISTED_STATUS" in text:
            text = text.replace("LISTED_STATUS", self.listed_status)
        return text.replace("{p}", f"%({field})s")

    def _fits(self, value: Any) -> bool:
        return not isinstance(value, str) or self.accepts(value)

    def find(self, wanted: ThreadFilter) -> Statement | None:
        """Return the statement for threads. Its page has `after`, the number of a thread, and `most`."""
        conditions = self.conditions(wanted)
        if conditions is None:
            return None
        texts, values = conditions
        source, leading = self.threads(wanted)
        sign, order = ("<", " DESC") if wanted.newest_first else (">", "")
        return self._statement(
            f"SELECT {self.listed_columns} FROM {source} WHERE {' AND '.join(['seq > 0', *texts])}"
            f" AND {leading} {sign} %(after)s ORDER BY {leading}{order} LIMIT %(most)s",
            values,
        )

    def due(self, wanted: DueFilter) -> Statement | None:
        """Return the statement for due threads. Its page has `rank` and `after` of a thread, `now`, and `most`.

        It collects the numbers of three kinds of due threads, by their indexes: running ones, those with mail that makes
        them due, and those with an expired question. The running threads are limited, because there may be many.
        """
        conditions = self.conditions(wanted)
        if conditions is None:
            return None
        texts, values = conditions
        fits = " AND ".join(["seq > 0", "(rank, thread.no) > (%(rank)s, %(after)s)", self.free, *texts])
        moves = f"(status <> 'interrupted' OR NOT {self.id_begins(WAITS)})"
        return self._statement(
            f"SELECT {self.head_columns} FROM {{s}}.thread LEFT JOIN {{s}}.label ON label.no = thread.no"
            " WHERE thread.no IN ("
            f"SELECT no FROM (SELECT no FROM {{s}}.thread WHERE status = 'running' AND {fits}"
            " ORDER BY rank, no LIMIT %(most)s) AS running"
            f" UNION SELECT thread.no FROM {self.mail} JOIN {{s}}.thread ON thread.no = m.no"
            f" WHERE {self.untaken} AND status IN ({_WAITING}) AND {moves} AND {fits}"
            " UNION SELECT thread.no FROM {s}.question q JOIN {s}.thread ON thread.no = q.no"
            f" WHERE expires_at <= %(now)s AND status = 'interrupted' AND {fits})"
            " ORDER BY rank, thread.no LIMIT %(most)s",
            values,
        )

    def inbox(self, wanted: QuestionFilter, *, index: str = "", rare: str | None = None) -> Statement | None:
        """Return the statement for open questions. Its page has `asked_at`, `id` and `place` of one, and `most`.

        A deleted thread counts as the first, so questions of the same moment are listed again. The threads are read
        last, only for the questions of the page.

        Args:
            wanted: The filter.
            index: Text of the dialect that chooses an index; empty leaves the choice to the database.
            rare: A tag of few threads, with which the statement begins. None: it begins with the oldest question.
        """
        conditions = self.conditions(wanted, rare)
        if conditions is None:
            return None
        texts, values = conditions
        is_after = "(q.asked_at, q.no, q.place) > (%(asked_at)s, coalesce((SELECT no FROM {s}.thread WHERE id = %(id)s), 0), %(place)s)"
        columns = ", ".join(f"q.{name}" for name in self.question_columns.split(", "))
        return self._statement(
            f"SELECT {columns}, {self.listed_columns} FROM (SELECT no, asked_at, place FROM {{s}}.question AS q {index}"
            f" WHERE {' AND '.join([*texts, is_after])} ORDER BY q.asked_at, q.no, q.place LIMIT %(most)s) AS page"
            " JOIN {s}.question AS q ON q.no = page.no AND q.place = page.place"
            " JOIN {s}.thread ON thread.no = page.no LEFT JOIN {s}.label ON label.no = page.no"
            " ORDER BY page.asked_at, page.no, page.place",
            values,
        )

    def messages(self, wanted: MailFilter) -> Statement:
        """Return the statement for the mail of a thread. Its page has `after`, a place, and `most`."""
        text = (
            f"SELECT m.place, {self.message}, m.body FROM {self.mail} WHERE {self.untaken}"
            " AND m.no = (SELECT no FROM {s}.thread WHERE id = %(thread)s)"
            " AND m.place > %(after)s ORDER BY m.place LIMIT %(most)s"
        )
        return Statement(self.finished(text), {"thread": wanted.thread})

    def schedules(self, wanted: ScheduleFilter) -> Statement | None:
        """Return the statement for schedules. Its page has `after`, a name, and `most`.

        No index: there are few schedules.
        """
        conditions = self.conditions(wanted)
        if conditions is None:
            return None
        texts, values = conditions
        return self._statement(
            f"SELECT name, graph, version, due_at, body FROM {{s}}.schedule"
            f" WHERE {' AND '.join([*texts, 'name > %(after)s'])} ORDER BY name LIMIT %(most)s",
            values,
        )

    def _statement(self, text: str, values: dict[str, Any]) -> Statement:
        return Statement(self.finished(text), values)
