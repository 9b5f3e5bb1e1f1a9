"""Conformance suite for hosts: one clause for each rule of `graphrt.workers.Host`, to be checked on any host.

With pytest:

    @pytest.mark.parametrize("clause", host_conformance.CLAUSES, ids=str)
    def test_my_host(clause, tmp_path):
        clause(MyHost, lambda: open_store(f"sqlite:///{tmp_path}/runs.db"))

The first argument makes a host, not started yet, of the runtimes that it is called with; the second one opens the same
storage each time. A clause has one host of the kind at a time: some engines allow one in a process. pytest is never
imported. Without pytest: `print(host_conformance.check(MyHost, make_factory))`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from graphrt.stores.protocol import Store
from graphrt.testing.conformance._report import NotOfferedError, Report, Rule, checked
from graphrt.testing.conformance._world import BrokenClauseError, rules_of
from graphrt.testing.host_conformance import lives, messages, tasks
from graphrt.testing.host_conformance._world import HostWorld, MakeHost

__all__ = ["CLAUSES", "TASK_CLAUSES", "BrokenClauseError", "HostClause", "check"]


class HostClause(Rule):
    """One rule of a host. A call raises `BrokenClauseError` if the host breaks it; errors of the host come out."""

    def __call__(
        self, make: MakeHost, open_store: Callable[[], Store], *, look_s: float = 0.5, patience_s: float = 20.0
    ) -> None:
        """Check the rule.

        Args:
            make: Makes a host of the runtimes that it is called with.
            open_store: Opens the storage, each time it is called; empty at first.
            look_s: Seconds within which the host looks at the store and delivers a message. A clause about what must
                not happen waits twice as long.
            patience_s: Seconds after which what has to happen has not happened. For the end of a run, they begin anew
                with each entry that it stores.
        """
        world = HostWorld(make, open_store, look_s, patience_s)
        try:
            self._run(world)
        finally:
            world.close()


CLAUSES: Final[tuple[HostClause, ...]] = tuple(
    HostClause(*rule) for module in (messages, lives) for rule in rules_of(module)
)
"""All clauses that every host keeps, in order."""
TASK_CLAUSES: Final[tuple[HostClause, ...]] = tuple(HostClause(*rule) for rule in rules_of(tasks))
"""The clauses of hosts that serve queues, in order. The host is made with `queues=` for them."""


def check(
    make: MakeHost,
    make_factory: Callable[[], Callable[[], Store]],
    only: Iterable[HostClause] | None = None,
    *,
    queues: bool = True,
    look_s: float = 0.5,
    patience_s: float = 20.0,
) -> Report:
    """Check a host against all clauses, or against the clauses *only*.

    Args:
        make: Makes a host of the runtimes that it is called with.
        make_factory: Makes a new and empty storage at each call, and returns a function that opens it.
        only: The clauses to check; None checks all.
        queues: Whether the host serves queues. If not, the report says that it does not offer what `TASK_CLAUSES` check.
        look_s: As for a `HostClause`.
        patience_s: As for a `HostClause`.

    Returns:
        The report. Errors of the host are failures in it and are not raised.
    """

    def checks(clause: HostClause) -> None:
        if not queues and clause in TASK_CLAUSES:
            raise NotOfferedError("a host that serves queues")
        clause(make, make_factory(), look_s=look_s, patience_s=patience_s)

    return checked((*CLAUSES, *TASK_CLAUSES) if only is None else only, checks)
