"""Checks of the arguments of `Runtime` and its verbs: store, limits, stream modes and the rest.

A `checked_...` function returns its argument, converted if necessary; a `check_...` function returns nothing. Both
raise an InputError that names the argument, the value and the fix. Most parameters are Any, since a caller may pass
anything. `run_config.configure` checks the arguments of `Runtime`, and each verb checks its own arguments.

`check_size` limits the size of what callers send to a thread: inputs, answers, signals and edits. It measures the
encoded form, so the limit is the same for every store. The updates that nodes return are not limited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from math import isnan
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast, final, get_args

from graphrt._arguments import a_kind, is_number
from graphrt._cancellations import unasked, unasked_failure
from graphrt._codec import NotStorable
from graphrt._engine.storability import Stamped
from graphrt._journal.batch import no_time
from graphrt.errors import brief, names
from graphrt.errors._codes.arguments import (
    BAD_LIMITS,
    INPUT_OF_WRONG_KIND,
    INVALID_ARGUMENT,
)
from graphrt.events import Entry
from graphrt.events.status import Status
from graphrt.limits import Limits
from graphrt.migrations import Migration
from graphrt.stores import Store, open_store

if TYPE_CHECKING:
    from graphrt._drivers.embedding import Embed
    from graphrt._usage.budget import Budget
    from graphrt.audit import AuditLog
    from graphrt.harness.agent._replacements import NamedDoubles

Mode: TypeAlias = Literal["values", "updates", "events", "custom", "messages", "live", "result"]
Modes: TypeAlias = list[Mode] | tuple[Mode, ...] | AbstractSet[Mode]
"""Several modes, for type checkers. Not an Iterable: a single mode is a str, which is an Iterable of str too."""
MODES: tuple[Mode, ...] = ("values", "updates", "events", "custom", "messages", "live", "result")
"""All stream modes; see `Runtime.stream`."""
STATUSES: tuple[Status, ...] = get_args(Status)
"""All statuses of a thread."""


def new_id() -> str:
    """Return a random id for a thread or run: a UUID of version 4, as 32 hexadecimal digits. The default of `ids=`."""
    from uuid import uuid4

    return uuid4().hex


def opened_store(store: Any) -> Store | None:
    """Return the given store, or open the one that a URL names; None for None.

    Raises:
        InputError: The argument is neither a store (`input`) nor a known URL (`unknown-store`).
    """
    if isinstance(store, str):
        return open_store(store)
    if store is None:
        return None
    if not isinstance(store, Store):
        a_class = isinstance(store, type)
        problem = "is not a store: its instances are" if a_class else "does not inherit `graphrt.stores.Store`"
        raise INVALID_ARGUMENT(  # only its type is shown: stores hold credentials
            argument="store=",
            value=store if a_class else type(store),
            wanted='a store or a URL: store="sqlite:///runs.db", store="memory:", or open_store(...)',
            known=f"{a_kind(store)} {problem}",
        )
    return store


def checked_migrations(migrations: Any) -> tuple[Migration, ...]:
    """Return *migrations* as a tuple.

    They convert threads of older graphs to the current one; a caller may pass one or a list.

    Raises:
        InputError: One of them is not a Migration (`input`).
    """
    items: list[Any] = [*migrations] if isinstance(migrations, (list, tuple)) else [migrations]
    wrong = [item for item in items if not isinstance(item, Migration)]
    if wrong:
        raise INVALID_ARGUMENT(
            argument="migrations=",
            value=wrong[0],
            wanted='Migration(source="<fingerprint of the older graph>", ...) from graphrt.migrations, one or a list',
        )
    return tuple(items)


def checked_edits(updates: Any) -> list[tuple[Any, Any]]:
    """Return the pairs (values, as_node) of `Runtime.bulk_update` as a list; `update` checks their content.

    Raises:
        InputError: One of them is not a pair (`bad-input`).
    """
    edits: list[Any] = [*updates] if isinstance(updates, Iterable) else [updates]  # refused below: it is not a pair
    wrong = [edit for edit in edits if edit.__class__ is not tuple or len(edit) != 2]
    if wrong:
        raise INPUT_OF_WRONG_KIND(
            who="An item of bulk_update()",
            wanted="a pair (values, as_node), where as_node may be None",
            given=brief(wrong[0]),
        )
    return edits


def check_age(name: str, seconds: Any) -> None:
    """Check that the argument *name* is a number of seconds, 0 or more.

    Raises:
        InputError: It is not (`input`).
    """
    if not (is_number(seconds) and seconds >= 0):
        raise INVALID_ARGUMENT(argument=f"{name}=", value=seconds, wanted="seconds, 0 or more: 30 * 86400 are 30 days")


def checked_lease(lease_s: Any) -> float:
    """Return *lease_s*, the seconds for which a claim on a thread is valid without renewal, as a float.

    Raises:
        InputError: It is not a number of seconds above 0 and below a year (`input`).
    """
    if not (is_number(lease_s) and 0 < lease_s < 86_400 * 365):
        raise INVALID_ARGUMENT(
            argument="lease_s=",
            value=lease_s,
            wanted="seconds above 0: how long a thread stays taken when its owner cannot be asked",
        )
    return float(lease_s)


def checked_seed(seed: Any) -> int:
    """Return *seed* if it is an integer that the journal can hold.

    Raises:
        InputError: It is not (`input`).
    """
    if not (is_number(seed, whole=True) and -(2**63) <= seed < 2**64):
        raise INVALID_ARGUMENT(argument="seed=", value=seed, wanted="a whole number of 64 bits, or None")
    return int(seed)


def checked_workers(worker_threads: Any) -> int:
    """Return *worker_threads*, the maximum number of threads on which a runtime runs sync nodes.

    Raises:
        InputError: It is not an integer of 1 or more (`input`).
    """
    if not (is_number(worker_threads, whole=True) and worker_threads >= 1):
        raise INVALID_ARGUMENT(
            argument="worker_threads=",
            value=worker_threads,
            wanted="how many sync nodes may run at once under arun(), 1 or more",
        )
    number: int = worker_threads
    return number


def checked_audit(audit: Any, *, chain: bool | None) -> Any:
    """Return *audit*; None stays None.

    Raises:
        InputError: It is not an `AuditLog`, or `chain=False` forbids the hash chain that it needs (`input`).
    """
    if audit is not None:
        from graphrt.audit import AuditLog
        from graphrt.errors._codes.arguments import ARGUMENTS_EXCLUDE_EACH_OTHER, INVALID_ARGUMENT

        if not isinstance(audit, AuditLog):
            raise INVALID_ARGUMENT(argument="audit=", value=audit, wanted="AuditLog(...)")
        if chain is False:
            raise ARGUMENTS_EXCLUDE_EACH_OTHER(
                argument="audit=, which needs the hash chain,", other="chain=False", superfluous="chain="
            )
    return audit


def audited_store(store: Any, audit: AuditLog | None) -> Any:
    """Return the store of a runtime, taking a possible audit log into account: a store, its URL, or None.

    The audit log is the journal: a record is written in the transaction of its step (decision 0124). So the log and the
    threads share one store. Without any store, an audited run gets an in-memory thread.

    Raises:
        InputError: The log is kept in a different store from *store* (`input`).
    """
    if audit is None:
        return store
    if store is not None and audit.store not in (None, store):
        from graphrt.errors._codes.arguments import ARGUMENTS_EXCLUDE_EACH_OTHER

        raise ARGUMENTS_EXCLUDE_EACH_OTHER(
            argument=f"An audit log in {audit.store!r}",
            other=f"store={store!r}",
            known="records are in the same transaction as the step, so log and threads share a store",
            superfluous="store=, or give AuditLog a folder",
        )
    return store or audit.store or "memory:"


def checked_harness(harness: Any) -> Any:
    """Return *harness*; None stays None.

    Raises:
        InputError: It has no `run` method, or is a class (`bad-harness`).
    """
    if harness is not None:
        from graphrt.harness._harness_checks import check_harness

        check_harness(
            harness,
            taker="harness= takes a harness",  # these are parts of its error messages
            of_model="Give the model to an agent: harness=Agent(model).",
            otherwise='Pass an Agent, LiteLLMHarness("provider/model"), MockHarness([...]), or any object with an async run().',
        )
    return harness


def checked_sinks(sinks: Any) -> tuple[Callable[[Entry], Any], ...]:
    """Return *sinks* as a tuple of 0..n functions that take an entry.

    Raises:
        InputError: *sinks* is not a list, or one of them is not callable or is a class (`input`).
    """
    if sinks is None:
        return ()
    # A class is never a list, though one may be iterable, such as an Enum.
    alone = issubclass(type(sinks), type) or not hasattr(sinks, "__iter__")
    functions: tuple[Any, ...] = (sinks,) if alone else tuple(sinks)
    invalid = functions if alone else [sink for sink in functions if isinstance(sink, type) or not callable(sink)]
    if not invalid:
        return functions
    wrong = invalid[0]
    a_class = isinstance(wrong, type)
    problem = "cannot be called"
    if a_class:
        problem = "is not a sink: its instances may be"
    elif alone:
        problem = "stands alone, not in a list"
    raise INVALID_ARGUMENT(  # only its type is shown: a sink may hold credentials
        argument="sinks=",
        value=wrong if a_class else type(wrong),
        wanted="functions of an entry, or a TokenTracker, in a list: sinks=[tracker]",
        known=f"{a_kind(wrong)} {problem}",
        fix=f"Pass an instance, in a list: sinks=[{wrong.__name__}()]." if a_class else None,
    )


def checked_doubles(models: Any, tools: Any) -> NamedDoubles | None:
    """Return the models by agent name and the doubles by tool name; None if both are None.

    Raises:
        InputError: One is not such a mapping (`input`), or a value is not a model (`no-model`) or a double.
    """
    if models is None and tools is None:
        return None
    from graphrt.harness.agent._replacements import NamedDoubles

    return NamedDoubles(models, tools)


def checked_sleep(sleep: Any) -> Callable[[float], Any] | None:
    """Return *sleep*, the function called instead of waiting in real time; None stays None.

    Raises:
        InputError: It is not callable, or is a class (`input`).
    """
    if sleep is not None and (not callable(sleep) or isinstance(sleep, type)):
        raise INVALID_ARGUMENT(
            argument="sleep=",
            value=sleep,
            wanted="a function of seconds, sync or async, such as `waits.append` of a list: it is called instead of each wait",
        )
    function: Callable[[float], Any] | None = sleep
    return function


def checked_embed(embed: Any) -> Embed | None:
    """Return *embed*, the function that computes embedding vectors; None stays None.

    Raises:
        InputError: It is not callable, or is a class (`input`).
    """
    if embed is not None and (not callable(embed) or isinstance(embed, type)):
        wanted = "a function, sync or async, that takes a list of texts and returns a vector for each"
        raise INVALID_ARGUMENT(argument="embed=", value=embed, wanted=wanted)
    return cast("Embed | None", embed)


def checked_budget(budget: Any) -> Budget | None:
    """Return *budget*; None stays None.

    Raises:
        InputError: It is not a Budget.
    """
    if budget is None:
        return None
    from graphrt._usage.budget import check_budget

    check_budget(budget)
    valid: Budget = budget
    return valid


def checked_flag(name: str, value: Any) -> bool | None:
    """Return *value*, the argument *name*, which is True, False, or None to let graphrt decide.

    Raises:
        InputError: It is none of them (`input`).
    """
    if value is not None and not isinstance(value, bool):
        raise INVALID_ARGUMENT(argument=f"{name}=", value=value, wanted="True or False, or leave it out")
    return value


def checked_ids(ids: Any) -> Callable[[], str]:
    """Return *ids*, which makes thread and run ids, wrapped so that a CancelledError counts as its failure (R9).

    Raises:
        InputError: It is not callable, or is a class (`input`).
    """
    if isinstance(ids, type) or not callable(ids):
        raise INVALID_ARGUMENT(
            argument="ids=", value=ids, wanted="a function that returns another id, a text, at each call"
        )

    def own_id() -> str:
        """Return the next id."""
        try:
            made = cast("str", ids())
        except unasked() as error:
            raise unasked_failure(error, "ids=") from error
        return made

    return own_id


def checked_clock(clock: Any) -> Callable[[], float]:
    """Return *clock*, wrapped so that each time it returns (seconds since the epoch) is checked.

    Raises:
        InputError: It is not callable (`input`). The wrapped clock raises if it does not return a number.
    """
    if isinstance(clock, type) or not callable(clock):
        raise INVALID_ARGUMENT(
            argument="clock=",
            value=clock,
            wanted="a function that returns seconds since the epoch: clock=time.time, or lambda: 1_700_000_000.0 in a test",
        )

    def checked_time() -> float:
        """Return the time from *clock*; raise an InputError if it is not a number."""
        try:
            at: Any = clock()
        except unasked() as error:
            raise unasked_failure(error, "clock=") from error
        if at.__class__ is not float and not is_number(at):  # the first half is the usual case, and fast
            raise no_time(at)  # makes the InputError
        return at

    return checked_time


def checked(limits: Any) -> Limits:
    """Return *limits* (on supersteps, tasks and time); raise an InputError if they are not valid (`bad-limit`)."""
    if not isinstance(limits, Limits):
        raise INVALID_ARGUMENT(argument="limits=", value=limits, wanted="Limits(...)")
    problems = list(limits.problems())
    if problems:
        raise BAD_LIMITS(limits="The limits", problems="; ".join(problems), example="Limits(max_steps=100)")
    return limits


_FIXES: Final = {
    "limit": "Pass the maximum number, or None for all.",
    "max_tries": "Pass a number of runs, or None for any number.",
}
"""Advice about numbers that are not the `seq` of an entry."""


def check_number(name: str, value: Any) -> None:
    """Check that the argument *name* is None or an integer of 0 or more: a count, or the `seq` of an entry.

    Raises:
        InputError: It is not (`input`).
    """
    if value is not None and not (is_number(value, whole=True) and value >= 0):
        raise INVALID_ARGUMENT(
            argument=f"{name}=",
            value=value,
            wanted="a whole number, 0 or more",
            fix=_FIXES.get(name, "Pass the seq of an entry."),
        )


def check_texts(**options: Any) -> None:
    """Check that each inbox filter, given by name, is None or a str; else raise an InputError (`input`)."""
    for name, value in options.items():
        if value is not None and not isinstance(value, str):
            raise INVALID_ARGUMENT(argument=f"{name}=", value=value, wanted="a text, or leave it out")


def check_filters(graph: Any, prefix: Any, updated_before: Any, updated_after: Any = None) -> None:
    """Check the filters of a thread listing; None means no filter.

    Raises:
        InputError: A filter has the wrong type (`input`).
    """
    for name, value, wanted, is_valid in (
        ("graph", graph, "the name of a graph", isinstance(graph, str)),
        ("prefix", prefix, "what ids begin with, a text", isinstance(prefix, str)),
        ("updated_before", updated_before, "a number of seconds since the epoch", _is_time(updated_before)),
        ("updated_after", updated_after, "a number of seconds since the epoch", _is_time(updated_after)),
    ):
        if value is not None and not is_valid:
            raise INVALID_ARGUMENT(argument=f"{name}=", value=value, wanted=f"{wanted}, or leave it out")


def _is_time(value: Any) -> bool:
    return is_number(value) and not isnan(value)


def check_status(status: Any) -> None:
    """Check that *status* is None (any status) or a valid thread status; else raise an InputError (`input`)."""
    if status is not None and status not in STATUSES:
        raise INVALID_ARGUMENT(argument="status=", value=status, wanted=f"one of {names(STATUSES)}")


def _is_several(modes: Any) -> bool:
    """Return whether *modes* is a collection of modes. A str is one mode, although it is iterable."""
    return isinstance(modes, Iterable) and not isinstance(modes, (str, bytes))


def stream_modes(modes: Any) -> frozenset[str]:
    """Return the set of stream modes that *modes* names: one mode, or an iterable of modes.

    Raises:
        InputError: A mode is unknown, or *modes* is empty (`input`).
    """
    wanted: tuple[str, ...] = tuple(modes) if _is_several(modes) else (modes,)
    unknown = [mode for mode in wanted if mode not in MODES]
    if unknown or not wanted:
        raise INVALID_ARGUMENT(
            argument="modes=", value=unknown[0] if unknown else modes, wanted=f"one or several of {names(MODES)}"
        )
    return frozenset(wanted)


def check_size(limits: Limits, size: int) -> None:
    """Check that data sent to a thread takes at most `Limits.max_input_bytes`.

    Args:
        size: Its size in bytes, in the journal or in a letter.

    Raises:
        NotStorable: The data is larger.
    """
    max_bytes = limits.max_input_bytes
    if max_bytes is not None and size > max_bytes:
        raise TooLarge(f"takes {size:,} bytes, and max_input_bytes allows {max_bytes:,}")


@final
class TooLarge(NotStorable):
    """A caller's data is larger than the limits allow."""

    @property
    def fix(self) -> str:
        """The fix, as a sentence without its full stop."""
        return (
            "Keep large data in a file or a store of its own and send its path or reference, or raise"
            " Limits(max_input_bytes=...)"
        )


def size_of(values: Mapping[str, Any]) -> int:
    """Return the size of *values* in the journal in bytes, from the result of `storable`; 0 without a store."""
    if not isinstance(values, Stamped):
        return 0
    return sum(map(len, values.lines.values())) + sum(map(len, values.blobs.values()))
