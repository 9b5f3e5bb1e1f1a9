"""The events of each thread of the corpus, and how it continues when it is read.

A scenario writes its threads into one store, with its own clock, ids and seed. Therefore each store has the same
entries.
"""

from __future__ import annotations

import asyncio
import io
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.journal.corpus import graphs
from tests.journal.corpus.graphs import KEY_NOTE, LARGE, MENDED, line, picture

from graphrt import Limits, Overwrite, Runtime
from graphrt._runs import mail
from graphrt.audit import AuditLog, Redaction
from graphrt.errors import GraphrtError
from graphrt.harness import Budget, UserMessage
from graphrt.stores import Store, TenantStore
from graphrt.testing import VirtualClock, drive_due

OLD_KEY: Final = bytes(range(7, 250, 5))[:32] + b"k"
KEY: Final = bytes(range(9, 252, 5))[:32] + b"n"
"""Root keys of audit logs."""
RULES: Final = Redaction(patterns=["email"])
"""The masked texts in audited threads."""
START_S: Final = 1_700_000_000.0


class World:
    """A store for one scenario, and runtimes on it that share a clock and ids."""

    def __init__(self, store: Store, name: str, logs: Path | None = None) -> None:
        self.store = store
        self.clock = VirtualClock(START_S)
        self.logs = logs
        """A folder for files of audit logs; None on most stores."""
        numbers = itertools.count(1)
        self._ids = lambda: f"{name}-{next(numbers)}"

    @contextmanager
    def runtime(self, graph: Any, store: Store | None = None, **options: Any) -> Iterator[Runtime[Any]]:
        runtime: Runtime[Any] = Runtime(
            graph,
            store=self.store if store is None else store,
            clock=self.clock,
            sleep=self.clock.sleep,
            ids=self._ids,
            seed=7,
            limits=Limits(max_concurrency=1),  # one task at a time: entries have one order
            **options,
        )
        with runtime:
            yield runtime

    @contextmanager
    def dying(self, thread: str) -> Iterator[Callable[[], None]]:
        """Yield a function with which a node simulates the death of its process.

        It saves the stored thread at that moment, which replaces the thread at the end.
        """
        taken = io.BytesIO()

        def die() -> None:
            taken.seek(0)
            self.store.export_thread(thread, taken, decrypted=True)

        yield die
        self.store.delete(thread)
        taken.seek(0)
        self.store.import_thread(taken)


class Scenario(NamedTuple):
    """How threads are written, read and continued."""

    write: Callable[[World], None]
    graph: Callable[[], Any]
    """Builds the graph with which its threads are read."""
    threads: tuple[str, ...]
    """The remaining threads; the first one continues."""
    options: dict[str, Any]
    """Further options of a runtime that reads them."""
    go_on: Callable[[World, Runtime[Any]], Any] | None
    """The action of a reader on the first thread: it returns a `RunResult` or None."""
    everywhere: bool
    """Whether it is in each store, or only in the first one."""
    tenant: str | None


SCENARIOS: Final[dict[str, Scenario]] = {}
"""Each by the name of its function, with hyphens."""


def scenario(
    graph: Callable[[], Any],
    go_on: Callable[[World, Runtime[Any]], Any] | None = None,
    *,
    threads: tuple[str, ...] | None = None,
    everywhere: bool = True,
    tenant: str | None = None,
    **options: Any,
) -> Callable[[Callable[[World], None]], Callable[[World], None]]:
    """Register a function as a scenario; for the arguments see `Scenario`."""

    def note(write: Callable[[World], None]) -> Callable[[World], None]:
        name = write.__name__.replace("_", "-")
        left = (name,) if threads is None else threads
        SCENARIOS[name] = Scenario(write, graph, left, options, go_on, everywhere, tenant)
        return write

    return note


def toured(runtime: Runtime[Any], thread: str, **given: Any) -> None:
    """Run a whole tour."""
    runtime.run({"notes": ["größe"], **given}, thread=thread)
    runtime.resume(thread, "left")
    runtime.resume(thread, answer=True)


# Runs that ended, and runs that wait ------------------------------------------------------------------------------------


@scenario(graphs.tour, lambda _, runtime: runtime.run({"count": 1}, thread="completed"))
def completed(world: World) -> None:
    with world.runtime(graphs.tour()) as runtime:
        toured(runtime, "completed")
        runtime.run({"count": 5}, thread="completed")
        runtime.resume("completed", "right")
        runtime.resume("completed", answer=False)


