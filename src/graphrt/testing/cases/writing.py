"""`case_of`: write a step of a thread as a test.

The thread is only read. Its export is imported into an in-memory store and forked there right before the step. The file
holds the fork.
"""

from __future__ import annotations

import io
import os
from contextlib import nullcontext
from dataclasses import fields
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, Final

from graphrt._arguments import checked_path
from graphrt.errors import a_type, describe_error, names
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.recorded_runs import GRAPH_NOT_IMPORTABLE
from graphrt.errors._codes.stores import CANNOT_WRITE_FILE, PATH_EXISTS
from graphrt.errors._codes.threads import ENTRY_OF_OLDER_GRAPH
from graphrt.graph import CompiledGraph
from graphrt.harness.budget import Budget
from graphrt.runtime import Runtime
from graphrt.stores import MemoryStore, TenantStore
from graphrt.testing.cases import _archive
from graphrt.testing.cases._source import Source, source
from graphrt.testing.cases._step import Recorded, recorded
from graphrt.testing.written_tests import home_of, plain, slug, write_whole

_FORK: Final = "graphrt-case-fork"
"""Temporary id of the fork, until it gets the id of the thread."""


def case_of(
    runtime: Runtime[Any, Any],
    thread: str,
    at: int | None = None,
    *,
    graph: str | None = None,
    to: str | PathLike[str] = ".",
    overwrite: bool = False,
    decrypted: bool = False,
) -> Path:
    """Write a pytest file that runs a step of *thread* again and asserts what it did.

    The file has the state before the step, and the model replies and tools, results of effects and answers that
    the journal recorded for it. If the run failed in the step, the test fails until the node is fixed.

    The file has these values in plain text, including personal data and secrets of the thread. It is meant to be
    committed, so read it first.

    Args:
        runtime: A runtime with the thread's store and graph. Nothing is written to the store.
        thread: A thread that no run drives.
        at: The entry before the step: the `seq` of a snapshot of `history(thread)`. None uses the last step.
        graph: Where the test imports the graph from: `module:variable`, or `module:function()` if a function returns
            it. None looks for a variable of an imported module that holds it.
        to: The file to write, or a folder, where it is named after node, thread and entry: an existing one, or a text
            that ends in `/`. Missing folders are made.
        overwrite: Whether an existing file may be replaced. One with the same content is not an obstacle.
        decrypted: Whether values of an encrypted store may be written in plain.

    Returns:
        The path of the file.

    Raises:
        InputError: There is no such thread, no superstep follows *at*, the graph cannot be imported, the file exists
            (`path-exists`) or cannot be written (`bad-path`), or the store keeps encrypted values (`export-decrypted`).
            Or a node that ran is gone from the graph (`graph-changed`).
    """
    unchecked: Any = runtime
    if not isinstance(unchecked, Runtime):
        raise INVALID_ARGUMENT(argument="The runtime of case_of()", value=unchecked, wanted="the Runtime of the thread")
    module, name = _home(runtime.graph, graph)
    place = checked_path(to)
    step = recorded(runtime, thread, at)
    missing = [node for node in step.nodes if node not in runtime.graph.nodes]
    if missing:
        raise ENTRY_OF_OLDER_GRAPH(
            seq=step.at,
            thread=thread,
            reason=f"the step after it ran what graph {runtime.graph.name!r} no longer has: {names(missing)}",
            has=f"nodes {names(runtime.graph.nodes)}",
        )
    fork = _fork(runtime, thread, step, decrypted=decrypted)
    harness = runtime.harness
    is_agent = hasattr(harness, "__graphrt_drive__")
    about = Source(
        thread=thread,
        module=module,
        name=name,
        deps=None if runtime.deps is None else f"{type(runtime.deps).__module__}.{type(runtime.deps).__qualname__}",
        harness=harness is not None,
        agent=harness.name if is_agent else None,
        agent_home=home_of(harness) if is_agent else None,
        budget=None if runtime.budget is None else _short_repr(runtime.budget),
        state=plain(runtime.state(thread, at=step.at).values),
        text=_archive.encode(fork),
    )
    path = Path(place)
    if path.is_dir() or place.endswith(("/", os.sep)):
        path /= f"test_{slug('_'.join([*step.nodes[:3], thread]))}_{step.at}.py"
    _write(path, source(about, step), overwrite=overwrite)
    return path


