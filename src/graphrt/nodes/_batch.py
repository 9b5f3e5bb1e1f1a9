"""`batch`: a nested graph that runs nodes in parallel, once each or once per item, and handles failures.

```text
   START -> split ==Sends==> the nodes of the batch --on_error--> settle
```

Each item is a task of the nested graph. So its outcome is journalled when it ends, and a resumed run repeats only
unfinished items. Updates fold through the reducers of the parent graph, in the order of the items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import islice
from typing import Any, ClassVar, Final, Literal, TypeAlias, TypeVar

from typing_extensions import Unpack

from graphrt._arguments import is_iterable, is_mapping, number_problem
from graphrt._drivers.context import Context
from graphrt.commands import END, START, Command, Send
from graphrt.errors import NodeError, TaskFailure, names
from graphrt.errors._codes.arguments import ARGUMENT_NEEDS_ANOTHER, ARGUMENTS_EXCLUDE_EACH_OTHER, INVALID_ARGUMENT
from graphrt.errors._codes.ready_nodes import BATCH_LIMIT, BATCH_QUORUM, NO_BATCH_ITEMS
from graphrt.graph import CompiledGraph, GraphBuilder, declare_fields
from graphrt.graph.policies import GraphPolicy
from graphrt.limits import Limits
from graphrt.nodes._state_access import checked_names, read
from graphrt.nodes._values import ErrorRecord, error_record
from graphrt.specs import Form, FunctionRef, NodeSpec, Parts, PolicySpec, Writer, declare_form
from graphrt.specs.manifest import Name, Number

S = TypeVar("S")
OnFailure: TypeAlias = Literal["raise", "collect", "best_effort", "quorum"]
"""Handling of failed items of a batch."""

_POLICIES: Final = ("raise", "collect", "best_effort", "quorum")
_SPLIT, _SETTLE, _WORK = "split", "settle", "work"
_LISTED: Final = 5
"""Maximum number of failures that a message names."""


class ItemFailure(ErrorRecord):
    """A failed item of a batch, as plain data."""

    index: int | None
    """Index of the item, from 0; None in a batch without items."""


def batch(
    state: type[S],
    work: Any,
    *,
    over: str | Callable[[S], Iterable[Any]] | None = None,
    item: str | None = None,
    on_failure: OnFailure = "raise",
    quorum: int | None = None,
    failures: str | None = None,
    max_concurrency: int | None = None,
    max_items: int = 10_000,
    total_timeout_s: float | None = None,
    name: str = "batch",
    **policy: Unpack[GraphPolicy[S]],
) -> CompiledGraph[S, Mapping[str, Any]]:
    """Return a graph for `add_node` that runs nodes in parallel: each once, or each once per item.

    The returned updates fold through the reducers of the parent graph, in the order of the items.

    Args:
        state: The state class of the parent graph.
        work: What runs: a node (function, compiled graph, agent), or a mapping of names to nodes.
        over: The field with the items, or a function of the state that returns them. None runs each node once. Without
            items, nothing runs and nothing is written.
        item: For a compiled graph: its field that gets the item. Without it each item is a mapping of its fields. A
            function finds the item as `ctx.arg`.
        on_failure: "raise" fails at the first failure and cancels the other items; the error's `arg` is the item.
            "collect" runs every item and writes each failure into `failures`. "best_effort" is the same where
            `failures` may be left out. "quorum" is the same if at least `quorum` tasks succeed; otherwise the batch
            fails, and nothing is written.
        quorum: How many tasks must succeed; one task is one node for one item.
        failures: A list field with an appending reducer for `ItemFailure`s, in the order of the items.
        max_concurrency: Maximum number of concurrent tasks; None uses the limit of the run.
        max_items: Maximum number of items; more raise a LimitError (`batch-limit`) before anything runs.
        total_timeout_s: Seconds for the whole batch. Tasks that have not ended by then fail with a TimeoutError and are
            not retried; `on_failure` decides what follows. None means no limit. `timeout_s` is the time of each task.
        name: Name of the nested graph, for messages.
        **policy: Policy arguments of every node in it, such as `retry`, `timeout_s` and `tools`; and `input` and
            `output` of a compiled graph.

    Raises:
        InputError: An argument is wrong (`input`).
        DefinitionError: A node of the batch cannot be one, or the state has no field `over` or `failures`.
    """
    options: dict[str, Any] = dict(policy)
    nodes: dict[str, Any] = dict(work) if is_mapping(work) else {_WORK: work}
    _check(nodes, over, on_failure, quorum, failures, max_items, options)
    if number_problem("total_timeout_s", total_timeout_s, optional=True, seconds=True) is not None:
        raise INVALID_ARGUMENT(
            argument="total_timeout_s= of batch()", value=total_timeout_s, wanted="a number of seconds, or None"
        )
    as_mapping = item if any(hasattr(fn, "__graphrt_plan__") for fn in nodes.values()) else None
    if item is not None and as_mapping is None:
        raise ARGUMENTS_EXCLUDE_EACH_OTHER(
            argument="item= of batch()",
            other="a function as its work",
            superfluous="item=: a function finds its item as ctx.arg",
        )
    wanted = quorum if on_failure == "quorum" else None
    tasks = partial(_tasks, over=over, nodes=tuple(nodes), item=as_mapping, max_items=max_items, name=name)

    def split(state: Any) -> Command[Any]:
        due = tasks(state)
        if wanted is not None and len(due) < wanted:
            raise _missed([], len(due), wanted, name)
        return Command(goto=due)

    def settle(state: Any, ctx: Context[Any]) -> dict[str, Any]:
        item_failures = [_failed(failure, tuple(nodes), as_mapping, each=over is not None) for failure in ctx.failures]
        if wanted is not None and (total := len(tasks(state))) - len(item_failures) < wanted:
            raise _missed(item_failures, total, wanted, name)
        return {} if failures is None else {failures: item_failures}

    builder = GraphBuilder(state, name=name)
    declare_fields(split, reads=[over] if isinstance(over, str) else ())
    declare_fields(settle, writes=() if failures is None else [failures])
    # Only a batch over items can be empty; otherwise no run would take the route to END.
    builder.add_node(_SPLIT, split, goto=[*nodes, END] if over is not None else [*nodes])
    lasting = on_failure != "raise"
    if lasting:
        options["on_error"] = _SETTLE
    for node, fn in nodes.items():
        builder.add_node(node, fn, **options)
    if lasting:
        builder.add_node(_SETTLE, settle)
    builder.add_edge(START, _SPLIT)
    room = max(1, max_items * len(nodes))
    graph = builder.compile(
        limits=Limits(max_tasks=room, max_concurrency=max_concurrency, step_timeout_s=total_timeout_s)
    )
    arguments: dict[str, Any] = {
        "over": over,
        "item": item,
        "on_failure": on_failure,
        "quorum": quorum,
        "failures": failures,
    }
    arguments |= {
        "max_concurrency": max_concurrency,
        "max_items": max_items,
        "name": name,
        "total_timeout_s": total_timeout_s,
    }
    return declare_form(graph, BatchForm, {"work": nodes, "policy": policy, **arguments})


class BatchForm(Form):
    """Runs nodes in parallel: each once, or each once per item."""

    kind: Literal["batch"] = "batch"
    work: list[NodeSpec]
    """The nodes that run: 1..n. Their policy is `each`."""
    over: Name | FunctionRef | None = None
    """The field with the items, or a function of the registry; null runs each node once."""
    item: Name | None = None
    """For nested graphs: their field that gets the item."""
    on_failure: OnFailure = "raise"
    quorum: int | None = None
    failures: Name | None = None
    """A list field with an appending reducer, for the failures."""
    max_concurrency: int | None = None
    max_items: int = 10_000
    total_timeout_s: Number | None = None
    """Seconds for all of the work."""
    batch_name: Name = "batch"
    each: PolicySpec | None = None
    """The policy of every node of the batch."""

    factory: ClassVar[Any] = staticmethod(batch)
    renamed: ClassVar[Mapping[str, str]] = {"batch_name": "name"}

    def make(self, parts: Parts) -> Any:
        """Return the nested graph."""
        nodes = {node.name: parts.node(node, f"work[{at}]") for at, node in enumerate(self.work)}
        if len(nodes) < len(self.work):
            parts.problem("Two nodes have the same name", "work")
        for at, node in enumerate(self.work):
            if "policy" in node.model_fields_set:
                parts.problem("A node of a batch has no policy of its own: use each", f"work[{at}].policy")
        policy = parts.policy(
            self.each or PolicySpec(), "each", of_agent=any(node.kind == "agent" for node in self.work)
        )
        arguments = self.arguments(parts)
        arguments = {name: value for name, value in arguments.items() if name not in ("work", "each")}
        return None if parts.failed else batch(parts.state, nodes, **arguments, **policy)

    @classmethod
    def written(cls, arguments: Mapping[str, Any], writer: Writer) -> dict[str, Any]:
        """Return the arguments with the nodes as data."""
        plain = {name: value for name, value in arguments.items() if name not in ("work", "policy")}
        nodes = arguments["work"].items()
        data = {"work": [writer.item(name, fn, f"work[{at}]") for at, (name, fn) in enumerate(nodes)]}
        data |= super().written(plain, writer)
        each = writer.policy(
            arguments["policy"], "each", of_agent=any(node["kind"] == "agent" for node in data["work"])
        )
        return {**data, "each": each} if each else data


def _check(
    nodes: Mapping[Any, Any],
    over: Any,
    on_failure: Any,
    quorum: Any,
    failures: Any,
    max_items: Any,
    options: Mapping[str, Any],
) -> None:
    if not nodes:
        raise INVALID_ARGUMENT(
            argument="The work of batch()", value={}, wanted="a node, or a mapping of names to nodes"
        )
    taken = [name for name in nodes if name in (_SPLIT, _SETTLE)]
    if taken:
        raise INVALID_ARGUMENT(
            argument="A node of a batch", value=taken[0], wanted="another name: the batch has a node of this name"
        )
    if not (over is None or callable(over) or (isinstance(over, str) and over)):
        raise INVALID_ARGUMENT(
            argument="over= of batch()", value=over, wanted="a field with items, or a function that returns them"
        )
    if on_failure not in _POLICIES:
        raise INVALID_ARGUMENT(argument="on_failure= of batch()", value=on_failure, wanted=f"one of {names(_POLICIES)}")
    if (on_failure == "quorum") != (quorum is not None):
        raise ARGUMENT_NEEDS_ANOTHER(
            argument="on_failure='quorum' of batch()" if quorum is None else "quorum= of batch()",
            missing="quorum=" if quorum is None else "on_failure='quorum'",
        )
    for option, value in (("quorum", 1 if quorum is None else quorum), ("max_items", max_items)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise INVALID_ARGUMENT(argument=f"{option}= of batch()", value=value, wanted="a whole number of 1 or more")
    if on_failure == "collect" and failures is None:
        raise ARGUMENT_NEEDS_ANOTHER(
            argument="on_failure='collect' of batch()", missing="a field for them: failures='failed'"
        )
    if on_failure == "raise" and failures is not None:
        raise ARGUMENT_NEEDS_ANOTHER(argument="failures= of batch()", missing="on_failure='collect'")
    if failures is not None:
        checked_names("failures", failures, "batch()")
    if "on_error" in options:
        raise ARGUMENTS_EXCLUDE_EACH_OTHER(
            argument="on_error= of batch()", other="its on_failure=", superfluous="on_error=, and give it to add_node"
        )


def _tasks(state: Any, *, over: Any, nodes: tuple[str, ...], item: str | None, max_items: int, name: str) -> list[Any]:
    """Return the tasks to start: the nodes themselves, or a Send for each item and node, in this order.

    Raises:
        LimitError: There are more than *max_items* items (`batch-limit`).
        NodeError: What *over* gives cannot be iterated over (`batch-items`).
    """
    if over is None:
        return list(nodes)
    item_source: Any = over(state) if callable(over) else read(state, over)
    if item_source is None:
        item_source = ()
    if not is_iterable(item_source) or isinstance(item_source, (str, bytes)) or is_mapping(item_source):
        raise NO_BATCH_ITEMS(name=name, given=item_source)
    items = list(islice(item_source, max_items + 1))  # an endless iterable is read no further than this
    if len(items) > max_items:
        raise BATCH_LIMIT(name=name, limit=max_items)
    return [Send(node, value if item is None else {item: value}) for value in items for node in nodes]


def _failed(failure: TaskFailure, nodes: tuple[str, ...], item: str | None, *, each: bool) -> ItemFailure:
    value = failure.arg[item] if item is not None and is_mapping(failure.arg) else failure.arg
    record = error_record(failure.error, failure.node, failure.task_id, value)
    index = _place(failure.task_id) // len(nodes) if each else None
    return ItemFailure(index=index, **record)


def _place(task_id: str) -> int:
    """Return the index of a task in its superstep, the number after the dot in its id: 7 for "1.0:batch/2.7:work"."""
    return int(task_id.rpartition("/")[2].partition(":")[0].partition(".")[2])


def _missed(failures: list[ItemFailure], total: int, wanted: int, name: str) -> NodeError:
    shown = [
        f"{failure['node']}[{failure['index']}]: {failure['type']}: {failure['message']}"
        for failure in failures[:_LISTED]
    ]
    if len(failures) > _LISTED:
        shown.append(f"and {len(failures) - _LISTED} more")
    succeeded = total - len(failures)
    return BATCH_QUORUM(
        name=name, succeeded=succeeded, total=total, failed="; ".join(shown), limit=wanted, values=failures
    )
