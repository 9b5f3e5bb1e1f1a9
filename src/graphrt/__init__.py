"""graphrt: a typed graph runtime for agent workflows.

The layers, and the packages in each. Imports go down only (decisions 0002, 0100, 0110, 0153 and 0157,
docs/explanation/floors.md):

    8 doors     testing, console, serve, viewer, cli
    7 wings     nodes, otel, workers, wires, memory, backends, compat
    6 face      specs, graph, _runs, runtime
    5 drivers   _drivers, _agents
    4 flows     _flows
    3 records   _journal, stores, audit
    2 cores     _engine, harness
    1 plan      _plan, reducers
    0 words     errors, commands, events, _usage, limits, migrations, _codec, _retry_policy, _ambient, _observers, _arguments, _overwriting, _due_times, _type_adapters, _forks, _waits, _cancellations, _secret, _display, _sensitive_texts

Importing it is silent, and its names are imported when they are first used. That is light too: no network, no output,
no litellm, and asyncio only once it is needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from graphrt._drivers.context import ChildThread, Context
    from graphrt._engine.route import RouterContext
    from graphrt.commands import DELETE, END, PARENT, START, UNSET, Command, Erased, Interrupt, Overwrite, Send
    from graphrt.errors import (
        AuditError,
        ConcurrentUpdateError,
        ConflictError,
        DefinitionError,
        GraphrtError,
        HarnessError,
        InputError,
        LimitError,
        NodeError,
        ReplayDivergedError,
        RouteError,
        StarvedJoinError,
        StoreError,
        UpdateError,
    )
    from graphrt.graph import CompiledGraph, GraphBuilder
    from graphrt.harness import AgentHarness, Budget, MockHarness, TokenTracker
    from graphrt.limits import Limits, RetryPolicy
    from graphrt.runtime import RunResult, Runtime, Snapshot, Step
    from graphrt.stores import open_store

__version__ = "0.2.0"
__all__ = [  # noqa: RUF022 - the names of a first program, then the others
    "GraphBuilder",
    "START",
    "END",
    "Context",
    "Send",
    "Command",
    "Interrupt",
    "Limits",
    "Runtime",
    "RunResult",
    "MockHarness",
    "open_store",
    "DELETE",
    "PARENT",
    "UNSET",
    "AgentHarness",
    "AuditError",
    "Budget",
    "ChildThread",
    "CompiledGraph",
    "ConcurrentUpdateError",
    "ConflictError",
    "DefinitionError",
    "Erased",
    "GraphrtError",
    "HarnessError",
    "InputError",
    "LimitError",
    "NodeError",
    "Overwrite",
    "ReplayDivergedError",
    "RetryPolicy",
    "RouteError",
    "RouterContext",
    "Snapshot",
    "StarvedJoinError",
    "Step",
    "StoreError",
    "TokenTracker",
    "UpdateError",
]


_HOMES: Final = {
    "graphrt._drivers.context": ("ChildThread", "Context"),
    "graphrt._engine.route": ("RouterContext",),
    "graphrt.commands": (
        "DELETE",
        "END",
        "PARENT",
        "START",
        "UNSET",
        "Command",
        "Erased",
        "Interrupt",
        "Overwrite",
        "Send",
    ),
    "graphrt.graph": ("CompiledGraph", "GraphBuilder"),
    "graphrt.harness": ("AgentHarness", "Budget", "MockHarness", "TokenTracker"),
    "graphrt.limits": ("Limits", "RetryPolicy"),
    "graphrt.runtime": ("RunResult", "Runtime", "Snapshot", "Step"),
    "graphrt.stores": ("open_store",),
}
"""Module of each public name. Any other name is an AttributeError."""
_MODULES: Final = frozenset(
    {"commands", "errors", "events", "graph", "harness", "limits", "migrations", "reducers", "runtime", "stores"}
)
"""Modules that are attributes without an import of their own."""


def __getattr__(name: str) -> Any:
    # At first use (PEP 562, decision 0134): the command line and the completion of a shell import the package only.
    if name in _MODULES:
        return import_module(f"graphrt.{name}")
    if name in __all__:
        home = next((module for module, names in _HOMES.items() if name in names), "graphrt.errors")
        export = globals()[name] = getattr(import_module(home), name)  # so that the next use is not a call
        return export
    from graphrt.errors._langgraph_names import no_export

    raise no_export("graphrt", name)


def __dir__() -> list[str]:
    return sorted(__all__)
