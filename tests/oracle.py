"""The oracle: random graphs, played by the present build and by an older one, write equal journals.

    python -m tests.oracle [--graphs 500] [--seed N]

The older build is a wheel of `BASE`, made once and unpacked under the temporary folder. Descriptions of graphs are drawn
once and pickled; a process for each build plays all of them through the public face and writes down what it saw: how
each verb ended, the state after it, and every entry of every thread, decoded. Clock, ids and seed are the same, and one
task runs at a time, so that two builds with the same rules write the same entries.

Entries may differ by `mapped` alone, which says how and why. This file goes when stored form 1 is frozen: from then on
stored threads of older builds say the same.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import pickle
import random
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from graphrt import Context, Limits, Runtime
from graphrt.errors import GraphrtError
from graphrt.harness import Agent, Budget, FunctionModel

from .laws.build import build, to_plain
from .laws.description import Graph, Node, thaw
from .laws.graphs import graphs
from .laws.lasting import lasting_graphs
from .laws.steady import Steady, World

BASE = "52d1e84c"
"""The commit at which the work on one kernel began."""
ROOT = Path(__file__).resolve().parent.parent
MOST_VERBS = 12
START_S = 1_000_000.0
"""What the clock says at first. It moves between verbs only, so that no build depends on how often it reads it."""


def begins_anew(entries: list[dict[str, Any]]) -> bool:
    """Whether a thread is a fork that begins with answers to questions of a nested graph.

    What happens to such forks is not compared: where the nested graph begins anew, it finds these answers when it asks, by the rules of
    decision 0057. In the older build it paused first, and then took any answer of the same id (decision 0211).
    """
    first = itertools.takewhile(lambda entry: not entry["event"].startswith("run-"), entries)
    inside = (entry for entry in first if entry["event"] == "interrupt-answered")
    return any("/" in entry["id"].partition("/")[2] for entry in inside)


def mapped(entries: list[dict[str, Any]], present: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the entries of a thread of the older build as the present one writes them.

    - What became of an answer names its number, `nth` (decision 0211).
    - The questions at the beginning of a fork that have an answer are marked if the state was edited after they were
      asked, as open ones were before. The older build forgot the mark.
    - A task that returned an empty mapping has no update. In the older build it had an empty one if it was not alone.
    """
    numbers: dict[str, int] = {}
    for entry, other in zip(entries, present, strict=False):
        place = str(entry.get("id")).partition("/")[2]  # a fork begins with the ids of its source
        match entry["event"]:
            case "interrupt-answered":
                numbers[place] = entry["nth"]
            case "answer-used" | "answer-discarded":
                entry["nth"] = numbers.get(place, other.get("nth", 0))
            case "task-succeeded" if {} in entry["updates"]:
                entry["updates"] = [update for update in entry["updates"] if update]
                entry["update"] = other.get("update")
            case "interrupt-raised" if entries[0]["event"] == "thread-forked" and other.get("stale"):
                entry["stale"] = True
    return entries


# playing: in a process of each build ----------------------------------------------------------------------------------


class Nodes(Steady):
    """Steady nodes, some of which sleep, receive a signal or call a model, as *salt* and their name decide."""

    def __init__(self, graph: Graph, world: World, salt: int, agent: Any) -> None:
        super().__init__(graph, world)
        self.salt = salt
        self.agent = agent

    def inside(self, node: Node) -> Nodes:
        assert node.child is not None
        return Nodes(node.child, self.world, self.salt, self.agent)

    def outcome(self, node: Node, visit: int, state: Any, ctx: Context | None) -> Any:
        habit = zlib.crc32(f"{self.salt}/{node.name}".encode()) % 12
        if ctx is not None and habit == 0:
            ctx.sleep(5 if self.salt % 2 else 50)
        elif ctx is not None and habit == 1:
            ctx.receive("go", timeout_s=100, default=0)
        elif ctx is not None and habit in (2, 3):
            self.agent.run_sync(f"{node.name} {ctx.step}")
        return super().outcome(node, visit, state, ctx)


