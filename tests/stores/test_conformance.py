"""The stores of graphrt satisfy every clause, and the suite reports that without pytest too."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
import unittest
from pathlib import Path
from typing import Any

import pytest
from tests.stores import kinds

from graphrt.errors import InputError
from graphrt.stores import MemoryStore, StoreWrapper
from graphrt.testing import conformance


@pytest.mark.parametrize("clause", conformance.clauses(durable=False), ids=repr)
def test_memory_store_satisfies_each_clause(clause, tmp_path):
    clause(kinds.memory(tmp_path))


@pytest.mark.parametrize("kind", kinds.DURABLE)
@pytest.mark.parametrize("clause", conformance.CLAUSES, ids=repr)
def test_sqlite_store_satisfies_each_clause(clause, kind, tmp_path):
    clause(kinds.DURABLE[kind](tmp_path))


def test_every_clause_states_its_rule_under_a_unique_name():
    rules = [clause.rule for clause in conformance.CLAUSES]

    assert all(rule.endswith(".") for rule in rules)
    assert len(set(rules)) == len(rules)
    assert len({repr(clause) for clause in conformance.CLAUSES}) == len(rules) >= 110


@pytest.mark.slow
def test_check_runs_without_pytest(tmp_path):
    """The plain runner checks a store in a process without pytest, and reports that it conforms."""
    code = f"""
        import sys, tempfile
        sys.modules["pytest"] = None  # whoever imports it fails
        from graphrt.testing import conformance
        from graphrt.stores.sqlite import SqliteStore

        def factory():
            folder = tempfile.mkdtemp(dir={str(tmp_path)!r})
            return lambda: SqliteStore(folder + "/runs.db")

        print(conformance.check(factory, conformance.CLAUSES[::9]))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)

    assert re.match(r"(\d+) of \1 clauses hold\n  claims +\d+ checked\n", done.stdout)


def test_check_reports_the_error_of_a_store():
    def no_store():
        raise OSError("no such store")

    clause = conformance.CLAUSES[0]
    broken = iter([kinds.memory(Path()), no_store])
    report = conformance.check(lambda: next(broken), [clause])

    assert not report.ok
    assert [(each.clause, type(each.error)) for each in report.failures] == [(clause, OSError)]


class Plain(StoreWrapper):
    """A store in memory without mail and labels."""

    def __init__(self):
        super().__init__(MemoryStore())
        self.offers -= {"mail", "labels"}


def test_report_lists_checked_clauses_and_unsupported_features():
    """A clause about an unsupported feature neither passes nor fails; pytest reports it as skipped."""
    report = conformance.check(lambda: Plain)
    mail = [clause for clause in conformance.CLAUSES if clause.theme == "mail"]
    found = report.to_dict()["themes"]
    (line,) = [line for line in str(report).splitlines() if line.startswith("  mail ")]

    assert report.ok
    assert {each.clause.theme: each.needs for each in report.not_offered} == {
        "finding": "a store that offers labels",
        "mail": "a store that offers mail",
        "posting": "a store that offers mail",
        "leases": "a durable store",
        "reopening": "a durable store",
    }
    assert {*report.checked, *(each.clause for each in report.not_offered)} == {*conformance.CLAUSES}
    assert (found["mail"]["checked"], len(found["mail"]["not_offered"])) == ([], len(mail))
    assert line.split(maxsplit=1)[1] == f"not offered ({len(mail)} need a store that offers mail)"
    with pytest.raises(unittest.SkipTest, match="offers mail"):
        mail[0](Plain)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [((MemoryStore,), "lambda: MyStore"), ((lambda: MemoryStore, ["commits"]), "clauses of the suite")],
    ids=["a store instead of a factory", "a name instead of a clause"],
)
def test_arguments_of_the_check_are_checked(arguments: Any, told: str) -> None:
    with pytest.raises(InputError, match=told):
        conformance.check(*arguments)
