"""Canary values that must appear nowhere, and every place that is searched: files, entries, streams, sinks, errors,
logs.
"""

from __future__ import annotations

import dataclasses
import gc
import logging
import traceback
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel

from graphrt import START, Context, GraphBuilder, NodeError, Runtime, Send
from graphrt.audit import AuditLog, Redaction, Secret, TextPattern, export
from graphrt.reducers import append, redacted

KEY = bytes(range(1, 33))
MAIL = "canary.bird+77@example-mine.org"
CARD = "4556 7375 8689 9855"
PHONE = "+49 171 5550199"
IBAN = "DE89 3704 0044 0532 0130 00"
NAME = "Canarella-Nimmersatt"
MARKED = "kanarienvogel-7731"
SECRET = "sk-canary-0f8e7d6c5b4a"
NUMBER = "KD-7731-canary"
CLEAR = (MAIL, CARD, "4556737586899855", PHONE, IBAN, NAME, MARKED, SECRET, NUMBER)
"""The forbidden texts: the values, and another spelling of one."""


def rules(**more: Any) -> Redaction:
    import re

    numbers = TextPattern("customer-number", re.compile(r"KD-\d{4}-[a-z]{1,10}"))
    given: dict[str, Any] = {
        "fields": ["customer.name", "alias"],
        "patterns": ["email", "phone", "card", "iban", "ip", numbers],
        "key": KEY,
    }
    return Redaction(**(given | more))


class Customer(BaseModel):
    name: str
    mail: str
    token: Secret[str] | None = None


@dataclasses.dataclass
class Letter:
    to: str
    body: list[str]


class State(BaseModel):
    question: str = ""
    customer: Customer | None = None
    letter: Letter | None = None
    notes: Annotated[list[str], append] = []
    by_mail: dict[str, Any] = {}
    raw: bytes = b""
    big: str = ""
    marked: Annotated[str, redacted] = ""
    token: Secret[str] | None = None
    anything: Any = None


def given() -> dict[str, Any]:
    """Return an input with a canary at every depth; one value is large enough to be a blob."""
    return {
        "question": f"Write to {MAIL} or call {PHONE}",
        "customer": {"name": NAME, "mail": MAIL, "token": Secret(SECRET)},
        "letter": Letter(MAIL, [f"pay with {CARD} 2031", f"or from {IBAN} NOW"]),
        "by_mail": {MAIL: [{"alias": NAME}, (PHONE, {CARD})]},
        "raw": f"mail={MAIL}".encode(),
        "big": f"{'x' * 200_000} {MAIL} {'y' * 200_000}",
        "marked": MARKED,
        "token": Secret(SECRET),
        "anything": f'{{"customer": {{"name": "{NAME}"}}}}',
    }


def canaries_in(text: str | bytes) -> list[str]:
    if isinstance(text, bytes):
        return [one for one in CLEAR if one.encode() in text or one.encode("utf-16-le") in text]
    return [one for one in CLEAR if one in text]


def chain(error: BaseException | None) -> str:
    """Return all text of an error: its message, attributes, notes and traceback, with those of its causes."""
    told: list[str] = []
    while error is not None:
        told += [str(error), repr(error), repr(error.args), repr(vars(error)), *traceback.format_exception(error)]
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\n".join(told)


