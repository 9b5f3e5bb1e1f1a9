"""Clauses about messages: repeated, lost, late, out of order, and for threads that no host should drive."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from typing import Any

from graphrt.errors import InputError
from graphrt.runtime import Runtime
from graphrt.stores.values import Commit
from graphrt.testing.conformance._world import BrokenClauseError, same
from graphrt.testing.host_conformance._world import Counting, HostWorld
from graphrt.workers import Worker


def a_message_drives_a_thread_to_its_end(world: HostWorld) -> None:
    """A started thread is driven to the end of its run after a message."""
    runtime, host = world.runtime(world.loop()), world.host(world.loop())
    thread = runtime.start({"most": 3})
    host.drive(thread)
    same(world.ends(runtime, thread, "a started thread").log, [0, 1, 2], "its log")


def a_thread_without_a_message_is_found(world: HostWorld) -> None:
    """Threads that were started before the host, or have no message, are driven as well."""
    runtime = world.runtime(world.loop())
    early = runtime.start({})
    world.host(world.loop())
    late = runtime.start({})
    for thread in (early, late):
        same(world.ends(runtime, thread, "a thread without a message").log, [0, 1, 2], "its log")


def a_repeated_message_drives_a_thread_once(world: HostWorld) -> None:
    """Repeated messages, before and during the run, change nothing."""
    runtime, host = world.runtime(world.loop()), world.host(world.loop())
    world.gate.clear()
    thread = runtime.start({})
    for _ in range(5):
        host.drive(thread)
    world.eventually(world.entered.is_set, "a message for a started thread has no effect")
    for _ in range(5):
        host.drive(thread)
    world.gate.set()
    world.ends(runtime, thread, "a thread with ten messages")
    with world.unchanged(lambda: runtime.state(thread).seq, "a message after the end changed the journal"):
        host.drive(thread)
    world.once_each(thread, 3, "a thread with eleven messages")
    same(world.takings(runtime, thread), 1, "how often it was taken over")


def messages_may_come_in_any_order(world: HostWorld) -> None:
    """Threads whose messages arrive out of order are all driven, each once."""
    runtime, host = world.runtime(world.loop()), world.host(world.loop())
    threads = [runtime.start({}) for _ in range(8)]
    for thread in [*reversed(threads), *threads[::2]]:
        host.drive(thread)
    for thread in threads:
        world.ends(runtime, thread, "one of eight threads")
        world.once_each(thread, 3, "one of eight threads")


def a_thread_is_driven_by_one_of_two_hosts(world: HostWorld) -> None:
    """Beside another host of the same store, each activation of a node runs once."""
    runtime, host = world.runtime(world.loop()), world.host(world.loop())
    with Worker(world.runtime(world.loop()), poll_s=0.01):
        threads = [runtime.start({"most": 5}) for _ in range(12)]
        for thread in threads:
            host.drive(thread)
        for thread in threads:
            world.ends(runtime, thread, "one of twelve threads")
    for thread in threads:
        world.once_each(thread, 5, "a thread that two hosts saw")


def a_thread_of_a_living_owner_is_left(world: HostWorld) -> None:
    """A thread with another owner is not driven until it is free."""
    runtime, store = world.runtime(world.loop()), world.store()
    thread = runtime.start({})
    claim = store.claim(thread, create=False, lease_s=600.0, at=time.time())
    store.commit(claim, Commit(claim.head.seq, claim.head.updated_at))  # stores the claim
    with world.unchanged(partial(_traces, world, runtime, thread), "a thread of another owner was driven"):
        world.host(world.loop()).drive(thread)
    store.release(claim)
    world.ends(runtime, thread, "a thread that its owner released")


def a_message_for_a_thread_that_is_not_due_changes_nothing(world: HostWorld) -> None:
    """No message reruns a failed, paused or completed thread; only a person or its caller can."""
    graphs = (world.failing(), world.asking(), world.loop())
    host = world.host(*graphs)
    for graph, status in zip(graphs, ("failed", "interrupted", "completed"), strict=True):
        runtime = world.runtime(graph)
        thread = runtime.start({})
        host.drive(thread)
        world.ends(runtime, thread, f"a run that ends {status}", status)
        with world.unchanged(partial(_traces, world, runtime, thread), f"a message for a {status} thread"):
            host.drive(thread)


def _traces(world: HostWorld, runtime: Runtime[Any, Any], thread: str) -> tuple[int, int]:
    return runtime.state(thread).seq, sum(world.done.values())


def a_message_for_an_unknown_thread_harms_nobody(world: HostWorld) -> None:
    """A message for a thread that does not exist is refused as an InputError or ignored; the host continues."""
    runtime, host = world.runtime(world.loop()), world.host(world.loop())
    with suppress(InputError):
        host.drive("nobody")
    thread = runtime.start({})
    host.drive(thread)
    world.ends(runtime, thread, "a thread after a message for an unknown one")


def an_answer_goes_on_where_the_question_was_asked(world: HostWorld) -> None:
    """A thread that paused is driven to its end after `start(thread=, answer=)`."""
    runtime, host = world.runtime(world.asking()), world.host(world.asking())
    thread = runtime.start({})
    host.drive(thread)
    world.ends(runtime, thread, "a run that asks", "interrupted")
    runtime.start(thread=thread, answer=7)
    host.drive(thread)
    values = world.ends(runtime, thread, "an answered thread")
    if not isinstance(values, Counting) or values.n != 7:
        raise BrokenClauseError(f"the answer 7 became {values!r}")
