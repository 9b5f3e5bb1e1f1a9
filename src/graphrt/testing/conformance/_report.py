"""The report of a conformance suite: the rules that were checked, were broken, or do not apply.

The suites of stores and hosts share it. As text, it is a table with a line per theme.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar
from unittest import SkipTest

from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.stores.protocol import Store

__all__ = ["ConformanceReport", "Failure", "NotOffered", "NotOfferedError", "Rule", "checked", "new_storage"]


class Rule:
    """One clause of a suite.

    Args:
        theme: Name of the module that defines it.
        name: Name of the function that checks it.
        run: The function. Its docstring is the rule.
    """

    def __init__(self, theme: str, name: str, run: Callable[..., None]) -> None:
        self.theme = theme
        self.name = name
        self.rule: str = (run.__doc__ or "").strip()
        """The rule, in 1..2 sentences."""
        self._run = run

    def __repr__(self) -> str:
        return f"{self.theme}.{self.name}"


R = TypeVar("R", bound=Rule)


class NotOfferedError(SkipTest):
    """A clause is about a feature that the store does not offer. pytest and unittest treat it as a skipped test."""


class Failure(NamedTuple):
    """A clause that failed, and the error that it, the store or the host raised."""

    clause: Rule
    error: Exception


class NotOffered(NamedTuple):
    """A clause that was not checked, and the missing feature that it needs."""

    clause: Rule
    needs: str


class ConformanceReport(NamedTuple):
    """The result of `check`. As a text, a table of the themes, and each failed clause with its rule and its error."""

    checked: tuple[Rule, ...]
    """All clauses that were checked, in order."""
    failures: tuple[Failure, ...]
    """The failed ones, in order."""
    not_offered: tuple[NotOffered, ...] = ()
    """The ones that could not be checked, in order."""

    @property
    def ok(self) -> bool:
        """Whether every checked clause held."""
        return not self.failures

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON-ready data: `ok`, and by theme the `checked`, `failed` and `not_offered` rules."""
        themes: dict[str, dict[str, Any]] = {}
        for clause in (*self.checked, *(each.clause for each in self.not_offered)):
            themes.setdefault(clause.theme, {"checked": [], "failed": {}, "not_offered": {}})
        for clause in self.checked:
            themes[clause.theme]["checked"].append(clause.name)
        for failure in self.failures:
            themes[failure.clause.theme]["failed"][failure.clause.name] = repr(failure.error)
        for absent in self.not_offered:
            themes[absent.clause.theme]["not_offered"][absent.clause.name] = absent.needs
        return {"ok": self.ok, "themes": themes}

    def __str__(self) -> str:
        total = f"{len(self.checked) - len(self.failures)} of {len(self.checked)} clauses hold"
        if self.not_offered:
            total += f", {len(self.not_offered)} could not be checked"
        lines = [total]
        themes: dict[str, dict[str, Any]] = self.to_dict()["themes"]
        width = max(map(len, themes), default=0)
        for theme, results in themes.items():
            summary = f"{len(results['checked'])} checked" if results["checked"] else "not offered"
            summary += f", {len(results['failed'])} failed" if results["failed"] else ""
            needs = list(dict.fromkeys(results["not_offered"].values()))
            if needs:
                summary += f" ({len(results['not_offered'])} need {' and '.join(needs)})"
            lines.append(f"  {theme:{width}}  {summary}")
        lines += [f"  {each.clause!r}: {each.clause.rule}\n    {each.error!r}" for each in self.failures]
        return "\n".join(lines)


def new_storage(make_factory: Callable[[], Callable[[], Store]]) -> Callable[[], Store]:
    """Return the factory of a new storage.

    Raises:
        InputError: *make_factory* returned no function.
    """
    factory = make_factory()
    if not callable(factory):  # pyright: ignore[reportUnnecessaryComparison]
        raise INVALID_ARGUMENT(
            argument="What make_factory() returns",
            value=factory,
            wanted="a function that opens the new storage. For a store of class MyStore: lambda: MyStore",
        )
    return factory


def checked(rules: Iterable[R], check: Callable[[R], None]) -> ConformanceReport:
    """Check each rule by *check*, and return the result. Errors of a rule are failures in the report, and are not raised.

    Raises:
        InputError: One of *rules* is none.
    """
    rules = [*rules]
    for rule in rules:
        if not isinstance(rule, Rule):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise INVALID_ARGUMENT(argument="only=", value=rule, wanted="clauses of the suite, such as CLAUSES[:3]")
    done: list[Rule] = []
    failures: list[Failure] = []
    absent: list[NotOffered] = []
    for rule in rules:
        try:
            check(rule)
        except NotOfferedError as error:
            absent.append(NotOffered(rule, str(error)))
            continue
        except Exception as error:  # noqa: BLE001 - a store or host may fail in any way; the report names the error
            failures.append(Failure(rule, error))
        done.append(rule)
    return ConformanceReport(tuple(done), tuple(failures), tuple(absent))