@scenario(graphs.tour, lambda _, runtime: runtime.resume("paused", "left"))
def paused(world: World) -> None:
    """A question inside a nested graph; the parallel task has ended after a retry."""
    with world.runtime(graphs.tour()) as runtime:
        runtime.run({}, thread="paused")


@scenario(graphs.tour, lambda _, runtime: runtime.retry("failed"), deps=MENDED)
def failed(world: World) -> None:
    with world.runtime(graphs.tour()) as runtime, suppress(GraphrtError):
        toured(runtime, "failed", table={"break": [1, (2,)]})


@scenario(graphs.tour, lambda _, runtime: runtime.retry("cancelled"))
def cancelled(world: World) -> None:
    with world.runtime(graphs.tour()) as runtime:
        runtime.run({}, thread="cancelled")
        runtime.cancel("cancelled")


@scenario(graphs.tour, lambda _, runtime: runtime.resume("abandoned", "right"))
def abandoned(world: World) -> None:
    with world.runtime(graphs.tour()) as runtime:
        runtime.run({"notes": ["first"]}, thread="abandoned")
        runtime.run({"notes": ["second"]}, thread="abandoned", if_exists="abandon")


@scenario(lambda: line(graphs.draft, graphs.approve, name="letter"), lambda _, runtime: runtime.resume("edited", "yes"))
def edited(world: World) -> None:
    """A question that was withdrawn and asked again, and a stale one."""
    with world.runtime(line(graphs.draft, graphs.approve, name="letter")) as runtime:
        runtime.run({}, thread="edited")
        runtime.update("edited", {"table": {"draft": "better"}})
        runtime.retry("edited")
        runtime.update("edited", {"table": {"draft": "best"}})


@scenario(lambda: line(graphs.draft, graphs.approve, name="letter"), threads=("steered",))
def steered(world: World) -> None:
    """An edit as a node, a repeated answer, and an unused one."""
    graph = line(graphs.draft, graphs.approve, name="letter")
    with world.runtime(graph, deps="silent") as silent, world.runtime(graph) as runtime:
        runtime.update("steered", {"table": {"draft": "from outside"}}, as_node="draft")
        runtime.retry("steered")
        silent.resume("steered", "yes")


@scenario(lambda: line(graphs.expiring, name="expiring"), lambda _, runtime: runtime.resume("expired", "here"))
def expired(world: World) -> None:
    with world.runtime(line(graphs.expiring, name="expiring")) as runtime:
        runtime.run({}, thread="expired")
        world.clock.advance(100)
        runtime.retry("expired")


@scenario(lambda: line(graphs.defaulting, name="defaulting"), lambda world, runtime: later(world, runtime, "defaulted"))
def defaulted(world: World) -> None:
    with world.runtime(line(graphs.defaulting, name="defaulting")) as runtime:
        runtime.run({}, thread="defaulted")


@scenario(graphs.held, lambda _, runtime: runtime.resume("held", answer=True), threads=("held", "held-fork"))
def held(world: World) -> None:
    """A committed fold whose routers wait for a person: in the journal, in a snapshot and in a fork."""
    with world.runtime(graphs.held()) as runtime:
        runtime.run({}, thread="held")
        runtime.fork("held", to="held-fork")
        runtime.prune("held")


@scenario(graphs.handled, lambda _, runtime: runtime.resume("handled", "nothing"))
def handled(world: World) -> None:
    with world.runtime(graphs.handled()) as runtime:
        runtime.run({}, thread="handled")


@scenario(graphs.fatigued)
def fatigued(world: World) -> None:
    with world.runtime(graphs.fatigued()) as runtime:
        runtime.run({}, thread="fatigued")


@scenario(graphs.late, everywhere=False)
def late(world: World) -> None:
    """An attempt that ended after its timeout. Its order depends on the machine: it is in one store only."""
    with Runtime(graphs.late(), store=world.store, clock=world.clock, ids=lambda: "late-1", seed=7) as runtime:
        runtime.run({}, thread="late")


def asked_again(_: World, runtime: Runtime[Any]) -> Any:
    """A person answers the question about an unknown outcome of an effect."""
    runtime.retry("crashed")
    return runtime.resume("crashed", "run")


