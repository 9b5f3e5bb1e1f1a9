"""Conformance suite for hosts: one clause per rule of `graphrt.workers.Host`, for any host.

With pytest:

    @pytest.mark.parametrize("clause", host_conformance.CLAUSES, ids=str)
    def test_my_host(clause, tmp_path):
        clause(MyHost, lambda: open_store(f"sqlite:///{tmp_path}/runs.db"))

The first argument makes an unstarted host from the given runtimes; the second opens the same storage each time. A
clause uses one host of the kind at a time, because some engines allow only one per process. pytest is never imported.
Without pytest: `print(host_conformance.check(MyHost, make_factory))`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from graphrt.stores.protocol import Store
from graphrt.testing.conformance._report import ConformanceReport, NotOfferedError, Rule, checked, new_storage
from graphrt.testing.conformance._world import BrokenClauseError, rules_of
from graphrt.testing.host_conformance import lives, messages, tasks
from graphrt.testing.host_conformance._world import HostWorld, MakeHost

__all__ = ["CLAUSES", "TASK_CLAUSES", "BrokenClauseError", "HostClause", "check"]


class HostClause(Rule):
    """One rule of a host. A call raises `BrokenClauseError` if the host breaks it; errors of the host propagate."""

    def __call__(
        self, make: MakeHost, open_store: Callable[[], Store], *, look_s: float = 0.5, patience_s: float = 20.0
    ) -> None:
        """Check the rule.

        Args:
            make: Makes a host from the runtimes that it is called with.
            open_store: Opens the storage, each time it is called; empty at first.
            look_s: Seconds within which the host sweeps the store and delivers a message. A clause that something must
                not happen waits twice as long.
            patience_s: Seconds to wait for something that must happen. For the end of a run, they restart with each
                stored entry.
        """
        world = HostWorld(make, open_store, look_s, patience_s)
        try:
            self._run(world)
        finally:
            world.close()


CLAUSES: Final[tuple[HostClause, ...]] = tuple(
    HostClause(*rule) for module in (messages, lives) for rule in rules_of(module)
)
"""The clauses for all hosts, in order."""
TASK_CLAUSES: Final[tuple[HostClause, ...]] = tuple(HostClause(*rule) for rule in rules_of(tasks))
"""The clauses for hosts that serve queues, in order. The host is made with `queues=`."""


def check(
    make: MakeHost,
    make_factory: Callable[[], Callable[[], Store]],
    only: Iterable[HostClause] | None = None,
    *,
    queues: bool = True,
    look_s: float = 0.5,
    patience_s: float = 20.0,
) -> ConformanceReport:
    """Check a host against all clauses, or against the clauses *only*.

    Args:
        make: Makes a host from the runtimes that it is called with.
        make_factory: Makes a new and empty storage at each call, and returns a function that opens it.
        only: The clauses to check; None checks all.
        queues: Whether the host serves queues. If not, the report lists the parts of `TASK_CLAUSES` that it does not
            offer.
        look_s: As for a `HostClause`.
        patience_s: As for a `HostClause`.

    Returns:
        The report. Errors of the host are failures in it and are not raised.

    Raises:
        InputError: *make_factory* returned no function, or *only* has something else than clauses.
    """
    new_storage(make_factory)  # raises now; a clause would report the mistake as a failure of the host

    def checks(clause: HostClause) -> None:
        if not queues and clause in TASK_CLAUSES:
            raise NotOfferedError("a host that serves queues")
        clause(make, make_factory(), look_s=look_s, patience_s=patience_s)

    return checked((*CLAUSES, *TASK_CLAUSES) if only is None else only, checks)
