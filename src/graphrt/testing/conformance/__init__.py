"""Conformance suite for stores: one clause per rule of the store protocol, for any store.

With pytest:

    @pytest.mark.parametrize("clause", conformance.CLAUSES, ids=str)
    def test_my_store(clause, tmp_path):
        clause(lambda: MyStore(tmp_path / "store"))

Without pytest: `conformance.check(make_factory)`, where each call of `make_factory()` returns the factory of a new
storage.

This module collects the clauses; each theme has its own module. pytest is never imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Final

from graphrt.stores.protocol import Store
from graphrt.stores.values import Offer
from graphrt.testing.conformance import (
    claims,
    commits,
    erasing,
    finding,
    leases,
    life,
    listing,
    live,
    mail,
    memory,
    parts,
    posting,
    records,
    reopening,
    schedules,
    threads,
    whole,
)
from graphrt.testing.conformance._report import (
    ConformanceReport,
    Failure,
    NotOffered,
    NotOfferedError,
    Rule,
    checked,
    new_storage,
)
from graphrt.testing.conformance._world import BrokenClauseError, World, rules_of

__all__ = [
    "CLAUSES",
    "BrokenClauseError",
    "Clause",
    "ConformanceReport",
    "Failure",
    "NotOffered",
    "NotOfferedError",
    "check",
    "clauses",
]


class Clause(Rule):
    """One rule of the store protocol. Called with a factory that opens the same storage each time.

    A call raises `BrokenClauseError`, or the error of the store, if the store breaks the rule.

    Args:
        theme: Name of the module that defines the rule.
        name: Name of the function that checks it.
        run: The function. Its docstring is the rule.
        durable_only: Whether the rule applies only to durable stores.
        needs: What a store must offer for the rule to apply; None for all stores.
    """

    def __init__(
        self,
        theme: str,
        name: str,
        run: Callable[..., None],
        *,
        durable_only: bool,
        needs: Offer | None = None,
    ) -> None:
        super().__init__(theme, name, run)
        self.durable_only = durable_only
        """Whether the rule needs several stores on one storage, which only durable stores can have."""
        self._needs = needs

    def __call__(self, make: Callable[[], Store]) -> None:
        """Check the rule on the storage that *make* opens. All opened stores are closed at the end.

        Raises:
            BrokenClauseError: The store breaks the rule. Errors of the store propagate unchanged. NotOfferedError: The
            store does not offer the feature of the rule; pytest skips the test.
        """
        world = World(make)
        try:
            if self._needs is not None and self._needs not in world.store.offers:
                raise NotOfferedError(f"a store that offers {self._needs}")
            self._run(world)
        finally:
            world.close()


# fmt: off
_ANY_STORE: Final = (
    claims, commits, records, parts, listing, whole, erasing, life, threads, finding, mail, posting, schedules,
    live, memory,
)
# fmt: on
_DURABLE: Final = (leases, reopening)


_NEEDS: Final[dict[ModuleType, Offer]] = {
    erasing: "erasure",
    finding: "labels",
    live: "live",
    mail: "mail",
    memory: "memory",
    posting: "mail",
    schedules: "schedules",
}
"""Optional features of a store, with the offers that they need."""


def _of(module: ModuleType, *, durable_only: bool) -> list[Clause]:
    """Return the clauses of a module, in order."""
    needs = _NEEDS.get(module)
    return [Clause(*rule, durable_only=durable_only, needs=needs) for rule in rules_of(module)]


CLAUSES: Final[tuple[Clause, ...]] = (
    *(clause for module in _ANY_STORE for clause in _of(module, durable_only=False)),
    *(clause for module in _DURABLE for clause in _of(module, durable_only=True)),
)
"""All clauses, in order."""


def clauses(*, durable: bool = True) -> tuple[Clause, ...]:
    """Return the clauses for durable stores (all of them), or those for non-durable stores."""
    return CLAUSES if durable else tuple(clause for clause in CLAUSES if not clause.durable_only)


def check(make_factory: Callable[[], Callable[[], Store]], only: Iterable[Clause] | None = None) -> ConformanceReport:
    """Check a store against all clauses for its kind, or against the clauses *only*.

    Args:
        make_factory: Makes a new and empty storage at each call, and returns a function that opens it. That function
            is called several times by some clauses.
        only: The clauses to check; None checks those for durable stores if the store is durable, else the others.

    Returns:
        The report. Errors of the store are failures in it and are not raised.

    Raises:
        InputError: *make_factory* returned no function, or *only* has something else than clauses.
    """
    with new_storage(make_factory)() as store:
        durable = store.durable

    def checks(clause: Clause) -> None:
        if only is None and clause.durable_only and not durable:
            raise NotOfferedError("a durable store")
        clause(new_storage(make_factory))

    return checked(CLAUSES if only is None else only, checks)