@scenario(graphs.crashing, asked_again, deps=lambda: None)
def crashed(world: World) -> None:
    """The process died: one outcome is staged, an answer is stored, and an effect of the kind "once" has begun."""
    with world.dying("crashed") as die, world.runtime(graphs.crashing(), deps=die) as runtime:
        runtime.run({}, thread="crashed")
        runtime.resume("crashed", "yes")


@scenario(graphs.asking, lambda _, runtime: runtime.retry("cut-off"), budget=Budget(tokens=1_000), deps=lambda: None)
def cut_off(world: World) -> None:
    """The process died inside a model call, whose reservation remains."""
    budget = Budget(tokens=1_000)
    with world.dying("cut-off") as die, world.runtime(graphs.asking(), deps=die, budget=budget) as runtime:
        runtime.run({}, thread="cut-off")


@scenario(graphs.tour, lambda _, runtime: runtime.drive("handed-over"), threads=("handed-over",))
def handed_over(world: World) -> None:
    with world.runtime(graphs.tour()) as runtime:
        runtime.start({"notes": ["later"]}, thread="handed-over")


# Verbs on threads
# --------------------------------------------------------------------------------------------------------


@scenario(graphs.tour, lambda _, runtime: runtime.retry("forked"), threads=("forked", "forked-kept"))
def forked(world: World) -> None:
    with world.runtime(graphs.tour()) as runtime:
        toured(runtime, "forked-from")
        runtime.fork("forked-from", at=4, to="forked")
        runtime.fork("forked-from", at=4, to="forked-kept", keep_effects=True)
        runtime.delete_thread("forked-from")


@scenario(graphs.grown, lambda _, runtime: runtime.resume("migrated", "yes"))
def migrated(world: World) -> None:
    with world.runtime(line(graphs.draft, graphs.approve, name="letter")) as runtime:
        runtime.run({}, thread="migrated")
    with world.runtime(graphs.grown()) as runtime:
        runtime.update("migrated", {"count": 1})


@scenario(graphs.tour, lambda _, runtime: runtime.resume("pruned", "left"))
def pruned(world: World) -> None:
    with world.runtime(graphs.tour()) as runtime:
        toured(runtime, "pruned")
        runtime.run({}, thread="pruned")
        runtime.prune("pruned", before=runtime.state("pruned").seq - 4)
        runtime.update("pruned", {"count": 3})


@scenario(graphs.tour, lambda _, runtime: runtime.resume("large", "left"))
def large(world: World) -> None:
    """A value that is stored apart, and a snapshot that refers to it."""
    with world.runtime(graphs.tour()) as runtime:
        runtime.run({"table": {"text": LARGE}}, thread="large")
        for number in range(7):
            runtime.update("large", {"notes": ["much " * 1_000], "count": number})


@scenario(graphs.tour, lambda _, runtime: runtime.resume("copied", "left"))
def copied(world: World) -> None:
    with world.runtime(graphs.tour()) as runtime:
        toured(runtime, "copied-from")
        runtime.run({}, thread="copied-from")
        runtime.copy_thread("copied-from", "copied")
        runtime.delete_thread("copied-from")


def renewed(_: World, runtime: Runtime[Any]) -> Any:
    """Replace the erased value of the thread by a new one, and run it."""
    runtime.update("erased", {"table": Overwrite({})})
    return runtime.run({"count": 1}, thread="erased")


@scenario(graphs.tour, renewed)
def erased(world: World) -> None:
    with world.runtime(graphs.tour()) as runtime:
        toured(runtime, "erased", notes=[KEY_NOTE], table={"large": f"{KEY_NOTE} {LARGE}"})
        runtime.erase(KEY_NOTE, threads=["erased"], by="office", reason="a request")


@scenario(graphs.tour, lambda _, runtime: runtime.resume("labelled", "left"))
def labelled(world: World) -> None:
    with world.runtime(graphs.tour()) as runtime:
        runtime.run({}, thread="labelled")
        runtime.label("labelled", title="A Straße", add_tags={"sea", "north"}, priority=5)


@scenario(graphs.tour, lambda _, runtime: runtime.resume("unchained", "left"), chain=False)
def unchained(world: World) -> None:
    with world.runtime(graphs.tour(), chain=False) as runtime:
        runtime.run({}, thread="unchained")