class Player:
    """One scenario: a graph, and a thread that is driven until it ends, with edits, forks and cancellations between."""

    def __init__(self, number: int, graph: Graph, salt: int, folder: str) -> None:
        self.graph = graph
        self.chance = random.Random(salt)
        self.now = START_S
        self.world = World()
        self.aio = number % 3 == 1
        self.seen: list[Any] = []
        nodes = Nodes(graph, self.world, salt, Agent(FunctionModel(lambda request: f"said {len(str(request))}")))
        numbers = itertools.count(1)
        asking = "interrupt" if salt % 2 else "stop"
        compiled = build(graph, nodes)
        self.runtime: Any = Runtime(
            compiled,
            store="memory:" if number % 2 else f"sqlite:///{folder}/{number}.db",
            clock=lambda: self.now,
            ids=lambda: f"id-{next(numbers)}",
            sleep=lambda _: None,
            seed=salt,
            chain=number % 4 != 2,
            check_state=number % 5 == 0,
            limits=Limits(max_concurrency=1),
            budget=Budget(calls=self.chance.randint(1, 4), on_exceeded=asking) if salt % 3 else None,
        )
        if self.chance.random() < 0.3:
            self.world.broken.add(self.chance.choice(graph.nodes).name)

    def play(self) -> dict[str, Any]:
        """Play the scenario; return what was seen."""
        with self.runtime:
            self.verb("run", {name: thaw(value) for name, value in self.graph.given}, thread="t")
            self.drive("t")
            for thread in self.forks("t"):
                self.drive(thread)
            threads = sorted(info.thread for info in self.runtime.threads())
            for thread in threads:
                self.verb("replay", thread)
            return {
                "verbs": self.seen,
                "entries": {thread: [one.to_dict() for one in self.runtime.entries(thread)] for thread in threads},
                "history": {thread: [self.shown(one) for one in self.runtime.history(thread)] for thread in threads},
            }

    def forks(self, thread: str) -> Iterator[str]:
        """Fork *thread* at one entry or two, with the effects after it or without."""
        for number in range(self.chance.randint(0, 2)):
            last = self.runtime.state(thread).seq
            at = self.chance.choice([None, *range(1, last + 1)])
            to = f"{thread}-{number}"
            if self.verb("fork", thread, at=at, to=to, keep_effects=self.chance.random() < 0.5):
                yield to

    def drive(self, thread: str) -> None:
        """Answer, go on, edit, cancel, until nothing is left or it was enough."""
        for _ in range(MOST_VERBS):
            self.now += 10
            snapshot = self.runtime.state(thread)
            if snapshot.status == "completed" and self.chance.random() < 0.6:
                return
            self.act(thread, snapshot)

    def act(self, thread: str, snapshot: Any) -> None:
        """Do one thing to the thread."""
        chance, given = self.chance, {name: thaw(value) for name, value in self.graph.given}
        dice = chance.random()
        if dice < 0.12:
            self.verb("update", thread, self.values())
        elif dice < 0.2:
            self.verb("update", thread, self.values(), as_node=chance.choice(self.graph.nodes).name)
        elif dice < 0.24:
            self.verb("cancel", thread)
        elif dice < 0.28:
            self.verb("run", given, thread=thread, if_exists="abandon")
        elif dice < 0.34 and any(one.kind == "signal" for one in snapshot.interrupts):
            self.verb("signal", thread, "go", chance.randint(0, 3), id=f"s{len(self.seen)}")
            self.verb("drive", thread)  # at once: a run that goes on looks for mail when the real time has come
        elif snapshot.status == "completed":
            self.verb("run", given, thread=thread)
        elif snapshot.status == "interrupted" and dice < 0.9:
            self.answer(thread, snapshot)
        elif snapshot.status == "interrupted":
            self.verb("retry", thread)
        else:
            self.world.broken.clear()
            self.verb("retry", thread)

    def answer(self, thread: str, snapshot: Any) -> None:
        """Answer the questions, or most of them; where only time or a signal is waited for, let time pass."""
        asked = [one for one in snapshot.interrupts if one.kind not in ("timer", "signal")]
        if not asked:
            self.now += 60
            self.verb("drive", thread)
            return
        answers = {one.id: self.reply(one) for one in asked if len(asked) == 1 or self.chance.random() < 0.9}
        self.verb("resume", thread, answers)

    def reply(self, asked: Any) -> Any:
        """The answer to a question: the same in each build."""
        if asked.kind == "budget":
            return {"calls": 2}
        if asked.kind == "effect":
            return "run"
        return zlib.crc32(asked.id.split("/", 1)[1].encode()) % 4

    def values(self) -> dict[str, Any]:
        """An edit of one field."""
        field = self.chance.choice(self.graph.fields)
        return {field.name: [self.chance.randint(0, 3)] if field.is_list else self.chance.randint(0, 3)}

    def verb(self, name: str, *args: Any, **options: Any) -> bool:
        """Use a verb; write down how it ended. Returns whether it did not raise."""
        twin: Callable[..., Any] | None = getattr(self.runtime, f"a{name}", None) if self.aio else None
        try:
            if twin is not None:
                asyncio.run(twin(*args, **options))
            else:
                getattr(self.runtime, name)(*args, **options)
        except GraphrtError as error:
            self.seen.append([name, type(error).__name__, error.code])
            return False
        known = [info.thread for info in self.runtime.threads()]
        thread = options.get("to") or options.get("thread") or args[0]
        self.seen.append([name, self.shown(self.runtime.state(thread)) if thread in known else None])
        return True

    def shown(self, snapshot: Any) -> list[Any]:
        """A snapshot as data."""
        asked = [(one.id, one.kind, one.stale, repr(one.payload)) for one in snapshot.interrupts]
        values = {} if snapshot.values is None else to_plain(self.graph, snapshot.values)
        return [snapshot.seq, snapshot.status, list(snapshot.next), asked, dict(sorted(values.items()))]


