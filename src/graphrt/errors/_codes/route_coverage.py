"""Errors of route coverage and of route mutation: their data, their targets, and the tests that they run."""

from __future__ import annotations

from graphrt.errors._codes.arguments import INVALID_ARGUMENT

BAD_COVERAGE_DATA = INVALID_ARGUMENT.variant(
    "The route coverage data at {file!r} cannot be used: {problem}",
    fix="Run pytest with --graphrt-cov on one version of the code, and name the file that it wrote; delete an older one.",
)
TARGET_WITHOUT_GRAPH = INVALID_ARGUMENT.variant("{problem}", known="{graphs}", fix="{advice}")
FIRST_RUN_FAILED = INVALID_ARGUMENT.variant(
    "The first run of pytest, which has no mutant, {problem}.",
    known="{output}",
    fix="Run pytest alone and correct what fails, or leave it out with --deselect; tests are named after --.",
)
