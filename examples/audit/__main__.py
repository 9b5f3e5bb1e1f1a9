"""Runs the audit: builds the runtime, answers its interrupts, prints and writes the result, and chooses the exit code."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from examples.audit import report, review, view
from examples.audit.graph import GRAPH
from examples.audit.journal import Journal
from examples.audit.offline import OfflineReader
from examples.audit.options import Options, parse
from examples.audit.report import Outcome
from examples.audit.state import State
from graphrt import AgentHarness, GraphrtError, RunResult, Runtime, __version__
from graphrt.console import Screen, open_screen
from graphrt.viewer import html

THREAD = "audit"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one audit.

    Returns:
        The exit code: 0; 1 with --strict if a finding was rejected; 2 if it could not run; 130 after Ctrl-C.
    """
    options = parse(sys.argv[1:] if arguments is None else arguments)
    if options.graph:
        print(GRAPH.to_mermaid(), end="")
        return 0
    # Standard output is reserved for machine-readable output.
    screen = open_screen(sys.stderr if options.json or options.out == "-" else sys.stdout, colour=options.colour)
    try:
        outcome = audit(options, screen)
        return finish(options, outcome, screen)
    except GraphrtError as error:
        screen.busy(None)
        print(f"audit: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        screen.busy(None)
        print(f"audit: {error.filename or 'the report'}: {error.strerror}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        screen.busy(None)
        print("\naudit: interrupted", file=sys.stderr)
        return 130


def audit(options: Options, screen: Screen) -> Outcome:
    """Drive the graph from the first distribution to the verdict.

    Raises:
        GraphrtError: The run failed.
    """
    began = time.perf_counter()
    harness, reader = make_harness(options)
    shown = not options.quiet and not options.json
    log = view.Log(screen, shown=shown)
    reducers = {name: str(field["reducer"]) for name, field in GRAPH.topology()["state"].items()}
    journal = Journal(reducers, show=log.show, due=log.due)
    if shown:
        view.show_head(screen, options.label, options.policy.name, reader)
        view.show_graph(screen, GRAPH)
        log.start()
    first = State(
        sites=options.sites,
        policy=options.policy,
        limit=options.limit,
        reviewer="person" if options.review else "policy",
    )
    store = "memory:" if options.db is None else f"sqlite:///{quote(options.db)}"
    with Runtime(GRAPH, store=store, harness=harness, deps=log.tick, sinks=[journal]) as runtime:
        result = drive(runtime, first, screen)
        elapsed_s = time.perf_counter() - began
        page = html(runtime, str(result.thread)) if options.page is not None else ""
    return Outcome(
        state=result.state,
        usage=result.usage,
        rows=journal.rows,
        elapsed_s=elapsed_s,
        at=time.time(),
        label=options.label,
        reader=reader,
        command=options.command,
        versions=f"graphrt {__version__}, Python {platform.python_version()}, {platform.system()}",
        mermaid=GRAPH.to_mermaid(),
        fingerprint=GRAPH.fingerprint,
        page=page,
    )


def drive(runtime: Runtime[State], first: State, screen: Screen) -> RunResult[State]:
    """Run a new audit to its end, or continue an unfinished one: killed, interrupted or failed."""
    known = runtime.threads(prefix=f"{THREAD}-")
    left = next((info for info in known if info.status != "completed"), None)
    if left is None:
        result = runtime.run(first, thread=f"{THREAD}-{len(known) + 1}")
    else:
        screen.line((f"going on with {left.thread}", "accent"), f"  it was {left.status}")
        questions = runtime.state(left.thread).interrupts
        if questions:
            result = runtime.resume(left.thread, review.answers(questions, screen))
        else:
            result = runtime.retry(left.thread)
    while result.interrupts:
        result = runtime.resume(str(result.thread), review.answers(result.interrupts, screen))
    return result


def make_harness(options: Options) -> tuple[AgentHarness, str]:
    """The harness that reads doubtful licences, and its display name."""
    if options.model is None:
        return OfflineReader(), "offline rules"
    from graphrt.harness import LiteLLMHarness

    return LiteLLMHarness(options.model, api_base=options.api_base, max_tokens=1_000), options.model


def finish(options: Options, outcome: Outcome, screen: Screen) -> int:
    """Print and write the result.

    Returns:
        The exit code.
    """
    if options.json:
        print(report.to_json(outcome), end="")
    else:
        if not options.quiet:
            view.show_outcome(screen, outcome)
        view.show_verdict(screen, outcome)
    if options.out is not None:
        as_json = options.out.endswith(".json")
        text = report.to_json(outcome) if as_json else report.to_markdown(outcome)
        if options.out == "-":
            print(text, end="")
        else:
            Path(options.out).write_text(text, encoding="utf-8")
            if not options.json:
                screen.line(("report", "faint"), f"  {options.out}")
    if options.page is not None:
        Path(options.page).write_text(outcome.page, encoding="utf-8")
        if not options.json:
            screen.line(("page", "faint"), f"    {options.page}, which shows the run step by step")
            screen.line(("see it", "faint"), f"  python -m webbrowser {options.page}")
    if not options.json:
        screen.line()
    verdict = outcome.state.verdict
    return int(options.strict and verdict is not None and not verdict.passed)


if __name__ == "__main__":
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our pipe has exited, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.exit(code)
