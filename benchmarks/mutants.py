"""Mutation testing of the core: does a set of tests kill the same mutants as another set?

    python -m benchmarks.mutants cover --out cover.json                       which tests call which functions
    python -m benchmarks.mutants run --cover cover.json --out killed.json     300 seeded mutants, and what kills them
    python -m benchmarks.mutants again --cover cover.json --first killed.json --out again.json

`again` runs what `run` found on changed code or changed tests: a mutant is found by the qualified name of its function
and by its text, so that functions may move. Its killer runs first; if the killer is gone or fails to kill, the other
tests that call the function run. Needs Python 3.12, whose `sys.monitoring` records calls at little cost.

Each mutant runs in a fork of a process that has collected the tests: the code objects of its function are replaced in
every function that uses them. Programs that a test starts run the unchanged code, and such tests kill nothing here.
A test is one that passes on the unchanged code. A mutant survives if no test notices it within `--budget` seconds of
tests (by their recorded durations; tests in the room's own folder first, then the shortest).
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import gc
import hashlib
import json
import os
import random
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import pytest
from _pytest.runner import runtestprotocol

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "graphrt"
ROOMS = ("_engine", "_flows", "_journal", "_drivers", "stores")
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
}
OWN_TESTS = {
    "_engine": ("engine", "runtime"),
    "_flows": ("runtime", "drivers"),
    "_journal": ("journal", "threads"),
    "_drivers": ("drivers", "runtime"),
    "stores": ("stores",),
}
"""Folders of tests that run first for a mutant."""
TIMEOUT_S = 120
"""A mutant whose tests take longer hangs, and counts as killed."""


class Mutant(NamedTuple):
    """One change of one function."""

    room: str
    function: str
    """The qualified name of the outermost function: `Engine.report`."""
    kind: str
    text: str
    """The expression or statement that is changed, as `ast.unparse` writes it."""
    number: int
    """Which of several changes with the same function, kind and text, from 0."""


# ------------------------------------------------------------------------------------------------- finding mutants


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield the outermost functions of a module with their qualified names."""
    stack: list[tuple[str, ast.AST]] = [("", node) for node in tree.body]
    while stack:
        prefix, node = stack.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            stack.extend((f"{prefix}{node.name}.", child) for child in node.body)
        elif isinstance(node, ast.If | ast.Try):
            stack.extend((prefix, child) for child in ast.iter_child_nodes(node))