def _fork(runtime: Runtime[Any, Any], thread: str, step: Recorded, *, decrypted: bool) -> _archive.Case:
    """Return the thread in its state before the step, with everything that was recorded for the step."""
    file = io.BytesIO()
    runtime.export_thread(thread, file, decrypted=decrypted)
    file.seek(0)
    tenant: str | None = getattr(runtime.store, "tenant", None)
    with (
        MemoryStore() as shared,
        nullcontext(shared) if tenant is None else TenantStore(shared, tenant) as store,
        Runtime(
            runtime.graph,
            store=store,
            seed=0,  # salts of the fork, so that the same thread gives the same file; the run keeps its own seed
            clock=lambda: step.time,
            ids=lambda: step.run,
            migrations=runtime.migrations,
        ) as scratch,
    ):
        # Under its own id, because another id would need the key of its audit log. So a second fork gives the fork that
        # id.
        scratch.import_thread(file)
        scratch.fork(thread, at=step.at, to=_FORK, keep_effects=True)
        scratch.delete_thread(thread)
        scratch.fork(_FORK, to=thread)
        buffer = io.BytesIO()
        scratch.export_thread(thread, buffer)
    name = runtime.graph.name
    return _archive.Case(thread=thread, graph=name, run=step.run, time=step.time, data=buffer.getvalue())


def _short_repr(budget: Budget) -> str:
    """Return the source text of *budget*, without the arguments at their defaults."""
    options = ((field, getattr(budget, field.name)) for field in fields(budget) if field.init)
    return f"Budget({', '.join(f'{field.name}={value!r}' for field, value in options if value != field.default)})"


def _home(graph: CompiledGraph[Any, Any, Any], location: Any) -> tuple[str, str]:
    """Return the module and the name under which the test finds the graph.

    Raises:
        InputError: No imported module has it, or *location* leads to something else.
    """
    if isinstance(location, str):
        return _named(graph, location)
    if location is not None:
        wanted = "the place of the graph as a text: graph='module:variable'"
        raise INVALID_ARGUMENT(argument="graph= of case_of()", value=location, wanted=wanted)
    home = home_of(graph)
    if home is None:
        raise GRAPH_NOT_IMPORTABLE(graph_name=graph.name, problem="no variable of an imported module holds it")
    return home


def _named(graph: CompiledGraph[Any, Any, Any], location: str) -> tuple[str, str]:
    module, _, name = location.partition(":")
    function = name.removesuffix("()")
    try:
        value = getattr(import_module(module), function)
        graph_object = value() if function != name else value
    except Exception as error:
        raise GRAPH_NOT_IMPORTABLE(
            graph_name=graph.name, problem=f"there is no graph at {location!r}: {describe_error(error)}"
        ) from error
    if not isinstance(graph_object, CompiledGraph) or graph_object.fingerprint != graph.fingerprint:
        description = (
            f"graph {graph_object.name!r}" if isinstance(graph_object, CompiledGraph) else a_type(graph_object)
        )
        raise GRAPH_NOT_IMPORTABLE(
            graph_name=graph.name,
            problem=f"at {location!r} is {description}, and not the graph that the runtime drives",
        )
    return module, name


def _write(path: Path, text: str, *, overwrite: bool) -> None:
    try:
        if path.exists() and not overwrite and path.read_bytes() != text.encode():
            fix = "Pass another path as to=, or overwrite=True if its other content is not needed."
            raise PATH_EXISTS(kind="file", file=str(path), fix=fix)
        write_whole(path, text)
    except OSError as error:  # for instance, a parent is a file
        raise CANNOT_WRITE_FILE(file=str(path), reason=describe_error(error)) from error
