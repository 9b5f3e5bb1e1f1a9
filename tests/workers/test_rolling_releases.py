"""Three builds of a graph are released one after another and taken back, under load and kills (rule R14).

No node is skipped, none runs twice, and no thread is left behind, whichever build drives a thread at a time.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.stores import postgres_server

from graphrt import Runtime

from .process_support import Workers
from .rolling import BUILDS, WORK, graph

WORKER = "tests.workers.rolling"
FULL = [
    pytest.param(200, "sqlite", marks=pytest.mark.full),
    pytest.param(200, "postgres", marks=[pytest.mark.full, pytest.mark.needs("psycopg")]),
]


@pytest.fixture
def url(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if kind == "sqlite":
        yield f"sqlite:///{tmp_path}/runs.db"
    else:
        made = postgres_server.fresh_url(request.config)
        yield made
        postgres_server.drop(made)


@pytest.mark.slow
@pytest.mark.parametrize(("threads", "kind"), [(40, "sqlite"), *FULL])
def test_rolling_release_skips_no_node_and_strands_no_thread(threads: int, kind: str, url: str) -> None:
    chance = random.Random(35)
    workers = Workers(url)
    started: dict[str, str] = {}  # thread to the build that started it
    try:
        for build in BUILDS:
            with Runtime(graph(build), store=url) as runtime:
                workers.add(2.0, module=WORKER, BUILD=build)  # in addition to those of the earlier builds
                for _ in range(threads // len(BUILDS)):
                    started[runtime.start({"visits": []})] = build
                    time.sleep(0.01)
                    if chance.random() < 0.05:
                        victim = chance.choice(workers.processes)
                        workers.processes.remove(victim)
                        victim.kill()
                        victim.communicate()
                        workers.add(2.0, module=WORKER, BUILD=chance.choice([*BUILDS][: [*BUILDS].index(build) + 1]))
        for build in BUILDS:  # each build still has a worker, for the threads that only it can end
            workers.add(2.0, module=WORKER, BUILD=build)
        visits = _ended(url, [*started])
    finally:
        workers.end()

    for thread, seen in visits.items():
        names = [name for name, _ in seen]
        last = seen[WORK - 1][1]  # the build that drove the last node that all builds have
        later = {build for _, build in seen[WORK:]}
        assert names[:WORK] == [f"work-{at}" for at in range(WORK)], thread
        assert names[WORK:] in [list(BUILDS[build][0]) for build in {last, *later}], (thread, seen)
        assert len(names[WORK:]) >= len(BUILDS[last][0]) or "back" in later, (thread, seen)
        orders = [[*BUILDS].index(build) for build in (started[thread], *(build for _, build in seen))]
        assert orders == sorted(orders), f"an older build went on with {thread}: {seen}"


def _ended(url: str, threads: list[str]) -> dict[str, list[tuple[str, str]]]:
    """The nodes that each thread visited, once all have completed."""
    until = time.monotonic() + 120
    with Runtime(graph("3"), store=url) as runtime:
        while left := [info.thread for info in runtime.threads() if info.status != "completed"]:
            assert time.monotonic() < until, f"left behind: {left}"
            time.sleep(0.1)
        return {thread: [(name, build) for name, build in runtime.state(thread).values["visits"]] for thread in threads}
