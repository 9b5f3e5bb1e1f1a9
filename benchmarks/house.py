"""Measure the complexity of graphrt for a reader: sizes, the paths of three calls, and the cost of options.

    python -m benchmarks.house [sizes] [errors] [events] [walks] [cliffs]     from the root of the project; default: all

sizes   lines of code (without blanks, comments, docstrings) of each room under src and of tests; lines that are not
        blank of every other language
errors  declared texts of errors and the lines of their declarations, wherever they stand, by the syntax tree
events  rooms that name a class of events, with the modules that do: each should be a projection of entries
walks   calls, functions and files that one call of the public face crosses (sys.setprofile, this thread and others)
cliffs  processor time of a superstep of one plain sync node, by the options that a user may add

Times are ratios on this machine; run nothing beside it.
"""

from __future__ import annotations

import argparse
import ast
import io
import itertools
import sys
import tempfile
import threading
import time
import tokenize
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypedDict, get_args

from pydantic import BaseModel

import graphrt
import graphrt.events
from graphrt import END, START, Budget, GraphBuilder, Limits, RetryPolicy, Runtime
from graphrt.harness import Agent, ScriptedModel, ToolCall
from graphrt.reducers import add, append, ephemeral

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"


def code_lines(path: Path) -> tuple[int, int, int]:
    """Return the numbers of lines of code, docstrings and comments of a file."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    documentation: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                documentation.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    code: set[int] = set()
    comments: set[int] = set()
    skip = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments.add(token.start[0])
        elif token.type not in skip:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - documentation), len(documentation), len(comments)


def sizes() -> None:
    """Print the lines of each room, of every language, and of the tests."""
    rooms: dict[str, list[int]] = {}
    languages: dict[str, list[int]] = {}
    for path in sorted(path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        package, *parts = path.relative_to(SOURCE).parts
        if path.suffix != ".py":
            row = languages.setdefault(path.suffix.removeprefix(".") or "(none)", [0, 0])
            row[0] += 1
            row[1] += sum(bool(line.strip()) for line in path.read_bytes().splitlines())
            continue
        room = package if package != "graphrt" else parts[0] if len(parts) > 1 else "(single files)"
        row = rooms.setdefault(room, [0, 0, 0, 0])
        for place, count in enumerate((1, *code_lines(path))):
            row[place] += count
    print(f"{'room':16} {'files':>6} {'code':>7} {'docs':>7} {'comments':>9}")
    for room, row in sorted(rooms.items(), key=lambda item: -item[1][1]):
        print(f"{room:16} {row[0]:6} {row[1]:7} {row[2]:7} {row[3]:9}")
    print(f"{'all':16} {sum(r[0] for r in rooms.values()):6} {sum(r[1] for r in rooms.values()):7}")
    for language, row in sorted(languages.items()):
        print(f"{'.' + language:16} {row[0]:6} {row[1]:7}")
    tests = [code_lines(path)[0] for path in (ROOT / "tests").rglob("*.py")]
    print(f"{'tests':16} {len(tests):6} {sum(tests):7}")
    public = [name for name in dir(graphrt.Runtime) if not name.startswith("_")]
    print(f"names on Runtime {len(public)}, in graphrt {len(graphrt.__all__)}")


DECLARED = {"ErrorCode", "variant", "Finding"}


def errors() -> None:
    """Print the number of error texts declared under src, and the lines that their declarations take."""
    counts = dict.fromkeys(DECLARED, 0)
    lines: set[tuple[Path, int]] = set()
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            # Other packages have unrelated classes named Finding.
            if not (isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant)):
                continue
            if not isinstance(node.args[0].value, str):
                continue
            function = node.func
            name = (
                function.attr
                if isinstance(function, ast.Attribute)
                else function.id
                if isinstance(function, ast.Name)
                else ""
            )
            if name in DECLARED:
                counts[name] += 1
                lines.update((path, line) for line in range(node.lineno, (node.end_lineno or node.lineno) + 1))
    print(", ".join(f"{name} {counts[name]}" for name in sorted(counts)))
    print(f"texts {sum(counts.values())}, lines of declarations {len(lines)}")


def event_names() -> None:
    """Print the rooms outside `events` whose modules name a class of events, and how many classes each module names."""
    known = {kind.__name__ for kind in (*get_args(graphrt.events.Event), graphrt.events.StateSaved)}
    rooms: dict[str, list[str]] = {}
    for path in sorted((SOURCE / "graphrt").rglob("*.py")):
        parts = path.relative_to(SOURCE / "graphrt").parts
        if parts[0] == "events":
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("graphrt.events")
            for alias in node.names
        }
        named = {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "events"
        }
        if found := known & (imported | named):
            rooms.setdefault(parts[0] if len(parts) > 1 else "(single files)", []).append(f"{path.stem} {len(found)}")
    for room, modules in sorted(rooms.items(), key=lambda item: -len(item[1])):
        print(f"{room:16} {len(modules):3}  {', '.join(modules)}")
    print(f"{'rooms':16} {len(rooms):3}  modules {sum(map(len, rooms.values()))}")


class Walk:
    """Records the functions of graphrt that are called while it is open."""

    lists_files: ClassVar[bool] = False
    """Whether reports list each file with its functions, and the number of calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def __enter__(self) -> Self:
        threading.setprofile(self._see)
        sys.setprofile(self._see)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]  # None removes it

    def _see(self, frame: Any, event: str, _: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and "/src/graphrt/" in name:
            self.calls.append((name.split("/src/graphrt/")[1], frame.f_code.co_qualname))

    def report(self, name: str) -> None:
        files = {file for file, _ in self.calls}
        changes = sum(left[0] != right[0] for left, right in itertools.pairwise(self.calls))
        counts = f"functions {len(set(self.calls)):4}  files {len(files):4}  changes of file {changes:4}"
        print(f"{name:34} calls {len(self.calls):5}  {counts}")
        if self.lists_files:
            for file in sorted(files):
                functions = Counter(function for place, function in self.calls if place == file)
                print(f"    {file}: {', '.join(f'{function} {times}' for function, times in functions.items())}")


class State(BaseModel):
    notes: Annotated[list[str], append] = []


class Counted(TypedDict, total=False):
    turns: Annotated[int, add]
    limit: int


class Hinted(Counted, total=False):
    hint: Annotated[str, ephemeral]


def walks() -> None:
    def ask(state: State, ctx: Any) -> Any:
        return {"notes": [ctx.interrupt("ok?")]}

    def area(width: float, height: float) -> float:
        """The area."""
        return width * height

    async def talk(state: State, ctx: Any) -> Any:
        return {"notes": [(await ctx.harness.run("How large?")).text]}

    def line(**nodes: Any) -> Any:
        builder = GraphBuilder(State, name="line")
        for name, node in nodes.items():
            builder.add_node(name, node, **({"tools": ["area"]} if name == "talk" else {}))
        return builder.add_sequence([START, *nodes, END]).compile()

    plain = line(a=lambda state: {"notes": ["a"]}, b=lambda state: {"notes": ["b"]})
    plain.run({})
    with Walk() as walk:
        plain.run({})
    walk.report("run, two nodes, no store")
    list(plain.stream({}, modes="updates"))
    with Walk() as walk:
        list(plain.stream({}, modes="updates"))
    walk.report("stream of updates, two nodes")
    asks = line(a=ask, b=lambda state: {"notes": ["b"]})
    for store in ("memory:", f"sqlite:///{tempfile.mkdtemp()}/x.db"):
        with Runtime(asks, store=store) as runtime:
            for thread in ("warm", "t"):
                runtime.run({}, thread=thread)
            runtime.resume("warm", "yes")
            with Walk() as walk:
                runtime.resume("t", "yes")
            walk.report(f"resume, {store[:6].rstrip(':')}")

    def agent() -> Agent[Any]:
        return Agent(
            ScriptedModel([ToolCall(id="1", name="area", arguments={"width": 4, "height": 2.5}), "Ten."]), tools=[area]
        )

    talks = line(talk=talk)
    for thread in ("warm", "t"):
        runtime = Runtime(talks, store="memory:", harness=agent(), budget=Budget(calls=10))
        if thread == "warm":
            runtime.run({}, thread=thread)
            continue
        with Walk() as walk:
            runtime.run({}, thread=thread)
    walk.report("agent, one tool, budget, memory")


def cliffs() -> None:
    def loop(state: Any, node: Any, **policy: Any) -> Any:
        builder = GraphBuilder(state, name="loop")
        builder.add_node("turn", node, max_visits=None, **policy).add_edge(START, "turn")
        builder.add_conditional_edges("turn", lambda s: s["turns"] >= s["limit"], {True: END, False: "turn"})
        return builder.compile()

    steps = 3000
    wide = {"max_steps": 10**6, "max_visits": None}
    given = {"turns": 0, "limit": steps}

    def by_hand() -> None:
        turns, values = 0, {"turns": 0, "limit": steps}
        while turns < steps:
            values = {**values, "turns": values["turns"] + 1}
            turns = values["turns"]

    plain = loop(Counted, lambda state: {"turns": 1})
    hinted = loop(Hinted, lambda state: {"turns": 1})
    contexts = loop(Counted, lambda state, ctx: {"turns": 1})
    retried = loop(Counted, lambda state: {"turns": 1}, retry=RetryPolicy(attempts=3))
    rows: list[tuple[str, Any]] = [
        ("by hand", by_hand),
        ("plain node", lambda: plain.run(given, limits=Limits(**wide))),
        ("node with a Context", lambda: contexts.run(given, limits=Limits(**wide))),
        ("an ephemeral field", lambda: hinted.run(given, limits=Limits(**wide))),
        ("a retry policy", lambda: retried.run(given, limits=Limits(**wide))),
        ("check_state=True", lambda: plain.run(given, limits=Limits(**wide), check_state=True)),
        ("timeout_s", lambda: plain.run(given, limits=Limits(**wide, timeout_s=60))),
        ("deadline_s", lambda: plain.run(given, limits=Limits(**wide, deadline_s=600))),
        ("memory store", lambda: Runtime(plain, store="memory:", limits=Limits(**wide)).run(given)),
        ("memory store, ephemeral field", lambda: Runtime(hinted, store="memory:", limits=Limits(**wide)).run(given)),
        (
            "memory store, timeout_s",
            lambda: Runtime(plain, store="memory:", limits=Limits(**wide, timeout_s=60)).run(given),
        ),
    ]
    best = {name: min(_cost(run) for _ in range(5)) / steps * 1e6 for name, run in rows}
    for _ in range(4):  # alternating: the speed of a loaded machine changes within seconds
        for name, run in rows:
            best[name] = min(best[name], _cost(run) / steps * 1e6)
    for name, cost in best.items():
        print(f"{name:34} {cost:8.2f} us a step {cost / best['by hand']:6.0f} x by hand")


def _cost(run: Any) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


PARTS = {"sizes": sizes, "errors": errors, "events": event_names, "walks": walks, "cliffs": cliffs}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.house", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[*PARTS, "all"], default="all", help="default: all")
    parser.add_argument("--files", action="store_true", help="walks: list each file, and the calls of its functions")
    given = parser.parse_args()
    parts, Walk.lists_files = given.parts, given.files
    for name in PARTS if "all" in parts else parts:
        print(f"== {name}")
        PARTS[name]()


if __name__ == "__main__":
    main()