@scenario(
    graphs.tour,
    lambda _, runtime: runtime.resume("keyed", "left"),
    audit=AuditLog(key=KEY, older=[OLD_KEY], user="anna", redact=RULES),
)
def keyed(world: World) -> None:
    """Authenticated with one key, and then with another; texts of users are masked."""
    with world.runtime(graphs.tour(), audit=AuditLog(key=OLD_KEY, user="anna", redact=RULES)) as runtime:
        toured(runtime, "keyed", notes=["from anna@example.org"])
    with world.runtime(graphs.tour(), audit=AuditLog(key=KEY, older=[OLD_KEY], user="anna", redact=RULES)) as runtime:
        runtime.run({}, thread="keyed")


@scenario(graphs.tour, lambda _, runtime: runtime.resume("mirrored", "left"), everywhere=False, audit=AuditLog(key=KEY))
def mirrored(world: World) -> None:
    """Files of logs beside the store: one is still open, and one is closed."""
    with world.runtime(graphs.tour(), audit=AuditLog(world.logs, key=KEY, user="anna")) as runtime:
        runtime.run({}, thread="mirrored")
        toured(runtime, "closed")
        runtime.delete_thread("closed")


@scenario(graphs.tour, lambda _, runtime: runtime.resume("paused", "right"), threads=("paused",), tenant="acme")
def tenant(world: World) -> None:
    """A thread with the same id as another tenant's thread, and an item of the memory."""
    store = TenantStore(world.store, "acme")
    with world.runtime(graphs.tour(), store) as runtime:
        runtime.run({"notes": ["acme"]}, thread="paused")
        runtime.label("paused", title="Acme's")
    with world.runtime(line(graphs.remember, name="memory"), store) as runtime:
        runtime.run({}, thread="remembering")
        runtime.delete_thread("remembering")


# Models -----------------------------------------------------------------------------------------------------------------


@scenario(
    graphs.modelling,
    lambda _, runtime: runtime.resume("models", answer={"tokens": 5_000}),
    budget=Budget(tokens=250, on_exceeded="interrupt"),
)
def models(world: World) -> None:
    budget = Budget(tokens=250, on_exceeded="interrupt")
    with world.runtime(graphs.modelling(), budget=budget) as runtime:
        runtime.run({}, thread="models")
        runtime.resume("models", answer={"tokens": 100})


@scenario(
    graphs.chat,
    lambda _, runtime: runtime.run({"chat": [UserMessage(text="Shorter.", id="u2")]}, thread="stopped"),
    threads=("stopped", "stopped-on"),
    stream_models=False,
)
def stopped(world: World) -> None:
    """A reply that was interrupted while it was streamed."""

    async def read(runtime: Runtime[Any], thread: str) -> None:
        given = {"chat": [UserMessage(text="Tell me a story.", id="u1")]}
        async for item in runtime.astream(given, thread=thread, modes=("messages",)):
            if getattr(item.item, "text", ""):
                runtime.cancel(thread)

    with world.runtime(graphs.chat()) as runtime:
        for thread in ("stopped", "stopped-on"):
            asyncio.run(read(runtime, thread))
        runtime.run({"chat": [UserMessage(text="Shorter.", id="u2")]}, thread="stopped-on")


@scenario(graphs.album, lambda _, runtime: runtime.run({"chat": [ask_about_picture(3)]}, thread="pictures"))
def pictures(world: World) -> None:
    with world.runtime(graphs.album()) as runtime:
        for number in (1, 2):
            runtime.run({"chat": [ask_about_picture(number)]}, thread="pictures")


def ask_about_picture(number: int) -> UserMessage:
    return UserMessage(content=["What is this?", picture()], id=f"asked-{number}")


# The memory, mail, time, child threads ----------------------------------------------------------------------------------


def count_letters(texts: list[str]) -> list[list[float]]:
    """An embedding: how often three letters occur in each text."""
    return [[float(text.count(letter)) for letter in "aek"] for text in texts]


@scenario(
    lambda: line(graphs.remember, name="memory"),
    lambda _, runtime: runtime.run({}, thread="memory"),
    threads=("memory", "embedded"),
)
def memory(world: World) -> None:
    """Items with a vector, and without."""
    with world.runtime(line(graphs.remember, name="memory"), embed=count_letters) as runtime:
        runtime.run({}, thread="embedded")
        runtime.memory.put("shared", "meaning", "black tea")
    with world.runtime(line(graphs.remember, name="memory")) as runtime:
        runtime.run({}, thread="memory")
        runtime.memory.put("shared", "word", {"größe": [1, "Straße"]})


