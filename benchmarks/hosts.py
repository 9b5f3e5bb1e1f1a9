"""Runs in background processes: graphrt's workers, DBOS, and LangGraph's saver, on PostgreSQL.

    python -m benchmarks.hosts
    python -m benchmarks.hosts --rounds 11 --only graphrt,langgraph --work fan

`chain` is a chain of nodes that return a number, each a durable step before the next one: 1 run of 100 steps, and 20
runs of 50 steps on 1 and 2 processes. `fan` starts 500 tasks side by side, which add a number each: 1 run, and 8 runs
on 2 processes; its steps are the tasks. In `waits` each of them waits 5 ms before, 40 at once. LangGraph has no
workers: its processes are given the ids of threads on their input. In each round every contender runs once, in random
order, with its own warm processes, which have already run one thread. Wall time is from the first start to the last
end, processor time is that of the processes (not of the server). Ratios are taken round by round.
"""

from __future__ import annotations

import argparse
import json
import operator
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Annotated, Any, TypedDict
from uuid import uuid4

from benchmarks import server

ROOT = Path(__file__).parents[1]
WAIT_S = 0.005
TASKS_AT_ONCE = 40
AT_ONCE = 8
"""Threads that one process drives concurrently."""
CONTENDERS = ("graphrt", "dbos", "langgraph")
WORK = {
    "chain": ((1, 100, 1), (20, 50, 1), (20, 50, 2)),
    "fan": ((1, 500, 1), (8, 500, 2)),
    "waits": ((1, 500, 1), (8, 500, 2)),
}
"""Maps a workload to its sizes: runs, steps per run, processes."""


class Chain(TypedDict):
    n: int


class Fan(TypedDict):
    n: Annotated[int, operator.add]


def one(work: str) -> dict[str, int]:
    """A task of a fan-out."""
    if work == "waits":
        time.sleep(WAIT_S)
    return {"n": 1}


# -- graphrt -----------------------------------------------------------------------------------------------------------


def graphrt_graph(work: str, steps: int) -> Any:
    from graphrt import GraphBuilder, Limits, Send
    from graphrt.reducers import add

    if work != "chain":

        class Sum(TypedDict):
            n: Annotated[int, add]

        fan: Any = GraphBuilder(Sum, name=f"fan{steps}")
        fan.add_node("split", lambda state: {})
        fan.add_node("part", lambda state, ctx: one(work))
        fan.set_entry("split")
        fan.add_conditional_edges("split", lambda state: [Send("part", k) for k in range(steps)], ["part"])
        return fan.compile()
    g: Any = GraphBuilder(Chain, name=f"chain{steps}")
    names = [f"s{number}" for number in range(steps)]
    for name in names:
        g.add_node(name, lambda state: {"n": state["n"] + 1})
    g.set_entry(names[0])
    g.add_sequence(names)
    g.set_finish(names[-1])
    return g.compile(limits=Limits(max_steps=steps + 1))


def store_url(url: str, name: str) -> str:
    return f"{url}&schema=bench_{name}"


def graphrt_host(name: str, url: str, work: str, steps: int) -> Any:
    from graphrt import Runtime
    from graphrt.workers import Worker

    runtime = Runtime(graphrt_graph(work, steps), store=store_url(url, name), worker_threads=TASKS_AT_ONCE)
    if name == "graphrt":
        return Worker(runtime, concurrency=AT_ONCE, poll_s=0.02)
    from graphrt.backends.dbos import DbosHost

    return DbosHost(runtime, system_database_url=url, worker_concurrency=AT_ONCE)


def graphrt_process(name: str, url: str, work: str, steps: int) -> None:
    host = graphrt_host(name, url, work, steps)
    host.start()
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.process_time()
    print("go", flush=True)
    sys.stdin.readline()
    print(time.process_time() - began, flush=True)
    sys.stdin.readline()
    host.stop(grace_s=0.1)


class Graphrt:
    """Starts runs and waits for them; DBOS gets a message for each."""

    def __init__(self, name: str, url: str, work: str, steps: int) -> None:
        from graphrt import Runtime

        self.steps = steps
        self.runtime = Runtime(graphrt_graph(work, steps), store=store_url(url, name))
        self.host: Any = None
        if name == "dbos":
            from graphrt.backends.dbos import DbosHost

            runtime = Runtime(graphrt_graph(work, steps), store=store_url(url, name))
            self.host = DbosHost(runtime, system_database_url=url, drives=False).start()

    def run(self, _processes: list[Any], runs: int) -> None:
        threads = []
        for _ in range(runs):
            threads.append(self.runtime.start({"n": 0}))
            if self.host is not None:
                self.host.drive(threads[-1])
        for thread in threads:
            assert self.runtime.wait(thread).state["n"] == self.steps

    def close(self) -> None:
        if self.host is not None:
            self.host.stop(grace_s=0.1)
        self.runtime.close()


# -- LangGraph ---------------------------------------------------------------------------------------------------------


