"""`python -m graphrt.testing.mutate`: changes graphs in small ways, and reports the changes that no test detects."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from graphrt._display import shown_error
from graphrt._overwriting import check_overwritable
from graphrt.errors import GraphrtError
from graphrt.errors._codes.stores import CANNOT_WRITE_FILE
from graphrt.testing.exploring.search import Search
from graphrt.testing.mutate import reports
from graphrt.testing.mutate.first_run import first_run
from graphrt.testing.mutate.operators import OPERATORS
from graphrt.testing.mutate.pytest_runs import PytestRuns
from graphrt.testing.mutate.verdicts import ALIVE, Verdict, judge_all, score

_INTERRUPTED = 130
"""Exit code after Ctrl-C, by the convention of shells."""


def _parser() -> argparse.ArgumentParser:
    operators = "\n".join(f"  {name:<15} {words}" for name, words in OPERATORS.items())
    parser = argparse.ArgumentParser(
        prog="python -m graphrt.testing.mutate",
        usage="%(prog)s [TARGET ...] [options] -- [pytest] [arguments of pytest]",
        description=__doc__,
        epilog=f"operators:\n{operators}\n\nexit codes: 0; 1 if the score is below --fail-under; 2 if something is "
        "wrong; 130 after Ctrl-C",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "targets",
        nargs="*",
        metavar="TARGET",
        help="package, module, file, folder, module:variable or name of a graph; without one, every graph that is made "
        "outside of test files. Nested graphs are mutated too",
    )
    parser.add_argument("-j", "--jobs", type=_count, default=os.cpu_count() or 1, metavar="N",
                        help="mutants that are tested at a time (default: processors)")  # fmt: skip
    parser.add_argument("--list", action="store_true", help="list the mutants, and test none")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN",
                        help="ids, operators or patterns such as '*/raise:*' (repeatable)")  # fmt: skip
    parser.add_argument("--skip", action="append", default=[], metavar="PATTERN",
                        help="mutants to leave out, for instance because they are equivalent (repeatable)")  # fmt: skip
    parser.add_argument("--max-mutants", type=_count, metavar="N", help="test at most N mutants, which --seed draws")
    parser.add_argument("--seed", type=int, default=0, help="draws the sample, and the targets of redirected edges")
    parser.add_argument("--timeout", type=_seconds, metavar="S",
                        help="seconds for one mutant (default: from the time of its tests)")  # fmt: skip
    parser.add_argument(
        "--json", metavar="FILE", help="write the verdicts to FILE, over those of an earlier run; - is standard output"
    )
    parser.add_argument("--fail-under", type=_percent, default=0.0, metavar="PERCENT", help="exit with 1 below it")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")
    return parser


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError("must be a number of seconds above 0")
    return value


def _percent(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError("must be a percentage, 0 to 100")
    return value


def main(arguments: Sequence[str] | None = None) -> int:
    """Test the mutants; return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    at = words.index("--") if "--" in words else len(words)
    options = _parser().parse_args(words[:at])
    tests = words[at + 1 :]
    tests = tests[1:] if tests[:1] in (["pytest"], ["py.test"]) else tests
    folder = Path(tempfile.mkdtemp(prefix="graphrt-mutate-"))
    interrupt = _Interrupt()
    # SIGTERM, which CI sends to cancelled jobs, is handled like Ctrl-C.
    before = [
        (signal_number, signal.signal(signal_number, interrupt.take))
        for signal_number in (signal.SIGINT, signal.SIGTERM)
    ]
    runs = PytestRuns(tests)
    try:
        return _mutate(options, tests, runs, folder)
    except KeyboardInterrupt:
        _say(options, "interrupted before a mutant was tested")
        return _INTERRUPTED
    except GraphrtError as error:
        sys.stderr.write(f"{shown_error(error)}\n")
        return 2
    finally:
        runs.stop()
        for signal_number, handler in before:
            signal.signal(signal_number, handler)
        shutil.rmtree(folder, ignore_errors=True)


class _Interrupt:
    """A signal handler that raises KeyboardInterrupt, after which the results so far are written.

    A shell may send the signal twice, to the process and to its group, so only the third one raises again.
    """

    def __init__(self) -> None:
        self._count = 0

    def take(self, _number: int, _frame: Any) -> None:
        """Handle one signal."""
        self._count += 1
        if self._count != 2:
            raise KeyboardInterrupt


def _mutate(options: argparse.Namespace, tests: list[str], runs: PytestRuns, folder: Path) -> int:
    def say(text: str) -> None:
        _say(options, text)

    _check_json(options)  # before the tests run, which takes minutes
    say("running the tests without a mutant ...")
    first = first_run(runs, folder / "first", options.targets, options.seed)
    candidates, left_out = first.candidates(options.only, options.skip, options.max_mutants)
    graphs = ", ".join(dict.fromkeys(first.titles.values()))
    passed = f"{reports.counted(len(first.tests), 'test')} passed in {first.result.seconds:.1f} s"
    say(f"{passed}; {reports.counted(len(candidates), 'mutant')} of {graphs}")
    if options.list:
        for candidate in candidates:
            sys.stdout.write(f"{reports.listed(candidate)}\n")
        return 0
    order = {candidate.id: number for number, candidate in enumerate(candidates)}
    search: Search[Verdict] = Search(
        "mutants",
        size=lambda verdict: (ALIVE.index(verdict.status), order[verdict.candidate.id]),
        shown=lambda _, verdict: (reports.case(verdict), reports.replay_line(verdict.candidate, first, tests)),
        progress=not options.quiet and say,
    )
    search.total = len(candidates)
    if left_out:
        search.left_out[f"{reports.counted(left_out, 'mutant')}, by --max-mutants; another --seed draws others"] = None
    verdicts = judge_all(runs, folder, first, candidates, search, jobs=options.jobs, timeout_s=options.timeout)
    say(f"\n{search.report(graphs)}\n{reports.score_line(verdicts)}")
    _write_json(options, reports.as_json(first, search, verdicts, tests))
    if search.interrupted:
        return _INTERRUPTED
    if score(verdicts) < options.fail_under:
        say(f"ERROR: The mutation score is {score(verdicts):.1f}%, and {options.fail_under:g}% is required.")
        return 1
    return 0


def _say(options: argparse.Namespace, text: str) -> None:
    """Write a line for people: to standard output, unless JSON goes there."""
    stream: Any = sys.stderr if options.json == "-" or options.list else sys.stdout
    stream.write(f"{text}\n")
    stream.flush()


def _check_json(options: argparse.Namespace) -> None:
    if options.json and options.json != "-":
        try:
            check_overwritable(options.json, kind="a report of mutants", begins=reports.JSON_BEGINS)
        except OSError as error:
            raise CANNOT_WRITE_FILE(file=options.json, reason=error.strerror or str(error)) from error


def _write_json(options: argparse.Namespace, text: str) -> None:
    if options.json == "-":
        sys.stdout.write(f"{text}\n")
    elif options.json:
        try:
            path = Path(options.json)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n", encoding="utf-8")
        except OSError as error:
            raise CANNOT_WRITE_FILE(file=options.json, reason=error.strerror or str(error)) from error


if __name__ == "__main__":
    raise SystemExit(main())
