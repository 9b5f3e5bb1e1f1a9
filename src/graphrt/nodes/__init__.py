"""Ready-made nodes: factories of functions and graphs for `GraphBuilder.add_node`, and of routers.

They use only the public API: a node of your own could do the same. `import graphrt` does not import
them.
"""

from __future__ import annotations

from graphrt.nodes._adaptive import adaptive
from graphrt.nodes._batch import ItemFailure, OnFailure, batch
from graphrt.nodes._design_prompt import DesignRequest
from graphrt.nodes._human import Decision, human
from graphrt.nodes._kinds import registry, registry_of
from graphrt.nodes._model_call import ModelOptions
from graphrt.nodes._model_nodes import llm, subagent
from graphrt.nodes._recursive.desk import Sandbox
from graphrt.nodes._recursive.factory import ReaderOptions, RecursiveHarness, recursive
from graphrt.nodes._recursive.limits import CostBound, RecursiveLimits
from graphrt.nodes._recursive.long_text import LongText
from graphrt.nodes._reduce import reduce
from graphrt.nodes._router import Routes, router
from graphrt.nodes._state_access import AsyncNode, SyncNode
from graphrt.nodes._tool import tool
from graphrt.nodes._topology_validator import TopologyValidator
from graphrt.nodes._values import ErrorRecord, clear_error, copy_of, record_error, set_value

__all__ = [
    "AsyncNode",
    "CostBound",
    "Decision",
    "DesignRequest",
    "ErrorRecord",
    "ItemFailure",
    "LongText",
    "ModelOptions",
    "OnFailure",
    "ReaderOptions",
    "RecursiveHarness",
    "RecursiveLimits",
    "Routes",
    "Sandbox",
    "SyncNode",
    "TopologyValidator",
    "adaptive",
    "batch",
    "clear_error",
    "copy_of",
    "human",
    "llm",
    "record_error",
    "recursive",
    "reduce",
    "registry",
    "registry_of",
    "router",
    "set_value",
    "subagent",
    "tool",
]