def langgraph_graph(work: str, steps: int) -> Any:
    from langgraph.graph import END, START, StateGraph
    from langgraph.types import Send

    if work != "chain":
        fan: Any = StateGraph(Fan)
        fan.add_node("split", lambda state: {})
        fan.add_node("part", lambda arg: one(work))
        fan.add_edge(START, "split")
        fan.add_conditional_edges("split", lambda state: [Send("part", k) for k in range(steps)], ["part"])
        return fan
    g: Any = StateGraph(Chain)
    before: Any = START
    for number in range(steps):
        g.add_node(f"s{number}", lambda state: {"n": state["n"] + 1})
        g.add_edge(before, f"s{number}")
        before = f"s{number}"
    g.add_edge(before, END)
    return g


def langgraph_process(url: str, work: str, steps: int) -> None:
    from concurrent.futures import ThreadPoolExecutor
    from queue import SimpleQueue

    from langgraph.checkpoint.postgres import PostgresSaver
    from psycopg import connect
    from psycopg.rows import dict_row

    g = langgraph_graph(work, steps)
    free: Any = SimpleQueue()
    for number in range(AT_ONCE):  # a separate saver for each concurrent thread: one saver would serialize them
        saver = PostgresSaver(connect(url, autocommit=True, prepare_threshold=0, row_factory=dict_row))
        if number == 0:
            saver.setup()
        free.put(g.compile(checkpointer=saver))

    def run(thread: str) -> None:
        compiled = free.get()
        limits = {"recursion_limit": steps + 10, "max_concurrency": TASKS_AT_ONCE}
        options = {"configurable": {"thread_id": thread}, **limits}
        assert compiled.invoke({"n": 0}, options, durability="sync")["n"] == steps
        free.put(compiled)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        print("ready", flush=True)
        threads = sys.stdin.readline()
        began = time.process_time()
        print("go", flush=True)
        while threads := sys.stdin.readline().strip():
            if threads == "cpu":
                print(time.process_time() - began, flush=True)
                continue
            list(pool.map(run, json.loads(threads)))
            print("done", flush=True)


class Langgraph:
    """Gives each process its share of the threads."""

    def run(self, processes: list[Any], runs: int) -> None:
        for number, process in enumerate(processes):
            say(process, json.dumps([str(uuid4()) for _ in range(number, runs, len(processes))]))
        for process in processes:
            hear(process)

    def close(self) -> None:
        pass


# -- the rounds --------------------------------------------------------------------------------------------------------


def say(process: Any, line: str) -> None:
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def hear(process: Any) -> str:
    line = process.stdout.readline().strip()
    assert line, "a process ended"
    return line


def measured(name: str, url: str, work: str, runs: int, steps: int, number: int) -> tuple[float, float]:
    """Wall time and processor time of a step, in milliseconds."""
    size = ["--work", work, "--steps", str(steps)]
    command = [sys.executable, "-m", "benchmarks.hosts", "--child", name, "--url", url, *size]
    env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
    processes = [
        subprocess.Popen(command, cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(number)
    ]
    try:
        for process in processes:
            assert hear(process) == "ready"
        contender: Any = Langgraph() if name == "langgraph" else Graphrt(name, url, work, steps)
        for process in processes:
            say(process, "begin")
            assert hear(process) == "go"
        contender.run(processes, number)  # warm
        began = time.perf_counter()
        contender.run(processes, runs)
        wall = time.perf_counter() - began
        for process in processes:
            say(process, "cpu")
        cpu = sum(float(hear(process)) for process in processes)
        contender.close()
    finally:
        for process in processes:
            process.stdin.close()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
    return wall * 1000 / (runs * steps), cpu * 1000 / ((runs + number) * steps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default=",".join(CONTENDERS))
    parser.add_argument("--work", default=",".join(WORK))
    parser.add_argument("--child")
    parser.add_argument("--url")
    parser.add_argument("--steps", type=int, default=0)
    given = parser.parse_args()
    if given.child == "langgraph":
        return langgraph_process(given.url, given.work, given.steps)
    if given.child:
        return graphrt_process(given.child, given.url, given.work, given.steps)
    url = server.url()
    if url is None:
        sys.exit("There is no PostgreSQL server on this machine.")
    names, chance = given.only.split(","), Random(1)
    print(f"median of {given.rounds} rounds; load {os.getloadavg()[0]:.1f} at the beginning\n")
    print(
        "| work | runs x steps | processes | contender | wall ms/step [range] | cpu ms/step | wall ratio | cpu ratio |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for work, (runs, steps, number) in ((name, size) for name in given.work.split(",") for size in WORK[name]):
        rounds = [
            {name: measured(name, url, work, runs, steps, number) for name in chance.sample(names, len(names))}
            for _ in range(given.rounds)
        ]
        for name in names:
            walls, cpus = ([each[name][part] for each in rounds] for part in (0, 1))
            told = f"| {work} | {runs} x {steps} | {number} | {name} | {statistics.median(walls):.2f}"
            told += f" [{min(walls):.2f}-{max(walls):.2f}] | {statistics.median(cpus):.2f} |"
            for part in (0, 1):
                if "langgraph" in names:
                    ratios = [each[name][part] / each["langgraph"][part] for each in rounds]
                    told += f" {statistics.median(ratios):.2f} |"
                else:
                    told += " |"
            print(told, flush=True)
    print(f"\nload {os.getloadavg()[0]:.1f} at the end")
    return None


if __name__ == "__main__":
    main()
