"""Protocols through which drivers start and read child threads (R24). The store's side is in `_runs.child_threads`.

A node starts a child thread by `ctx.start`, which any worker process then runs, and waits for its end by `ctx.wait`;
both are in `context`. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from graphrt._plan.tables import Plan
    from graphrt.stores.values import Labels

ENDS_RUN: Final = "ends_run"
"""Attribute of a StoreError about a child thread. The store failed, or another process held the child for too long: the
run ends without an outcome of the node, and other processes go on with its thread."""
S_co = TypeVar("S_co", covariant=True)
Tags: TypeAlias = AbstractSet[str] | list[str] | tuple[str, ...]
"""Tags of a thread. Not an Iterable: a single tag is a str, which is an Iterable of str too."""


class StateGraph(Protocol[S_co]):
    """A compiled graph, as far as child threads use it. `CompiledGraph` implements it, on a floor above."""

    __graphrt_plan__: Plan
    """The graph as tables of nodes and edges."""

    @property
    def name(self) -> str:
        """Name of the graph."""
        ...

    @property
    def state_type(self) -> type[S_co]:
        """Class of its state; a type checker derives from it what `ctx.wait` returns."""
        ...

    @property
    def fingerprint(self) -> str:
        """Digest of names, edges, policies and schema, which tells whether two graphs are the same."""
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
    """The child threads of a run, as the store has them. `_runs` implements it. All methods but `check` may block.

    Ids have no tenant: a thread and its children have the same one.
    """

    def check(self, graph: Any, given: Any, title: Any, tags: Any) -> Labels | None:
        """Check what a child is to be started with, and return its labels; None without title and tags.

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
        """Make the thread and leave its run to others, unless it exists.

        Args:
            given: The checked input.
            thread: Id of the child.
            labels: What `check` returned.
            detached: Whether the child goes on when the run's own thread is cancelled.
        """
        ...

    def ended(self, graph: Any, thread: str) -> Ended | None:
        """Return how the last run of a thread ended; None if it goes on, waits, or is due."""
        ...

    def has(self, graph: Any, thread: str) -> bool:
        """Return whether the thread is a child of the run's thread: only then its end is reported to it by mail."""
        ...

    def state(self, graph: Any, data: Any) -> Any:
        """Return the state that `ended` returned as plain data (*data*), as an instance of the graph's state class."""
        ...
