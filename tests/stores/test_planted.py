"""The suite is measured by its detections: each planted bug is detected by the clause about it, and good stores pass."""

from __future__ import annotations

import pytest
from tests.stores import kinds, planted, planted_live, planted_mail, planted_memory, planted_views  # noqa: F401 - the bugs are registered by their base

from graphrt.errors import GraphrtError
from graphrt.testing import conformance

CLAUSES = {repr(clause): clause for clause in conformance.CLAUSES}


def test_there_are_enough_bugs_each_with_its_own_clause():
    bugs = planted.all_of()

    assert len(bugs) >= 18
    assert len({bug.killer for bug in bugs}) == len(bugs)


@pytest.mark.parametrize("bug", planted.all_of(), ids=lambda bug: f"{bug.__name__}-by-{bug.killer}")
def test_planted_bug_is_detected_by_its_clause(bug, tmp_path):
    with pytest.raises((conformance.BrokenClauseError, GraphrtError)):
        CLAUSES[bug.killer](planted.planted(bug, kinds.sqlite(tmp_path)))


@pytest.mark.parametrize("name", sorted({bug.killer for bug in planted.all_of()}))
def test_clause_that_detects_a_bug_passes_on_a_wrapped_good_store(name, tmp_path):
    CLAUSES[name](planted.planted(planted.Around, kinds.sqlite(tmp_path)))


def test_report_names_the_clause_and_its_rule(tmp_path):
    clause = CLAUSES[planted_views.HeadsById.killer]
    report = conformance.check(lambda: planted.planted(planted_views.HeadsById, kinds.sqlite(tmp_path)), [clause])

    assert not report.ok
    assert repr(clause) in str(report)
    assert clause.rule in str(report)
