"""Verdicts: what the tests said of each mutant, several of them tested at a time."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, final

from graphrt.testing.exploring.search import Search
from graphrt.testing.mutate.first_run import Candidate, FirstRun
from graphrt.testing.mutate.pytest_runs import PytestResult, PytestRuns

KILLED: Final = ("killed", "refused", "timeout", "crashed")
"""Statuses of mutants that something noticed."""
ALIVE: Final = ("survived", "untested", "untried")
"""Statuses of mutants that nothing noticed."""


@final
@dataclass(frozen=True)
class Verdict:
    """What became of one mutant."""

    candidate: Candidate
    status: str
    """`killed` by a test, `refused` by compile(), `timeout`, or `crashed` if pytest itself died twice. Alive: `survived`
    its tests, `untested` if no test takes its arcs, `untried` if its tests did not come to use it."""
    test: str = ""
    """The test that failed first, if it was killed; if it survived, the test that came nearest."""
    note: str = ""
    """The error of that test, or what else there is to know."""
    passed: int = 0
    """How many tests passed on the mutant."""
    seconds: float = 0.0

    @property
    def dead(self) -> bool:
        """Whether something noticed the mutant."""
        return self.status in KILLED


@final
@dataclass
class Verdicts:
    """The verdicts of one call, in the order of the candidates."""

    first: FirstRun
    candidates: Sequence[Candidate]
    left_out: int
    """How many mutants `--most` left out."""
    search: Search[Verdict]
    """Has the mutants that nothing noticed."""
    by_id: dict[int, Verdict] = field(default_factory=dict[int, Verdict])
    """Verdicts by the number of their candidate."""

    def add(self, number: int, verdict: Verdict) -> None:
        """Add the verdict on the candidate *number*; a mutant that nothing noticed is a finding."""
        self.by_id[number] = verdict
        if not verdict.dead:
            self.search.keep([(verdict.status, str(number), verdict.candidate.mutation.words)], verdict)
        self.search.count()

    @property
    def found(self) -> list[Verdict]:
        """The verdicts there are, in order."""
        return [self.by_id[number] for number in sorted(self.by_id)]

    def of(self, *statuses: str) -> list[Verdict]:
        """Return the verdicts with these statuses."""
        return [verdict for verdict in self.found if verdict.status in statuses]

    @property
    def score(self) -> float:
        """How many of 100 mutants something noticed; 100 without mutants."""
        found = self.found
        return 100.0 * sum(verdict.dead for verdict in found) / len(found) if found else 100.0


def judge_all(
    runs: PytestRuns,
    folder: Path,
    verdicts: Verdicts,
    *,
    jobs: int,
    timeout_s: float | None,
    tell: Callable[[Verdict], None],
) -> None:
    """Test the candidates of *verdicts* and add what came of each.

    A KeyboardInterrupt kills the runs of pytest and ends the search; the verdicts so far stay.

    Args:
        runs: Runs pytest.
        folder: Folder for the files of the runs.
        verdicts: Has the candidates; its verdicts are added in the order in which they are known.
        jobs: How many mutants are tested at a time.
        timeout_s: Seconds for one mutant; None for a limit from the time that its tests took without a mutant.
        tell: Called with each verdict.
    """
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="graphrt-mutate")
    waiting: dict[Future[Verdict], int] = {}
    with verdicts.search.going_on():
        try:
            for number, candidate in enumerate(verdicts.candidates):
                args = (runs, folder / str(number), verdicts.first, candidate, timeout_s)
                waiting[pool.submit(_verdict_on, *args)] = number
            for future in as_completed(waiting):
                verdicts.add(waiting[future], future.result())
                tell(future.result())
        except KeyboardInterrupt:
            runs.stop()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


def limit_s(first: FirstRun, tests: Sequence[str]) -> float:
    """Return the seconds for a mutant: ten, and five times what its tests and the start of pytest took."""
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
    if not result.finished and result.exit_code is not None and not _noticed(result):
        # It may have died of something else, such as too little memory.
        result = runs.run(folder / "2", job, first=False, timeout_s=limit)
    shutil.rmtree(folder, ignore_errors=True)
    return _judge(candidate, result, limit)


def _noticed(result: PytestResult) -> bool:
    return bool(result.failed or result.uncollected or any("refused" in line for line in result.told))


def _judge(candidate: Candidate, result: PytestResult, limit: float) -> Verdict:
    passed = [test for test in candidate.tests if test in result.tests and not result.tests[test].failed]
    made = any("made" in line for line in result.told)

    def verdict(status: str, test: str = "", note: str = "") -> Verdict:
        return Verdict(candidate, status, test, note, len(passed), result.seconds)

    refused = [code for line in result.told if "refused" in line for code in line["refused"][2]]
    if refused:
        return verdict("refused", note=f"compile() says {', '.join(dict.fromkeys(refused))}")
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
    if not made:
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
