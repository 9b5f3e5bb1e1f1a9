"""From a manifest to a builder: the entries of a manifest become the declarations that the builder's methods make.

`specs` reads the manifest, looks up its names, and returns a `ReadGraph`: the state class, and one call for each
declaration. Paths in the manifest replace source lines, so that `compile()` reports where in the manifest a problem is.
For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from graphrt._plan.specs import EdgeSpec
from graphrt.specs.reading import ReadGraph, read_graph

if TYPE_CHECKING:
    from graphrt.specs import Registry, SpecLimits

B = TypeVar("B")
"""`GraphBuilder`."""


def declared_builder(
    builder: type[B], spec: Any, registry: Registry | None, state: Any, limits: SpecLimits | None
) -> B:
    """Return a builder with the declarations of a manifest; see `GraphBuilder.from_spec`.

    Args:
        builder: The class `GraphBuilder`. It is passed in, because its module imports this one.
        spec: The manifest: a GraphSpec, a mapping, or JSON text or bytes.
        registry: What its names mean.
        state: The state class; None uses that of the manifest.
        limits: How large the manifest may be.
    """

    def compiled(graph: ReadGraph) -> Any:
        """Compile a nested graph. The reader also compiles the whole graph, to report all problems at once."""
        return _declared(builder, graph).compile()

    result: B = _declared(builder, read_graph(spec, registry, compiled, state, limits))
    return result


def _declared(builder: Any, graph: ReadGraph) -> Any:
    """Return an instance of the class *builder* with the declarations of *graph*."""
    if graph.overwrite:  # nodes return the full next state, not an update
        instance = builder.overwrite(
            graph.state, name=graph.name, version=graph.version, hands_over_to=graph.hands_over_to
        )
    else:
        instance = builder(
            graph.state,
            graph.update,
            reducer=graph.reducer,
            name=graph.name,
            version=graph.version,
            hands_over_to=graph.hands_over_to,
            **graph.schemas,
        )
    instance._limits, instance._allow = graph.limits, graph.allow
    # A call is its kind, the arguments of the builder's private method, and the path in the manifest.
    calls: Mapping[str, Callable[..., None]] = {
        "node": instance._add,
        "branch": instance._branch,
        "join": instance._join,
    }
    for method, args, where in graph.calls:
        if method == "edge":  # the builder has no private method for edges
            instance._declared.append(EdgeSpec(args[0], args[1], where))
        else:
            calls[method](*args, where)
    return instance
