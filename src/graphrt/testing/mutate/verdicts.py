"""Verdicts: tests mutants, several at a time, and collects the results."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from graphrt.testing.exploring.search import Search
from graphrt.testing.mutate.first_run import Candidate, FirstRun
from graphrt.testing.mutate.pytest_runs import PytestResult, PytestRuns

KILLED: Final = ("killed", "refused", "timeout", "crashed")
"""Statuses of mutants that were detected."""
ALIVE: Final = ("survived", "untested", "untried")
"""Statuses of mutants that no test detected."""


@final
@dataclass(frozen=True)
class Verdict:
    """The outcome of one mutant."""

    candidate: Candidate
    status: str
    """`killed` by a test, `refused` by compile(), `timeout`, or `crashed` if pytest itself died twice. Alive:
    `survived` its tests, `untested` if no test takes its arcs, `untried` if its tests never used it."""
    test: str = ""
    """The test that failed first, if it was killed; if it survived, the test that came nearest."""
    note: str = ""
    """The error of that test, or other details."""
    passed: int = 0
    """Number of tests that passed on the mutant."""
    seconds: float = 0.0

    @property
    def dead(self) -> bool:
        """Whether the mutant was detected."""
        return self.status in KILLED


def score(verdicts: Sequence[Verdict]) -> float:
    """Return the percentage of detected mutants; 100 without mutants."""
    return 100.0 * sum(verdict.dead for verdict in verdicts) / len(verdicts) if verdicts else 100.0


def judge_all(
    runs: PytestRuns,
    folder: Path,
    first: FirstRun,
    candidates: Sequence[Candidate],
    search: Search[Verdict],
    *,
    jobs: int,
    timeout_s: float | None,
) -> list[Verdict]:
    """Test mutants, and report those that no test detects to the search.

    A KeyboardInterrupt kills the runs of pytest and ends the search.

    Args:
        runs: Runs pytest.
        folder: Folder for the files of the runs.
        first: The run without a mutant.
        candidates: The mutants.
        search: Receives the findings.
        jobs: Number of mutants tested at a time.
        timeout_s: Seconds for one mutant; None for a limit from the duration of its tests without a mutant.

    Returns:
        The known verdicts, in the order of the mutants.
    """
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="graphrt-mutate")
    waiting: dict[Future[Verdict], int] = {}
    known: dict[int, Verdict] = {}
    with search.going_on():
        try:
            for number, candidate in enumerate(candidates):
                args = (runs, folder / str(number), first, candidate, timeout_s)
                waiting[pool.submit(_verdict_on, *args)] = number
            for future in as_completed(waiting):
                verdict = known[waiting[future]] = future.result()
                if not verdict.dead:
                    search.keep([(verdict.status, verdict.candidate.id, verdict.candidate.mutation.words)], verdict)
                search.count()
        except KeyboardInterrupt:
            runs.stop()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
    return [known[number] for number in sorted(known)]


def limit_s(first: FirstRun, tests: Sequence[str]) -> float:
    """Return the time limit in seconds for a mutant: 10, plus five times its tests and the start of pytest."""
    own = sum(first.result.tests[test].seconds for test in tests)
    start = max(0.0, first.result.seconds - sum(ended.seconds for ended in first.result.tests.values()))
    return 10.0 + 5.0 * (own + start)


def _verdict_on(
    runs: PytestRuns, folder: Path, first: FirstRun, candidate: Candidate, timeout_s: float | None
) -> Verdict:
    if candidate.refused:
        return Verdict(candidate, "refused", note=f"compile() says {', '.join(candidate.refused)}")
    if not candidate.tests:
        return Verdict(candidate, "untested", note="no test takes it")
    needed = {first.file_of(test) for test in candidate.tests}
    job = {
        "key": candidate.graph.key,
        "mutation": candidate.mutation.to_json(),
        "tests": candidate.tests,
        "ignored": sorted(first.files() - needed),
    }
    limit = timeout_s if timeout_s is not None else limit_s(first, candidate.tests)
    result = runs.run(folder / "1", job, first=False, timeout_s=limit)
    if not result.finished and result.exit_code is not None and not (result.failed or result.uncollected):
        # It may have died for another reason, such as lack of memory.
        result = runs.run(folder / "2", job, first=False, timeout_s=limit)
    shutil.rmtree(folder, ignore_errors=True)
    return _judge(candidate, result, limit)


def _judge(candidate: Candidate, result: PytestResult, limit: float) -> Verdict:
    passed = [test for test in candidate.tests if test in result.tests and not result.tests[test].failed]
    compiled = any("made" in line for line in result.told)

    def verdict(status: str, test: str = "", note: str = "") -> Verdict:
        return Verdict(candidate, status, test, note, len(passed), result.seconds)

    if result.failed:
        return verdict("killed", result.failed[0].test, result.failed[0].error)
    if result.uncollected:
        file, error = next(iter(result.uncollected.items()))
        return verdict("killed", file, error)
    if result.exit_code is None:
        return verdict("timeout", note=f"no end within {limit:.0f} s")
    if not result.finished:
        return verdict("crashed", note=f"pytest ended twice with exit code {result.exit_code}")
    if not result.tests:
        return verdict("untried", note="its tests were not found again: their ids differ from run to run")
    if not compiled:
        return verdict("untried", note="the graph was not compiled when its tests ran alone")
    acts = (
        candidate.mutation.operator in ("raise", "no-update", "redirect-goto")
        and "nested" not in candidate.mutation.args
    )
    idle = acts and not any("acted" in line for line in result.told)
    return verdict("survived", passed[0] if passed else "", _idle(candidate) if idle else "")


def _idle(candidate: Candidate) -> str:
    if candidate.mutation.operator == "raise":
        return "these tests run doubles of the node, never the node itself"
    return "in these tests the node never returned what the mutant would change, or a double ran in its place"