def changes(function: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Yield the mutable places of a function, with their changes."""
    for node in ast.walk(function):
        if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
            yield node, "compare"
        elif isinstance(node, ast.BoolOp):
            yield node, "boolean"
        elif isinstance(node, ast.BinOp) and type(node.op) in SWAPS:
            yield node, "arithmetic"
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield node, "not"
        elif isinstance(node, ast.Constant) and type(node.value) in {bool, int}:
            yield node, "constant"
        elif isinstance(node, ast.If):
            yield node, "if"
        elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
            yield node, "return"
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield node, "call"
        elif isinstance(node, ast.AugAssign):
            yield node, "assign"


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def text_of(node: ast.AST) -> str:
    return ast.unparse(node.test if isinstance(node, ast.If) else node)


def change(node: ast.AST) -> None:
    """Change a node that `changes` yields, in place."""
    if isinstance(node, ast.Compare):
        node.ops[0] = SWAPS[type(node.ops[0])]()
    elif isinstance(node, ast.BoolOp | ast.BinOp):
        node.op = SWAPS[type(node.op)]()
    elif isinstance(node, ast.UnaryOp):
        node.op, node.operand = ast.Not(), ast.UnaryOp(ast.Not(), node.operand)
    elif isinstance(node, ast.Constant):
        node.value = not node.value if isinstance(node.value, bool) else int(node.value) + 1  # type: ignore[call-overload]
    elif isinstance(node, ast.If):
        node.test = ast.UnaryOp(ast.Not(), node.test)
    elif isinstance(node, ast.Return | ast.Expr):
        node.value = ast.Constant(None)
    elif isinstance(node, ast.AugAssign):
        node.op = SWAPS.get(type(node.op), ast.Sub)()


class Source:
    """The functions of the packages in their current form."""

    def __init__(self) -> None:
        self.trees: dict[Path, ast.Module] = {}
        self.places: dict[str, list[tuple[Path, str]]] = defaultdict(list)  # files by room and function
        for room in ROOMS:
            for path in sorted((PACKAGE / room).rglob("*.py")):
                self.trees[path] = ast.parse(path.read_text(encoding="utf-8"))
                for name, _ in functions(self.trees[path]):
                    self.places[name].append((path, room))

    def mutants(self) -> list[Mutant]:
        found: list[Mutant] = []
        for path, tree in self.trees.items():
            room = path.relative_to(PACKAGE).parts[0]
            for name, function in functions(tree):
                counts: dict[tuple[str, str], int] = defaultdict(int)
                for node, kind in changes(function):
                    key = (kind, text_of(node))
                    found.append(Mutant(room, name, kind, key[1], counts[key]))
                    counts[key] += 1
        return sorted(set(found))

    def codes(self, mutant: Mutant) -> list[tuple[Path, str, CodeType, CodeType]]:
        """The files with this mutant: path, function, and its code before and after."""
        pairs = []
        for path, _ in self.places.get(mutant.function, ()):
            before = compile(self.trees[path], str(path), "exec")
            tree = copy.deepcopy(self.trees[path])
            function = dict(functions(tree))[mutant.function]
            nodes = [node for node, kind in changes(function) if kind == mutant.kind and text_of(node) == mutant.text]
            if mutant.number >= len(nodes):
                continue
            change(nodes[mutant.number])
            try:
                after = compile(ast.fix_missing_locations(tree), str(path), "exec")
            except SyntaxError:
                continue
            old, new = code_named(before, mutant.function), code_named(after, mutant.function)
            if old is not None and new is not None and old.co_freevars == new.co_freevars and old != new:
                pairs.append((path, mutant.function, old, new))
        return pairs


def code_named(code: CodeType, name: str) -> CodeType | None:
    for const in code.co_consts:
        if isinstance(const, CodeType):
            if const.co_qualname == name:
                return const
            if name.startswith(f"{const.co_qualname}.") and (inner := code_named(const, name)):
                return inner
    return None


def apply(pairs: list[tuple[Path, str, CodeType, CodeType]]) -> int:
    """Replace the code of each of these functions; return their number."""
    gc.unfreeze()
    wanted = {(str(path), name): new for path, name, _, new in pairs}
    count = 0
    for item in gc.get_objects():
        if type(item) is FunctionType:
            new = wanted.get((item.__code__.co_filename, item.__code__.co_qualname))
            if new is not None and item.__code__.co_freevars == new.co_freevars:
                item.__code__ = new
                count += 1
    return count


# ----------------------------------------------------------------------------------------------------- which tests


class Cover:
    """Records which functions of the packages each test calls, its duration, and whether it passes."""

    def __init__(self, shard: str) -> None:
        self.shard = shard
        self.tests: dict[str, Any] = {}
        self._called: set[str] = set()
        self._passed = True
        self._folders = tuple(f"{PACKAGE / room}{os.sep}" for room in ROOMS)

    def _start(self, code: CodeType, _: int) -> Any:
        if code.co_filename.startswith(self._folders):
            self._called.add(code.co_qualname.partition(".<locals>")[0])
        return sys.monitoring.DISABLE

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = of_shard(items, self.shard)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        monitoring: Any = sys.monitoring
        if monitoring.get_tool(4) is None:
            monitoring.use_tool_id(4, "graphrt-mutants")
            monitoring.register_callback(4, monitoring.events.PY_START, self._start)
            monitoring.set_events(4, monitoring.events.PY_START)
        self._called, self._passed = set(), True
        monitoring.restart_events()
        start = time.process_time()
        yield
        if self._passed:
            self.tests[item.nodeid] = [round(time.process_time() - start, 3), sorted(self._called)]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._passed = self._passed and report.outcome == "passed"


def of_shard(items: list[pytest.Item], shard: str) -> list[pytest.Item]:
    """The tests of the files that belong to a shard such as 0/2."""
    number, count = (int(part) for part in shard.split("/"))
    digest = {item.path: int(hashlib.sha256(item.path.name.encode()).hexdigest(), 16) for item in items}
    return [item for item in items if digest[item.path] % count == number]


# ----------------------------------------------------------------------------------------------------- the mutants


class Hunt:
    """Runs each mutant in a fork: the tests that may kill it, until one does."""

    def __init__(self, mutants: list[Mutant], cover: dict[str, Any], options: argparse.Namespace) -> None:
        self.mutants, self.cover, self.options = mutants, cover, options
        self.first: dict[str, Any] = json.loads(Path(options.first).read_text()) if options.first else {}
        self.results: dict[str, Any] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        by_function: dict[str, list[str]] = defaultdict(list)
        for nodeid, (_, called) in self.cover.items():
            if nodeid in items:
                for name in called:
                    by_function[name].append(nodeid)
        source = Source()
        number, count = (int(part) for part in self.options.shard.split("/"))
        for place, mutant in enumerate(self.mutants):
            if place % count == number:
                self._one(mutant, source, items, by_function)
                self._write()
        return True

    def _one(self, mutant: Mutant, source: Source, items: dict[str, pytest.Item], tests: dict[str, list[str]]) -> None:
        key = json.dumps(mutant)
        before = self.first.get(key)
        if before is not None and before["result"] != "killed":
            return
        pairs = source.codes(mutant)
        if not pairs:
            self.results[key] = {"result": "gone"}
            return
        order = self._order(mutant, tests.get(mutant.function, []))
        if before is not None and before["by"] in items:
            order = [before["by"], *(name for name in order if name != before["by"])]
        result = self._fork(pairs, [items[name] for name in order]) if order else {"result": "survived", "by": None}
        self.results[key] = {**result, "tests": len(order)}
        print(f"{result['result']:9} {mutant.room}/{mutant.function}: {mutant.kind} {mutant.text[:60]!r}", flush=True)

    def _order(self, mutant: Mutant, names: list[str]) -> list[str]:
        own = tuple(f"tests/{folder}/" for folder in OWN_TESTS[mutant.room])
        ranked = sorted(names, key=lambda name: (not name.startswith(own), self.cover[name][0], name))
        chosen, spent = [], 0.0
        for name in ranked:
            spent += self.cover[name][0] + 0.005
            if spent > self.options.budget:
                break
            chosen.append(name)
        return chosen

    def _fork(self, pairs: list[tuple[Path, str, CodeType, CodeType]], items: list[pytest.Item]) -> dict[str, Any]:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.setsid()
            os.close(reader)
            text = b""
            try:
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, 1)
                os.dup2(null, 2)
                apply(pairs)
                for place, item in enumerate(items):
                    following = items[place + 1] if place + 1 < len(items) else None
                    reports = runtestprotocol(item, log=False, nextitem=following)
                    if any(report.failed for report in reports):
                        text = item.nodeid.encode()
                        break
                else:
                    text = b"-"
            except BaseException as error:  # noqa: BLE001 - a mutant may raise anything through pytest itself
                text = f"! {type(error).__name__}".encode()
            os.write(writer, text)
            os._exit(0)
        os.close(writer)
        return _verdict(reader, child, items)

    def _write(self) -> None:
        Path(self.options.out).write_text(json.dumps(self.results, indent=1), encoding="utf-8")


def _verdict(reader: int, child: int, items: list[pytest.Item]) -> dict[str, Any]:
    """Read the output of a child for at most `TIMEOUT_S`, and end it with all its subprocesses."""
    deadline = time.monotonic() + TIMEOUT_S
    os.set_blocking(reader, False)
    text: bytes | None = None
    while time.monotonic() < deadline and text is None:
        try:
            text = os.read(reader, 4096)
        except BlockingIOError:
            time.sleep(0.01)
    os.close(reader)
    for kill in (lambda: os.killpg(child, signal.SIGKILL), lambda: os.kill(child, signal.SIGKILL)):
        with contextlib.suppress(ProcessLookupError):
            kill()
    os.waitpid(child, 0)
    if text is None:
        return {"result": "killed", "by": items[0].nodeid, "how": "timeout"}
    if text == b"-":
        return {"result": "survived", "by": None}
    name = text.decode()
    return {
        "result": "killed",
        "by": name if "::" in name else items[0].nodeid,
        "how": "" if "::" in name else name or "died",
    }


# ------------------------------------------------------------------------------------------------------------ main


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["cover", "run", "again", "show"])
    parser.add_argument("--cover", nargs="*", default=[])
    parser.add_argument("--first", default="")
    parser.add_argument("--out", default="mutants.json")
    parser.add_argument("--seed", type=int, default=31)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--budget", type=float, default=20.0, help="seconds of tests that a mutant may survive")
    parser.add_argument("--shard", default="0/1")
    options, rest = parser.parse_known_args()
    if options.what == "show":
        results = json.loads(Path(options.out).read_text())
        for result in ("killed", "survived", "gone"):
            print(result, sum(entry["result"] == result for entry in results.values()))
        return
    common = ["-q", "-p", "no:randomly", "-p", "no:xdist", "-p", "no:cacheprovider", "-p", "no:faulthandler", *rest]
    if options.what == "cover":
        cover = Cover(options.shard)
        pytest.main(common, plugins=[cover])
        Path(options.out).write_text(json.dumps(cover.tests), encoding="utf-8")
        return
    covers: dict[str, Any] = {}
    for name in options.cover:
        covers.update(json.loads(Path(name).read_text()))
    if options.what == "run":
        mutants = chosen(options)
    else:
        mutants = [Mutant(*json.loads(key)) for key in json.loads(Path(options.first).read_text())]
    pytest.main(common, plugins=[Hunt(mutants, covers, options)])


def chosen(options: argparse.Namespace) -> list[Mutant]:
    """The fixed, seeded set: mutants that compile to different code, evenly over all packages."""
    source = Source()
    every = source.mutants()
    random.Random(options.seed).shuffle(every)
    mutants: list[Mutant] = []
    for mutant in every:
        if len(mutants) == options.count:
            break
        if source.codes(mutant):
            mutants.append(mutant)
    return mutants


if __name__ == "__main__":
    main()