@scenario(lambda: line(graphs.wait_paid, name="paying"), lambda world, runtime: later(world, runtime, "signals"))
def signals(world: World) -> None:
    """One signal was taken, one waits in the journal, and one in the mail."""
    with world.runtime(line(graphs.wait_paid, name="paying")) as runtime:
        runtime.run({}, thread="signals")
        runtime.signal("signals", "paid", {"amount": 5}, id="s1")
        runtime.signal("signals", "other", 1, id="s2")
        runtime.drive("signals")
        runtime.signal("signals", "sent", "by post", id="s3")


@scenario(lambda: line(graphs.draft, name="short"))
def too_late(world: World) -> None:
    """A letter that had no effect."""
    with world.runtime(line(graphs.draft, name="short")) as runtime:
        runtime.run({}, thread="too-late")
        # Posted by a process that saw the thread being driven, while that drive ended.
        mail._post(runtime._config, world.store, "too-late", "cancel:1", "cancel", {"epoch": 1})
        runtime.drive("too-late")


@scenario(lambda: line(graphs.nap, name="napping"), lambda world, runtime: later(world, runtime, "timer"))
def timer(world: World) -> None:
    with world.runtime(line(graphs.nap, name="napping")) as runtime:
        runtime.run({}, thread="timer")


@scenario(graphs.parent, lambda world, runtime: later(world, runtime, "parent", graphs.doubled()))
def parent(world: World) -> None:
    """The parent waits; its children have not begun."""
    with world.runtime(graphs.parent()) as runtime:
        runtime.run({}, thread="parent")


@scenario(graphs.parent)
def served(world: World) -> None:
    """The children have ended, and so has the parent."""
    with world.runtime(graphs.parent()) as runtime, world.runtime(graphs.doubled()) as child:
        runtime.run({}, thread="served")
        for info in child.due():
            if info.thread.startswith("served"):
                child.drive(info.thread)
        runtime.drive("served")


def later(world: World, runtime: Runtime[Any], thread: str, *others: Any) -> Any:
    """Let two hours pass; drive all due threads of this graph and of *others*, and return the result of the thread."""
    world.clock.advance(7_200)
    if not others:
        return runtime.drive(thread)
    with world.runtime(others[0]) as other:
        return drive_due(runtime, other).get(thread)


# Other kinds of graphs and states ---------------------------------------------------------------------------------------


@scenario(graphs.counting, lambda _, runtime: runtime.run(10, thread="counted"))
def counted(world: World) -> None:
    with world.runtime(graphs.counting()) as runtime:
        runtime.run(graphs.Total(sum=5), thread="counted")
        runtime.run(3, thread="counted")


@scenario(graphs.desk)
def nested_hand_over(world: World) -> None:
    with world.runtime(graphs.desk()) as runtime:
        runtime.run({}, thread="nested-hand-over")


def gathered(runtime: Runtime[Any], thread: str) -> Any:
    return runtime.resume(thread, {question.id: True for question in runtime.state(thread).interrupts})


@scenario(graphs.gathering, lambda _, runtime: gathered(runtime, "gathering"))
def gathering(world: World) -> None:
    """The second run pauses between the fold and the routers; a prune has taken a snapshot there."""
    with world.runtime(graphs.gathering()) as runtime:
        runtime.run({"notes": ["begin"]}, thread="gathering")
        gathered(runtime, "gathering")
        runtime.run({"notes": ["more"]}, thread="gathering")
        runtime.prune("gathering")


@scenario(graphs.holding, lambda _, runtime: runtime.resume("values", graphs.VALUES["id"]))
def values(world: World) -> None:
    with world.runtime(graphs.holding()) as runtime:
        runtime.run(graphs.VALUES, thread="values")


@scenario(graphs.tour, threads=())
def schedules(world: World) -> None:
    with world.runtime(graphs.tour()) as runtime:
        runtime.schedules.add(
            "daily", "0 9 * * *", {"count": 1}, timezone="Europe/Oslo", title="Report", tags=["a"], missed="all"
        )
