"""Clauses about the life of a host: failures that it survives, threads that it ignores, and how it stops."""

from __future__ import annotations

import time
from contextlib import suppress

from graphrt.errors import GraphrtError
from graphrt.events import RunHandedOver
from graphrt.stores.values import Commit
from graphrt.testing.conformance._world import holds, same
from graphrt.testing.flaky_store import Fault, FlakyStore
from graphrt.testing.host_conformance._world import HostWorld


def a_thread_whose_owner_died_is_taken_over(world: HostWorld) -> None:
    """A thread whose lease ran out in the middle of a run is continued; finished tasks do not run again."""
    runtime = world.runtime(world.loop())
    thread = runtime.start({})
    store = world.store()
    # Longer than a sweep of the host, which should find a living owner first.
    claim = store.claim(thread, create=False, lease_s=max(0.3, 1.5 * world.look_s), at=time.time())
    store.commit(claim, Commit(claim.head.seq, claim.head.updated_at))  # stores the claim
    world.host(world.loop())
    world.ends(runtime, thread, "a thread whose lease ran out")
    world.once_each(thread, 3, "a thread whose lease ran out")


def threads_of_other_graphs_are_left(world: HostWorld) -> None:
    """A thread whose graph the host does not have is left alone, while others are driven."""
    other, runtime = world.runtime(world.loop("other")), world.runtime(world.loop())
    other_thread = other.start({})
    with world.unchanged(
        lambda: (other.state(other_thread).seq, other.state(other_thread).status), "a thread of another graph"
    ):
        host = world.host(world.loop())
        thread = runtime.start({})
        host.drive(thread)
        world.ends(runtime, thread, "a thread beside one of another graph")
    same(other.state(other_thread).status, "running", "its status")


def a_failed_run_ends_neither_host_nor_others(world: HostWorld) -> None:
    """A failed run stays failed, and the host drives the next thread."""
    bad, good = world.runtime(world.failing()), world.runtime(world.loop())
    host = world.host(world.failing(), world.loop())
    failed = bad.start({})
    host.drive(failed)
    world.ends(bad, failed, "a run that fails", "failed")
    thread = good.start({})
    host.drive(thread)
    world.ends(good, thread, "a thread after a failed one")
    same(world.done[failed, 0], 1, "how often the failing node ran")


def an_error_of_the_store_loses_no_thread(world: HostWorld) -> None:
    """If the store cannot be reached while a thread is claimed or a step is stored, the thread is driven later."""
    runtime = world.runtime(world.loop())
    for operation in ("claim", "commit"):
        flaky = FlakyStore(world.store(), [Fault(operation, times=2)])
        host = world.host(world.loop(), store=flaky)
        thread = runtime.start({})
        host.drive(thread)
        same(world.ends(runtime, thread, f"a thread after a failed {operation}").log, [0, 1, 2], "its log")
        host.stop(grace_s=5.0)


def a_host_that_stops_hands_its_threads_over(world: HostWorld) -> None:
    """`stop` ends runs at the end of their superstep, with the thread due and without an owner; another host continues."""
    runtime, host = world.runtime(world.loop()), world.host(world.loop())
    world.gate.clear()
    thread = runtime.start({"most": 500})
    host.drive(thread)
    world.eventually(world.entered.is_set, "a message for a started thread has no effect")
    world.gate.set()
    host.stop(grace_s=10.0)
    (info,) = runtime.threads()
    if info.status == "running":
        holds(not info.owned, "a host that stopped still owns a thread")
        last = list(runtime.entries(thread))[-1].event
        holds(isinstance(last, RunHandedOver), f"the last entry after a stop is {type(last).__name__}")
    next_host = world.host(world.loop())
    next_host.drive(thread)
    same(world.ends(runtime, thread, "a thread that was handed over").log, list(range(500)), "its log")
    world.once_each(thread, 500, "a thread that was handed over")


def a_host_that_stopped_takes_nothing_more(world: HostWorld) -> None:
    """After `stop` no thread is driven, with or without a message; a second `stop` does nothing."""
    runtime, host = world.runtime(world.loop()), world.host(world.loop())
    host.stop(grace_s=1.0)
    host.stop(grace_s=1.0)
    thread = runtime.start({})
    with (
        world.unchanged(lambda: runtime.state(thread).seq, "a host that stopped drove a thread"),
        suppress(GraphrtError),
    ):
        host.drive(thread)
