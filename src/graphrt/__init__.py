"""graphrt: a typed graph runtime for agent workflows.

The floors, and the rooms on each. Imports go down only (decisions 0002, 0100, 0110 and 0153, docs/explanation/floors.md):

    8 doors     testing
    7 wings     nodes, otel, workers, compat
    6 face      specs, graph, _runs, runtime
    5 drivers   _drivers, _agents
    4 flows     _flows
    3 records   _journal, stores, audit
    2 cores     _engine, harness
    1 plan      _plan, reducers
    0 words     errors, commands, events, _usage, limits, migrations, _codec, _retry_policy, _ambient, _observers, _arguments, _forks, _secret

Importing it is light and silent: no network, no output, no litellm, and asyncio only once it is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrt._drivers.context import Context
from graphrt.commands import DELETE, END, START, UNSET, Command, Erased, Interrupt, Overwrite, Send
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
from graphrt.limits import Limits, RetryPolicy
from graphrt.runtime import RunResult, Runtime, Snapshot, Step
from graphrt.stores import open_store

if TYPE_CHECKING:
    from graphrt.harness import AgentHarness, Budget, MockHarness, TokenTracker

__version__ = "0.1.0"
__all__ = [
    "DELETE",
    "END",
    "START",
    "UNSET",
    "AgentHarness",
    "AuditError",
    "Budget",
    "Command",
    "CompiledGraph",
    "ConcurrentUpdateError",
    "ConflictError",
    "Context",
    "DefinitionError",
    "Erased",
    "GraphBuilder",
    "GraphrtError",
    "HarnessError",
    "InputError",
    "Interrupt",
    "LimitError",
    "Limits",
    "MockHarness",
    "NodeError",
    "Overwrite",
    "ReplayDivergedError",
    "RetryPolicy",
    "RouteError",
    "RunResult",
    "Runtime",
    "Send",
    "Snapshot",
    "StarvedJoinError",
    "Step",
    "StoreError",
    "TokenTracker",
    "UpdateError",
    "open_store",
]


def __getattr__(name: str) -> Any:
    if name in ("AgentHarness", "Budget", "MockHarness", "TokenTracker"):  # not every run speaks to a model
        from graphrt import harness

        return getattr(harness, name)
    from graphrt.errors._foreign import PACKAGE

    if name in PACKAGE:  # not an AttributeError: of that `from graphrt import ...` keeps no word
        raise ImportError(
            f"graphrt has no {name!r}: {PACKAGE[name]}. See docs/how-to/from-langgraph.md.", name="graphrt"
        )
    raise AttributeError(f"module 'graphrt' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