def play(pickled: str, out: str) -> None:
    """Play all scenarios in this process; write what was seen as JSON, one scenario a line."""
    scenarios = pickle.loads(Path(pickled).read_bytes())
    with tempfile.TemporaryDirectory() as folder, Path(out).open("w") as lines:
        players = (Player(number, graph, salt, folder) for number, (graph, salt) in enumerate(scenarios))
        lines.writelines(json.dumps(player.play()) + "\n" for player in players)


# comparing: in the calling process ------------------------------------------------------------------------------------


def descriptions(count: int, number: int) -> list[tuple[Graph, int]]:
    """*count* graphs with a salt each, the same for the same *number*."""
    found: list[tuple[Graph, int]] = []

    def collect(strategy: Any, wanted: int) -> None:
        @seed(number)
        @settings(
            max_examples=wanted,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(strategy)
        def draw(graph: Graph) -> None:
            found.append((graph, zlib.crc32(f"{number}/{len(found)}".encode())))

        draw()

    collect(lasting_graphs(once=True), count - count // 3)
    collect(graphs(fatal=True, mistakes=False), count // 3)
    return found


def base() -> str:
    """The folder of the older build: the wheel of `BASE`, unpacked; made on the first call."""
    folder = Path(tempfile.gettempdir()) / f"graphrt-oracle-{BASE}"
    if not (folder / "graphrt").exists():
        with tempfile.TemporaryDirectory() as made:
            archive = subprocess.run(["git", "archive", BASE], cwd=ROOT, capture_output=True, check=True)
            subprocess.run(["tar", "-x", "-C", made], input=archive.stdout, check=True)
            wheel = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", made, made]
            subprocess.run(wheel, check=True)
            with zipfile.ZipFile(next(Path(made).glob("*.whl"))) as packed:
                packed.extractall(folder)
    return str(folder)


def played(path: str, pickled: str, out: str) -> list[Any]:
    """What the build on *path* shows of the scenarios."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([path, str(ROOT)]), "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", "tests.oracle", "--play", pickled, out]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    return [json.loads(line) for line in Path(out).read_text().splitlines()]


def differences(old: Any, new: Any, where: str = "") -> Iterator[str]:
    """The first places at which *old* and *new* differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted({*old, *new}):
            yield from differences(old.get(name), new.get(name), f"{where}/{name}")
    elif isinstance(old, list) and isinstance(new, list):
        for at, (one, other) in enumerate(itertools.zip_longest(old, new)):
            yield from differences(one, other, f"{where}/{at}")
    elif old != new:
        yield f"{where}: {str(old)[:300]} -> {str(new)[:300]}"


def compare(count: int, number: int) -> int:
    """Play *count* graphs with both builds; print the differences, return how many scenarios differ."""
    with tempfile.TemporaryDirectory() as folder:
        pickled = f"{folder}/scenarios"
        scenarios = descriptions(count, number)
        Path(pickled).write_bytes(pickle.dumps(scenarios))
        with ThreadPoolExecutor(2) as pool:
            both = [(base(), "old"), (str(ROOT / "src"), "new")]
            old, new = pool.map(lambda build: played(build[0], pickled, f"{folder}/{build[1]}.json"), both)
    failed = entries = 0
    for at, (one, other) in enumerate(zip(old, new, strict=True)):
        for thread, found in one["entries"].items():
            one["entries"][thread] = mapped(found, other["entries"].get(thread, []))
            entries += len(found)
        if any(map(begins_anew, one["entries"].values())):
            one, other = ({"entries": seen["entries"]["t"]} for seen in (one, other))
        different = list(itertools.islice(differences(one, other), 5))
        failed += bool(different)
        if different and failed <= 5:
            report("\n  ".join([f"scenario {at} (salt {scenarios[at][1]}):", *different]))
    report(f"{len(old)} graphs, {entries} entries: {failed} graphs differ")
    return failed


def report(line: str) -> None:
    """Print a line of the result."""
    sys.stdout.write(f"{line}\n")


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--play", nargs=2, metavar=("PICKLED", "OUT"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.play:
        play(*args.play)
    elif compare(args.graphs, args.seed):
        sys.exit(1)


if __name__ == "__main__":
    main()
