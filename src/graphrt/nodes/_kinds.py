"""The kinds of ready-made nodes in manifests, and registries with these kinds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from graphrt.graph import CompiledGraph
from graphrt.nodes._adaptive import AdaptiveForm
from graphrt.nodes._batch import BatchForm
from graphrt.nodes._human import HumanForm
from graphrt.nodes._model_nodes import LlmForm, SubagentForm
from graphrt.nodes._reduce import ReduceForm
from graphrt.nodes._router import FieldRouterForm
from graphrt.nodes._tool import ToolForm
from graphrt.nodes._values import ClearErrorForm, RecordErrorForm, SetValueForm
from graphrt.specs import Form, Registry
from graphrt.specs.registry import Named
from graphrt.specs.writing import registry_of as found_registry

KINDS: Final[tuple[type[Form], ...]] = (
    LlmForm,
    SubagentForm,
    ToolForm,
    ReduceForm,
    HumanForm,
    BatchForm,
    AdaptiveForm,
    SetValueForm,
    ClearErrorForm,
    RecordErrorForm,
    FieldRouterForm,
)


def registry(
    *,
    functions: Named = (),
    routers: Named = (),
    reducers: Named = (),
    tools: Named = (),
    models: Named = (),
    agents: Named = (),
    graphs: Named = (),
    types: Named = (),
    kinds: Iterable[type[Form]] = (),
) -> Registry:
    """Return a registry for `GraphBuilder.from_spec` that knows the ready-made nodes.

    Each section is a mapping of names, or a list of objects that have names; see `graphrt.specs.Registry`.

    Args:
        functions: Functions of nodes, prompts, cache keys, and of the mappings of nested graphs.
        routers: Routers.
        reducers: Reducers that are not built in.
        tools: Functions for nodes of the kind "tool".
        models: Models, or their names as strings.
        agents: Agents and harnesses.
        graphs: Compiled graphs.
        types: Classes: states, updates, outputs of models, enums of labels, exceptions.
        kinds: Forms of your own factories.

    Raises:
        InputError: A section is neither, or has a duplicate name (`bad-registry`).
    """
    return Registry(
        functions=functions,
        routers=routers,
        reducers=reducers,
        tools=tools,
        models=models,
        agents=agents,
        graphs=graphs,
        types=types,
        kinds=(*KINDS, *kinds),
    )


def registry_of(graph: CompiledGraph[Any, Any, Any], *, kinds: Iterable[type[Form]] = ()) -> Registry:
    """Return a registry with everything that *graph* uses, under the names that `graph.to_spec()` gives.

    Args:
        graph: The graph.
        kinds: Forms of your own factories.

    Raises:
        DefinitionError: Something in the graph cannot be written as data.
    """
    return found_registry(graph, (*KINDS, *kinds))
