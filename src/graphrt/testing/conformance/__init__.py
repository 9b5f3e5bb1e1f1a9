"""Whether a store keeps its word: one function for each clause of the store protocol, for any store.

With pytest:

    @pytest.mark.parametrize("clause", conformance.CLAUSES, ids=str)
    def test_my_store(clause, tmp_path):
        clause(lambda: MyStore(tmp_path / "store"))

Without: `conformance.check(make_factory)`, where each call of `make_factory()` gives the factory of a new storage.

The clauses are collected here; each theme has its own file. pytest is never imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, Final, NamedTuple

from graphrt.stores.protocol import Store
from graphrt.testing.conformance import (
    claims,
    commits,
    leases,
    life,
    listing,
    parts,
    records,
    reopening,
    threads,
    whole,
)
from graphrt.testing.conformance._world import BrokenClauseError, World

__all__ = ["CLAUSES", "BrokenClauseError", "Clause", "Failure", "Report", "check", "clauses"]


class Clause:
    """One rule of the store protocol, called with what opens one storage anew each time.

    Raises `BrokenClauseError`, or whatever the store raised, if the store does not keep the rule.
    """

    def __init__(self, theme: str, name: str, run: Callable[[World], None], *, durable_only: bool) -> None:
        self.theme = theme
        self.name = name
        self.rule: str = (run.__doc__ or "").strip()
        """What must hold, in a sentence."""
        self.durable_only = durable_only
        """Whether it is about several stores on one storage, which only durable stores have."""
        self._run = run

    def __call__(self, make: Callable[[], Store]) -> None:
        """Check the rule on what *make* opens; every store that was opened is closed at the end."""
        world = World(make)
        try:
            self._run(world)
        finally:
            world.close()

    def __repr__(self) -> str:
        return f"{self.theme}.{self.name}"


class Failure(NamedTuple):
    """A clause that does not hold, and what it or the store raised."""

    clause: Clause
    error: Exception


class Report(NamedTuple):
    """What `check` found."""

    checked: tuple[Clause, ...]
    failures: tuple[Failure, ...]

    @property
    def ok(self) -> bool:
        """Whether every clause held."""
        return not self.failures

    def __str__(self) -> str:
        lines = [f"{len(self.checked) - len(self.failures)} of {len(self.checked)} clauses hold"]
        lines += [f"  {each.clause!r}: {each.clause.rule}\n    {each.error!r}" for each in self.failures]
        return "\n".join(lines)


_ANY_STORE: Final = (claims, commits, records, parts, listing, whole, life, threads)
_DURABLE: Final = (leases, reopening)


def _of(module: ModuleType, *, durable_only: bool) -> list[Clause]:
    """The public functions that *module* itself defines, in order."""
    theme = module.__name__.rpartition(".")[2]
    found: list[tuple[str, Any]] = [
        (name, value)
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__ and callable(value)
    ]
    return [Clause(theme, name, run, durable_only=durable_only) for name, run in found]


CLAUSES: Final[tuple[Clause, ...]] = (
    *(clause for module in _ANY_STORE for clause in _of(module, durable_only=False)),
    *(clause for module in _DURABLE for clause in _of(module, durable_only=True)),
)
"""All clauses, in order."""


def clauses(*, durable: bool = True) -> tuple[Clause, ...]:
    """The clauses for durable stores, or those that hold for stores that are not."""
    return CLAUSES if durable else tuple(clause for clause in CLAUSES if not clause.durable_only)


def check(make_factory: Callable[[], Callable[[], Store]], only: Iterable[Clause] | None = None) -> Report:
    """Check a store against all clauses that are for its kind, or *only* some.

    Args:
        make_factory: Gives, at each call, what opens one new and empty storage anew as often as it is called.
    """
    with make_factory()() as store:
        durable = store.durable
    checked = tuple(clauses(durable=durable) if only is None else only)
    failures: list[Failure] = []
    for clause in checked:
        try:
            clause(make_factory())
        except Exception as error:  # noqa: BLE001  # a store may fail in any way; the report tells
            failures.append(Failure(clause, error))
    return Report(checked, tuple(failures))
