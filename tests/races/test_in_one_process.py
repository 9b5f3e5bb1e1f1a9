"""Worker threads and asyncio tasks of one process claim one thread at the same moment: one gets it (R12)."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter

import pytest

from graphrt import ConflictError, GraphrtError, InputError, Runtime
from graphrt.stores import MemoryStore, SqliteStore

from . import work
from .test_races import check_line

MANY = 6
ROUNDS = 6


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    with MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "runs.db") as opened:
        yield opened


@pytest.fixture
def ledger(tmp_path):
    path = tmp_path / "ledger"
    path.touch()
    return path


def check(ends, runtime, thread, verb, ledger):
    assert ends.pop("completed") == 1
    assert set(ends) <= {"ConflictError conflict", "InputError wrong-verb"}
    [paid] = {line.split()[1] for line in ledger.read_text().splitlines() if line.startswith(f"{thread} ")}
    check_line(runtime, thread, verb, ledger, paid, asks=False)


def told(error: GraphrtError) -> str:
    return f"{type(error).__name__} {error.code}"


@pytest.mark.parametrize("verb", ["resume", "retry", "orphan"])
@pytest.mark.parametrize("shared", [False, True], ids=["a-runtime-each", "one-runtime"])
def test_one_of_many_worker_threads_wins(verb, shared, store, ledger):
    graph = work.graph()
    mine = Runtime(graph, store=store, deps=work.Deps(ledger))
    failing = Runtime(graph, store=store, deps=work.Deps(ledger, fail=True))
    for number in range(ROUNDS):
        thread = f"t{number}"
        work.make_ready(mine, failing, verb, thread)
        gate = threading.Barrier(MANY)
        ends: Counter[str] = Counter()

        def race(thread=thread, gate=gate, ends=ends):
            runtime = mine if shared else Runtime(graph, store=store, deps=work.Deps(ledger))
            method, arguments, options = work.call(runtime, verb, thread)
            gate.wait()
            try:
                ends[getattr(runtime, method)(*arguments, **options).status] += 1
            except (ConflictError, InputError) as error:
                ends[told(error)] += 1

        workers = [threading.Thread(target=race) for _ in range(MANY)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        check(ends, mine, thread, verb, ledger)


@pytest.mark.parametrize("verb", ["resume", "retry", "orphan"])
def test_one_of_many_asyncio_tasks_wins(verb, store, ledger):
    runtime = Runtime(work.graph(), store=store, deps=work.Deps(ledger))
    failing = Runtime(work.graph(), store=store, deps=work.Deps(ledger, fail=True))

    async def race(thread):
        method, arguments, options = work.call(runtime, verb, thread)
        runs = [getattr(runtime, f"a{method}")(*arguments, **options) for _ in range(MANY)]
        return await asyncio.gather(*runs, return_exceptions=True)

    for number in range(ROUNDS):
        thread = f"t{number}"
        work.make_ready(runtime, failing, verb, thread)
        found = asyncio.run(race(thread))
        ends = Counter(told(one) if isinstance(one, GraphrtError) else one.status for one in found)
        check(ends, runtime, thread, verb, ledger)
