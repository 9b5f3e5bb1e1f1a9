"""A run that is killed with SIGKILL and continues: finished tasks do not run again.

Run it with `python -m examples.durable`; it starts itself as a second process, kills that process, and resumes its
thread.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder, Limits, Runtime, Send
from graphrt.reducers import append

CITIES = ["Lisbon", "Oslo", "Quito", "Hanoi"]


class State(BaseModel):
    """The readings of the cities, and the report about them."""

    readings: Annotated[list[str], append] = []
    report: str = ""


g = GraphBuilder(State, name="durable")


@g.node
def plan(_: State, ctx: Context) -> None:
    print(f"  plan        (process {ctx.deps})", flush=True)


@g.node
def read(_: State, ctx: Context) -> dict[str, object]:
    # Runs once for each city: its result is stored before the node continues.
    degrees = ctx.effect("thermometer", measure, ctx.arg)
    print(f"  read {ctx.arg:<7}(process {ctx.deps})", flush=True)
    if ctx.arg == "Quito" and ctx.deps == "first":
        sys.stdin.read()  # waits here for the kill
    return {"readings": [f"{ctx.arg} {degrees}°"]}


@g.node
def write(state: State, ctx: Context) -> dict[str, object]:
    print(f"  write       (process {ctx.deps})", flush=True)
    return {"report": ", ".join(state.readings)}


def measure(city: str) -> int:
    """Stands for an effect that must not be repeated."""
    return 10 + len(city)


g.add_edge(START, plan)
g.add_conditional_edges(plan, lambda _: [Send(read, city) for city in CITIES], [read])
g.add_edge(read, write)
g.add_edge(write, END)
graph = g.compile(limits=Limits(max_concurrency=1))  # one city after another, for deterministic output


def first(database: str) -> None:
    """The main function of the process that is killed."""
    with Runtime(graph, store=f"sqlite:///{database}", deps="first") as runtime:
        runtime.run({}, thread="weather")


def main() -> None:
    """Start the first process, kill it in the middle of a superstep, and continue."""
    with tempfile.TemporaryDirectory() as folder:
        database = str(Path(folder) / "runs.db")
        command = [sys.executable, "-m", "examples.durable", database]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:  # noqa: S603 - this very file
            for line in process.stdout or ():
                print(line, end="")
                if "Quito" in line:
                    break
            with Runtime(graph, store=f"sqlite:///{database}") as reader:
                while len(reader.state("weather").next) > 2:  # until the results of Lisbon and Oslo are stored
                    time.sleep(0.01)
            process.kill()
        with Runtime(graph, store=f"sqlite:///{database}", deps="second") as runtime:
            snapshot = runtime.state("weather")
            print(f"killed: the thread is {snapshot.status}, next {', '.join(snapshot.next)}")
            result = runtime.retry("weather")
        print("report:", result.state.report)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        first(sys.argv[1])
    else:
        main()