class Watched:
    """A runtime that records all its output: entries for sinks, and log records of all levels."""

    def __init__(
        self, folder: Path, store: str, *, build: Any = None, redact: Redaction | None = None, **more: Any
    ) -> None:
        self.folder = folder
        self.shown: list[Any] = []
        self.audit = AuditLog(folder / "logs", key=KEY, redact=redact or rules())
        self.store = store
        self.build = build or graph
        self.more = more
        self.logged: list[str] = []
        self.handler = logging.Handler(logging.DEBUG)
        self.handler.emit = lambda record: self.logged.append(record.getMessage())  # type: ignore[method-assign]

    def __enter__(self) -> Self:
        logging.getLogger().addHandler(self.handler)
        self.level = logging.getLogger().level
        logging.getLogger().setLevel(logging.DEBUG)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger().removeHandler(self.handler)
        logging.getLogger().setLevel(self.level)

    def runtime(self) -> Runtime[Any]:
        return Runtime(
            self.build(), store=self.store, audit=self.audit, sinks=[lambda e: self.shown.append(repr(e))], **self.more
        )

    def everything(self, thread: str = "t") -> str:
        """Return all output and all readable data as one text."""
        with self.runtime() as runtime:
            state = runtime.state(thread)
            told = [repr(state), repr(state.values), repr(state.interrupts), repr(state.error), chain(state.error)]
            told += [repr(entry) for entry in runtime.entries(thread)]
            told += [repr(one.values) for one in runtime.history(thread)]
            export(self.store, thread, self.folder / f"{thread}.export.jsonl", key=KEY)
            told += [repr(runtime), repr(self.audit), repr(self.audit.redact), *map(repr, runtime.threads())]
        gc.collect()
        return "\n".join([*told, *self.shown, *self.logged])

    def files(self) -> list[str]:
        """Return the canaries in the bytes of any file below the folder: database, write-ahead log, mirror, export."""
        found = [path for path in self.folder.rglob("*") if path.is_file()]
        assert any(path.suffix == ".jsonl" for path in found)
        return [f"{one} in {path.name}" for path in found for one in canaries_in(path.read_bytes())]


def look(state: State, ctx: Context) -> dict[str, Any]:
    """Introduce canaries by each way that a node has."""
    seen = ctx.effect("look", lambda: {"mail": MAIL, "customer": {"name": NAME}, "secret": Secret(SECRET)})
    ctx.emit({"mail": MAIL, "letter": Letter(MAIL, [CARD])})
    told = ctx.interrupt({"to": MAIL, "alias": NAME})
    return {"notes": [f"{seen} and {told} and {PHONE}"]}


def send(state: State) -> list[Send]:
    return [Send("take", {"mail": MAIL, "alias": NAME})]


def take(state: State, ctx: Context) -> dict[str, Any]:
    return {"notes": [f"{ctx.arg} {MAIL} {state.token}"], "token": Secret(SECRET), "marked": MARKED}


def fail(state: State, ctx: Context) -> dict[str, Any]:
    if ctx.deps == "fine":
        return {"notes": [f"done for {MAIL} {NUMBER}"]}
    try:
        raise KeyError(MAIL)
    except KeyError as error:
        error.add_note(f"asked for {NUMBER}")
        raise ExceptionGroup(f"no way to {PHONE}", [ValueError(MAIL), OSError(2, "gone", f"/home/{MAIL}")]) from error


def graph() -> Any:
    g = GraphBuilder(State, name="canaries")
    g.add_node("look", look).add_node("take", take).add_node("fail", fail)
    g.add_edge(START, "look").add_conditional_edges("look", send, ["take"]).add_edge("take", "fail")
    return g.compile()


def through(watched: Watched) -> list[Any]:
    """Run, pause, fail, edit, and finish; return the output of streams and results."""
    shown: list[Any] = []
    modes = ("updates", "values", "custom", "events", "live", "messages")
    with watched.runtime() as runtime:
        shown += map(repr, runtime.stream(given(), thread="t", modes=modes))
        shown.append(repr(runtime.state("t").interrupts))
    with watched.runtime() as runtime:
        try:
            runtime.resume("t", f"write to {MAIL}, card {CARD}")
        except NodeError as error:
            shown.append(chain(error))
    with watched.runtime() as runtime:
        runtime.update("t", {"question": f"rather {IBAN}", "marked": MARKED, "token": Secret(SECRET)})
        runtime.fork("t", at=runtime.state("t").seq, to="fork")
        runtime.copy_thread("t", "copy")
    with Runtime(
        watched.build(), store=watched.store, audit=watched.audit, deps="fine", sinks=[lambda e: shown.append(repr(e))]
    ) as runtime:
        shown += map(repr, runtime.stream(thread="t", modes=modes))
        shown += [repr(step.to_dict()) for step in runtime.steps({"question": f"again {MAIL}"}, thread="new")]
    return shown
