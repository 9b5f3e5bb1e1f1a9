"""Protocols through which drivers start and read child threads (R24). The store's side is in `_runs.child_threads`.

A node starts a child thread with `ctx.start`; any worker process may then run it. The node waits for its end with
`ctx.wait`. Both methods are in `context`. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from graphrt._plan.tables import Plan
    from graphrt.stores.values import Labels

ENDS_RUN: Final = "ends_run"
"""Attribute of a StoreError about a child thread, if the store failed or another process held the child for too long.
The run then ends without an outcome of the node, and other processes continue its thread."""
S_co = TypeVar("S_co", covariant=True)
Tags: TypeAlias = AbstractSet[str] | list[str] | tuple[str, ...]
"""Tags of a thread. Not an Iterable, because a single tag, a str, is also an Iterable of str."""


class StateGraph(Protocol[S_co]):
    """The part of a compiled graph that child threads use. Implemented by `CompiledGraph`, in a layer above."""

    __graphrt_plan__: Plan
    """Tables of the graph's nodes and edges."""

    @property
    def name(self) -> str:
        """Name of the graph."""
        ...

    @property
    def state_type(self) -> type[S_co]:
        """Class of its state, from which type checkers infer the result of `ctx.wait`."""
        ...

    @property
    def fingerprint(self) -> str:
        """Digest of names, edges, policies and schema. Two graphs with the same digest are the same."""
        ...


class Ended(NamedTuple):
    """The outcome of a child thread."""

    status: str
    """`completed`, `failed` or `cancelled`; `deleted` if the thread no longer exists."""
    state: Any = None
    """The final state as plain data, if it completed."""
    error: str = ""
    """Class and first line of the error, if it failed."""


class ChildThreads(Protocol):
    """The child threads of a run in the store; implemented by `_runs`.

    All methods except `check` may block. Ids do not contain the tenant, which is the same for a thread and its
    children.
    """

    def check(self, graph: Any, given: Any, title: Any, tags: Any) -> Labels | None:
        """Check the options for starting a child. Returns its labels, or None without title and tags.

        Args:
            graph: A compiled graph, as for all methods here.
            given: The input: an instance of the state class of *graph*, or a mapping of its fields.
            title: Title of the thread as the user passed it; None for none.
            tags: Tags as the user passed them.

        Raises:
            InputError: The input does not fit the graph, or a label is wrong.
        """
        ...

    def make(self, graph: Any, given: Any, thread: str, labels: Labels | None, *, detached: bool) -> None:
        """Create the thread, unless it exists, and leave its run to a worker.

        Args:
            given: The checked input.
            thread: Id of the child.
            labels: What `check` returned.
            detached: Whether the child continues when the run's own thread is cancelled.
        """
        ...

    def ended(self, graph: Any, thread: str) -> Ended | None:
        """Return how the last run of a thread ended; None if it is running, waiting or due."""
        ...

    def has(self, graph: Any, thread: str) -> bool:
        """Return whether the thread is a child of the run's thread: only then is its end reported by mail."""
        ...

    def state(self, graph: Any, data: Any) -> Any:
        """Convert *data*, the plain data of the state that `ended` returned, to the graph's state class."""
        ...
