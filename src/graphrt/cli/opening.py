"""Opens stores and runtimes for commands, and defines the options that select them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Generator
from contextlib import contextmanager
from difflib import get_close_matches
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote

import click

from graphrt.cli.documents import assignments, key_in
from graphrt.cli.targets import graph_of, load
from graphrt.errors import InputError, closest, names
from graphrt.errors._codes.arguments import ARGUMENTS_EXCLUDE_EACH_OTHER, UNKNOWN_NAME_IN_ARGUMENT
from graphrt.errors._codes.command_line import (
    BAD_TARGET,
    NO_SUCH_DATABASE,
)
from graphrt.errors._codes.threads import UNKNOWN_THREAD
from graphrt.limits import Limits
from graphrt.runtime import Runtime
from graphrt.stores import MemoryStore, Store, open_store
from graphrt.stores.filters import ThreadFilter
from graphrt.stores.urls import check_is_url
from graphrt.viewer._no_graph import nothing

if TYPE_CHECKING:
    from graphrt.audit import AuditLog

MOST_SIMILAR: Final = 3
"""Maximum number of ids that the error for an unknown thread names."""
MOST_COMPARED: Final = 1_000
"""Number of threads, oldest first, whose ids are compared for that: a hundred take a millisecond."""
_OF_DATABASES: Final = (".db", ".sqlite", ".sqlite3")
"""Suffixes by which the path of a missing database is recognised."""
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

STORE: Final = click.option(
    "--store", metavar="URL", envvar="GRAPHRT_STORE", show_envvar=True,
    help="The store: sqlite:///runs.db, postgresql://..., or the path of a SQLite file.",
)  # fmt: skip
TARGET: Final = click.argument("target")
"""The first argument: a graph. For commands that need no graph, `opened_any` accepts a store instead."""
LISTED: Final = click.argument("target", required=False)
"""The same argument for lists of threads, optional where `--store` or the environment names the store."""
THREAD: Final = click.argument("thread")


def runtime_options(function: F) -> F:
    """Add the options of commands that run nodes."""
    for option in reversed((
        STORE,
        click.option("--limits", multiple=True, metavar="NAME=VALUE,...", help="Override limits, such as deadline_s=60."),
        click.option("--budget", multiple=True, metavar="NAME=VALUE,...", help="Budget of the model calls: usd=0.5,tokens=10000."),
        click.option("--deps", metavar="TARGET", help="Object that nodes reach as ctx.deps."),
        click.option("--harness", metavar="TARGET", help="The harness that nodes reach as ctx.harness."),
        click.option("--key-file", metavar="FILE", help="File with the key of the thread's audit log."),
        click.option("--models", metavar="TARGET", help="A mapping of agent names to the models that replace theirs."),
    )):  # fmt: skip
        function = option(function)
    return function


def url_of(given: str | None, *, creates: bool = False) -> str:
    """Return the URL of a store. Its file must exist unless the command *creates* it.

    Raises:
        InputError: None was given, or there is no such file.
    """
    if not given:
        raise NO_SUCH_DATABASE(problem="The command needs a store, and none was given")
    check_is_url(given)  # otherwise it would be taken for the path of a file, and shown
    url = given if ":" in given.replace("\\", "/").split("/")[0] else f"sqlite:///{given}"
    if url.startswith("sqlite:///") and not creates:
        path = unquote(url[len("sqlite:///") :].partition("?")[0])
        if not Path(path).is_file():
            raise NO_SUCH_DATABASE(problem=f"There is no file {path!r}")
    return url


@contextmanager
def opened_store(given: str | None, *, creates: bool = False) -> Generator[Store]:
    """Open a store for a command, and close it.

    Raises:
        InputError: None was given, or there is no such file.
        StoreError: It cannot be opened.
    """
    store = open_store(url_of(given, creates=creates))
    try:
        with _similar_named(store):
            yield store
    finally:
        store.close()


@contextmanager
def _similar_named(store: Store | None) -> Generator[None]:
    """Add threads of *store* with similar ids to the error about an unknown thread."""
    try:
        yield
    except InputError as error:
        wanted: str | None = getattr(error, "thread", None)
        if store is None or error.code != UNKNOWN_THREAD.code or not wanted:
            raise
        begins = [head.thread for head in store.query(ThreadFilter(prefix=wanted), limit=MOST_SIMILAR)]
        ids = [head.thread for head in store.query(ThreadFilter(), limit=MOST_COMPARED)]
        similar = begins or get_close_matches(wanted, ids, MOST_SIMILAR)
        if not similar:
            raise
        raise UNKNOWN_THREAD(thread=wanted, known=f"threads with a similar id: {names(similar)}") from error


@contextmanager
def threads_of(target: str | None, store: str | None) -> Generator[tuple[Runtime[Any, Any], str | None]]:
    """Open the store whose threads a command lists: the store of *target* (see `LISTED`), or *store*.

    Yields:
        A runtime, and the name of the graph whose threads are listed; None for the threads of all graphs.

    Raises:
        InputError: As `opened_runtime`.
    """
    if target is None:
        with opened_store(store) as opened, Runtime(nothing(), store=opened) as runtime:
            yield runtime, None
        return
    with opened_any(target, store) as runtime:
        yield runtime, None if is_store(target) else runtime.graph.name


def is_store(target: str) -> bool:
    """Return whether *target* names a store, by a URL or the path of a database, rather than a graph."""
    return "://" in target or target.endswith(_OF_DATABASES) or (Path(target).is_file() and not target.endswith(".py"))


@contextmanager
def opened_any(target: str, store: str | None, *, creates: bool = False) -> Generator[Runtime[Any, Any]]:
    """Open the store that *target* is, or the runtime of the graph that it names, for commands that need no graph.

    Raises:
        InputError: As `opened_runtime`.
    """
    if not is_store(target):
        with opened_runtime(target, store, creates=creates) as runtime:
            yield runtime
        return
    if store and _on_the_line("store"):
        raise click.UsageError("TARGET is a store already: leave out --store.")
    with opened_store(target, creates=creates) as opened, Runtime(nothing(), store=opened) as runtime:
        yield runtime


@contextmanager
def opened_runtime(
    target: str,
    store: str | None,
    *,
    creates: bool = False,
    in_memory: bool = False,
    limits: tuple[str, ...] = (),
    budget: tuple[str, ...] = (),
    deps: str | None = None,
    harness: str | None = None,
    models: str | None = None,
    key_file: str | None = None,
    lease_s: float | None = None,
) -> Generator[Runtime[Any, Any]]:
    """Make the runtime of a command, and close it.

    Args:
        creates: Whether the command may create the database.
        in_memory: Whether a runtime without a store keeps its thread in memory, instead of being refused.

    A target that is a Runtime without a store uses the store of the option or the environment. One with a store keeps
    it, also where the environment names another.

    Raises:
        InputError: The target or an option is wrong, or no store was given.
        DefinitionError: The graph is wrong.
        StoreError: The store cannot be opened.
    """
    if is_store(target):
        # The target may contain a password, so it is not shown.
        raise BAD_TARGET(
            given="TARGET", problem="it is a store, and this command needs the graph of the thread", target=""
        )
    graph, runtime = graph_of(target)
    options = {
        "limits": limits,
        "budget": budget,
        "deps": deps,
        "harness": harness,
        "models": models,
        "key-file": key_file,
        "lease": lease_s,
    }
    named = [name for name, value in options.items() if value]
    if runtime is not None:
        if named:
            raise ARGUMENTS_EXCLUDE_EACH_OTHER(
                argument=f"Giving {' and '.join(f'--{name}' for name in named)}",
                other=f"{target!r}, a Runtime that has its own",
                superfluous="the options, or name the graph instead",
            )
        if runtime.store is not None and store and _on_the_line("store"):
            raise ARGUMENTS_EXCLUDE_EACH_OTHER(
                argument="--store",
                other=f"{target!r}, a Runtime with a store of its own, a {type(runtime.store).__name__}",
                known="the store of the Runtime is used, and GRAPHRT_STORE is ignored",
                superfluous="--store, or make the Runtime without store= to have it take the one of --store",
            )
        if runtime.store is None and (store or not in_memory):
            runtime = runtime.with_store(url_of(store, creates=creates))
        with runtime, _similar_named(runtime.store):
            yield runtime
        return
    url = "memory:" if in_memory and not store else url_of(store, creates=creates)
    from graphrt.harness import Budget

    lease: dict[str, Any] = {} if lease_s is None else {"lease_s": lease_s}

    with (
        Runtime(
            graph,
            store=url,
            limits=_made(Limits, limits, "--limits"),
            budget=_made(Budget, budget, "--budget"),
            deps=load(deps) if deps else None,
            harness=load(harness) if harness else None,
            models=load(models) if models else None,
            audit=_audit_log(key_file) if key_file else None,
            **lease,
        ) as opened,
        _similar_named(opened.store),
    ):
        yield opened


def check_is_shared(target: str, runtime: Runtime[Any, Any]) -> None:
    """Check that other processes reach the threads of *runtime*, for commands that leave them work or take it up.

    Raises:
        InputError: Its store is in memory.
    """
    if isinstance(runtime.store, MemoryStore):
        raise NO_SUCH_DATABASE(problem=f"{target!r} has its threads in memory, which no other process reaches")


def _audit_log(key_file: str) -> AuditLog:
    from graphrt.audit import AuditLog  # the import is a sixth of a command's start-up time, and few commands need it

    return AuditLog(key=key_in(key_file))


def _made(kind: type[T], assigned: tuple[str, ...], option: str) -> T | None:
    """Build limits or a budget from assignments; None if there are none."""
    if not assigned:
        return None
    values = assignments(assigned, option)
    known = list(signature(kind).parameters)
    for name in values:
        if name not in known:
            raise UNKNOWN_NAME_IN_ARGUMENT(
                argument=option, name=name, what="amount", known_names=known, guess=closest(name, known)
            )
    return kind(**values)


def way_on(verb: str, target: str, thread: str) -> str:
    """Return the command line that continues *thread*, with the store and node options of the current one."""
    words = ["graphrt", verb, target, thread]
    for name, value in click.get_current_context().params.items():
        if name in _OF_NODES and value and _on_the_line(name):
            # A URL with a user may have a password, which must not get into the log of a build.
            words += [f"--{name.replace('_', '-')}", "URL" if "@" in value else value]
    return shlex.join(words)


_OF_NODES: Final = ("store", "deps", "harness", "models", "key_file")


def _on_the_line(name: str) -> bool:
    """Return whether the option was given on the command line rather than by the environment."""
    source: Any = click.get_current_context().get_parameter_source(name)
    return bool(source is not None and source.name == "COMMANDLINE")
