"""Errors of route coverage and of route mutation: their data, their targets, and the tests that they run."""

from __future__ import annotations

from graphrt.errors._codes.arguments import INVALID_ARGUMENT

NO_GRAPH_MEASURED = INVALID_ARGUMENT.variant(
    "The data has no graph that was compiled outside of test files.",
    fix="Run pytest with --graphrt-cov on tests that import the graphs, or name a graph with --target.",
)
COVERAGE_OF_OTHER_VERSION = INVALID_ARGUMENT.variant(
    "The route coverage data at {file!r} cannot be merged: it was measured with another version of {source!r} than the "
    "data before it.",
    known="only one of them has the graph {graph_name!r} of line {line}",
    fix="Merge what was measured with one version of the code.",
)
COVERAGE_UNREADABLE = INVALID_ARGUMENT.variant(
    "The route coverage data at {file!r} cannot be read: {error:told}",
    fix="Run pytest with --graphrt-cov first, or name the file that it wrote.",
)
COVERAGE_DAMAGED = INVALID_ARGUMENT.variant(
    "{file!r} is not route coverage data that this version of graphrt can read: {error:told}",
    known="this version reads format {version}",
    fix="Delete the file and run the tests again.",
)
TARGET_WITHOUT_GRAPH = INVALID_ARGUMENT.variant("{problem}", known="{graphs}", fix="{advice}")
PATTERN_WITHOUT_MUTANT = INVALID_ARGUMENT.variant(
    "--only={pattern} matches no mutant.",
    known="{number:count mutant}, of the operators {operators}",
    fix="Use --list, which shows all of them.",
)
GRAPH_WITHOUT_TESTS = INVALID_ARGUMENT.variant(
    "No test runs {graphs:names}, or asks for a route.",
    known="tests that ran: {number}",
    fix="Name the tests of this graph after --, or name another graph.",
)
PYTEST_DID_NOT_END = INVALID_ARGUMENT.variant(
    "The first run of pytest, which has no mutant, did not come to its end ({ended}).",
    known="the last lines of its output:\n{output}",
    fix="Run pytest alone, and correct what it says.",
)
TESTS_FAIL_UNMUTATED = INVALID_ARGUMENT.variant(
    "{number:count test} {number:fails|fail} without any mutant, and would fail with each of them.",
    known="{listed}{more}",
    fix="Correct the tests, or leave them out with --deselect after --.",
)
NO_TESTS_RAN = INVALID_ARGUMENT.variant(
    "pytest ran no tests.",
    known="exit code {exit_code}; the last lines of its output:\n{output}",
    fix="Name the tests after --, as for pytest.",
)
VERDICTS_NOT_WRITTEN = INVALID_ARGUMENT.variant(
    "The verdicts cannot be written: {error:told}", fix="Name another file."
)
