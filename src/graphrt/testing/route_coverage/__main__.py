"""`python -m graphrt.testing.route_coverage`: merges the data of several runs of pytest, and reports it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from graphrt._display import shown_error
from graphrt.errors import GraphrtError, InputError
from graphrt.errors._codes.route_coverage import BAD_COVERAGE_DATA
from graphrt.testing.route_coverage import CoverageData, GraphData, load, reports, summarise
from graphrt.testing.route_coverage.targets import no_graph


def main(arguments: list[str] | None = None) -> int:
    """Merge and report; return the exit code: 1 if too little was taken, 2 if something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m graphrt.testing.route_coverage", description=__doc__)
    parser.add_argument("data", nargs="+", type=Path, help="files that pytest --graphrt-cov wrote")
    parser.add_argument("--target", action="append", default=[], help="as for --graphrt-cov")
    parser.add_argument("--report", choices=sorted(reports.WRITERS), default="term", help="written to standard output")
    parser.add_argument(
        "--fail-under", type=float, default=0.0, metavar="PERCENT", help="as for --graphrt-cov-fail-under"
    )
    options = parser.parse_args(arguments)
    data = CoverageData()
    try:
        for path in options.data:
            more = load(path)
            if other := data.outdated(more) + more.outdated(data):
                raise _of_another_version(path, other[0])
            data.merge(more)
        summary = summarise(data, options.target)
        if not summary.graphs:
            raise no_graph(
                data,
                "",
                "The data has no graph that was compiled outside of test files.",
                hint=" Or run pytest with --graphrt-cov on tests that import the graphs.",
            )
    except GraphrtError as error:
        sys.stderr.write(f"{shown_error(error)}\n")
        return 2
    sys.stdout.write(reports.WRITERS[options.report](summary).rstrip("\n") + "\n")
    return 1 if summary.percent < options.fail_under else 0


def _of_another_version(path: Path, graph: GraphData) -> InputError:
    return BAD_COVERAGE_DATA(
        file=str(path),
        problem=f"it was measured with another version of {graph.file!r} than the data before it.",
        known=f"only one of them has the graph {graph.name!r} of line {graph.line}",
    )


if __name__ == "__main__":
    raise SystemExit(main())
