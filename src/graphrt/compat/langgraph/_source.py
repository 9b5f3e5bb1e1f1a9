"""Analysis of the source of a node, a router or a reducer: its possible results, as far as they are literal.

Source is parsed and never run. Names are looked up among the locals of the function, then in its closure, its module
and the builtins; only constants, Enum members and a few classes of LangGraph are used from there.

    NodeSource
    └── results     Result      one for each value that a `return` can have: keys written, gotos, Sends, labels

A `Result` is *open* where the source does not determine everything: a call, a comprehension, a parameter. Rules use
    what is known, and mark findings that depend on open results.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import enum
import functools
import inspect
import linecache
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import typing_extensions as te
from langgraph.types import Command, Send, interrupt
from pydantic import BaseModel

from graphrt.compat.langgraph._read import plain_function

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_UNKNOWN: Final = object()
_DEPTH: Final = 12
"""Maximum number of assignments that are followed from a `return`."""


@dataclass(slots=True)
class Result:
    """One value that a function can return."""

    line: int
    keys: dict[str, ast.expr] = field(default_factory=dict[str, ast.expr])
    """Constant keys of an update, each with the expression of its value."""
    open_keys: bool = False
    """Whether it may also write other keys."""
    whole_state: bool = False
    """Whether it is the state that the function received, or has all its keys."""
    gotos: dict[str, int] = field(default_factory=dict[str, int])
    """Names that a Command goes to in its own graph, including END, each with its line."""
    open_gotos: bool = False
    """Whether a Command may go to other nodes."""
    parent_gotos: dict[str, int] = field(default_factory=dict[str, int])
    """The targets of Commands to the parent graph."""
    open_parent: bool = False
    sends: dict[str, int] = field(default_factory=dict[str, int])
    """Nodes that Sends start, each with its line."""
    many_sends: frozenset[str] = frozenset()
    """Those of *sends* that a comprehension or several Sends start."""
    open_sends: bool = False
    labels: dict[Any, int] = field(default_factory=dict[Any, int])
    """Constants that a router returns, alone or in a list."""
    open_labels: bool = False
    is_list: bool = False
    grows: bool = False
    """Whether it is a list whose elements are added later, possibly only some of them, or one of several lists."""
    nothing: bool = False
    """Whether it is None."""
    implicit: bool = False
    """Whether it is None because the end of the function looks reachable. It may be unreachable in fact."""
    is_command: bool = False


@dataclass(slots=True)
class Source:
    """The analysis of the source of one function."""

    file: str
    line: int
    node: _Function
    results: list[Result]
    """1..n results; one with `nothing` if the end of the function can be reached."""
    changes: list[tuple[int, str, str]]
    """In-place changes of the state: line, key and how; the key is empty for the state as a whole."""
    uses: frozenset[str]
    """Keys of all `state["k"]` that are read."""
    reads: dict[str, int]
    """Keys of `state["k"]`, each with its first line, unless the key is tested with `in` or assigned."""
    caught_interrupts: list[tuple[int, int]]
    """Calls in a `try` whose handler catches the pause: line of the call, and of the handler."""


def source_of(function: Any) -> Source | None:
    """Return the analysis of a function's source; None if there is no source, or the function is a generator."""
    plain = plain_function(function)
    if not inspect.isfunction(plain):
        return None
    node = function_node(plain)
    if node is None or any(isinstance(child, (ast.Yield, ast.YieldFrom)) for child in own(node)):
        return None
    names = _Names(plain, node, skip=_bound_arguments(function, node))
    return Source(
        file=plain.__code__.co_filename,
        line=plain.__code__.co_firstlineno,
        node=node,
        results=list(_results(node, names)),
        changes=list(_changes(node, names)),
        uses=frozenset(_uses(node, names)),
        reads=_reads(node, names),
        caught_interrupts=list(_caught(node, names)),
    )


def _bound_arguments(function: Any, node: _Function) -> int:
    """Return the number of leading parameters that are bound: the object of a method, and arguments of partials."""
    bound = 0
    while isinstance(function, functools.partial):
        bound += len(function.args)
        function = function.func
    arguments = [*node.args.posonlyargs, *node.args.args]
    is_plain = inspect.isfunction(function)
    return bound + int(not is_plain and bool(arguments) and arguments[0].arg in ("self", "cls"))


_TREES: dict[str, tuple[int, list[_Function]]] = {}
"""By file: the number of its lines, and its functions."""


def function_node(function: Any) -> _Function | None:
    """Return the syntax tree of a function; None if its file cannot be read or has changed since it was compiled."""
    code: types.CodeType = function.__code__
    candidates = [node for node in _functions(code.co_filename) if _is_of(node, code)]
    if len(candidates) > 1:  # several lambdas on one line
        columns = [at for at in code.co_positions() if at[0] is not None and at[2]]
        candidates = [node for node in candidates if _holds(node, columns)]
    return candidates[0] if len(candidates) == 1 else None


def _functions(file: str) -> list[_Function]:
    lines = linecache.getlines(file)
    known = _TREES.get(file)
    if known is None or known[0] != len(lines):
        try:
            tree = ast.parse("".join(lines))
        except (SyntaxError, ValueError, RecursionError):
            return []
        nodes = [
            node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        ]
        known = _TREES[file] = len(lines), nodes
    return known[1]


def _is_of(node: _Function, code: types.CodeType) -> bool:
    if isinstance(node, ast.Lambda):
        return code.co_name == "<lambda>" and node.lineno == code.co_firstlineno
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return code.co_name == node.name and first == code.co_firstlineno


def _holds(node: _Function, columns: list[Any]) -> bool:
    body = node.body
    if isinstance(body, list):
        return True
    begin, end = (body.lineno, body.col_offset), (body.end_lineno or 0, body.end_col_offset or 0)
    return all(
        begin <= (line, column) and (last or line, until or column) <= end for line, last, column, until in columns
    )


def own(node: _Function) -> Iterator[ast.AST]:
    """Yield the syntax nodes of a function's own body, without those of nested functions and classes."""
    body: list[Any] = node.body if isinstance(node.body, list) else [node.body]
    work: list[ast.AST] = list(reversed(body))
    while work:
        current = work.pop()
        yield current
        if not isinstance(current, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            work.extend(reversed(list(ast.iter_child_nodes(current))))


def _parts(statement: ast.If) -> list[ast.If]:
    """Return an `if` and its `elif`s."""
    parts = [statement]
    while len(parts[-1].orelse) == 1 and isinstance(parts[-1].orelse[0], ast.If):
        parts.append(parts[-1].orelse[0])
    return parts


def _lists_values(statement: ast.If) -> bool:
    """Return whether an `if` compares a value with several constants, which are assumed to be all its values."""
    parts = _parts(statement)
    tests = [part.test for part in parts]
    same = {ast.dump(test.left) for test in tests if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq)}
    return (
        len(parts) > 1
        and not parts[-1].orelse
        and len(same) == 1
        and all(isinstance(test, ast.Compare) for test in tests)
    )


def ends(body: list[ast.stmt]) -> bool:
    """Return whether control never reaches the end of *body*, because all paths return or raise."""
    for statement in body:
        if isinstance(statement, (ast.Return, ast.Raise)):
            return True
        if isinstance(statement, ast.If) and statement.orelse and ends(statement.body) and ends(statement.orelse):
            return True
        if (
            isinstance(statement, ast.If)
            and _lists_values(statement)
            and all(ends(part.body) for part in _parts(statement))
        ):
            return True
        if isinstance(statement, (ast.With, ast.AsyncWith)) and ends(statement.body):
            return True
        if isinstance(statement, ast.Try):
            tried = ends(statement.body) or (bool(statement.orelse) and ends(statement.orelse))
            if ends(statement.finalbody) or (tried and all(ends(handler.body) for handler in statement.handlers)):
                return True
        if isinstance(statement, ast.Match):
            last = statement.cases[-1]
            covers = last.guard is None and isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None
            if covers and all(ends(case.body) for case in statement.cases):
                return True
        if isinstance(statement, ast.While) and isinstance(statement.test, ast.Constant) and statement.test.value:
            inside = [node for each in statement.body for node in ast.walk(each)]
            if not any(isinstance(node, ast.Break) for node in inside):
                return True
    return False


_LOOPS: Final = ast.For, ast.AsyncFor, ast.While
_NAMING: Final = ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef
"""Syntax that binds a name to a value that the analysis does not follow."""


class _Names:
    """The meaning of a function's names."""

    def __init__(self, function: types.FunctionType, node: _Function, *, skip: int = 0) -> None:
        self.globals: Mapping[str, Any] = function.__globals__
        self.closure: dict[str, Any] = {}
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
            try:
                self.closure[name] = cell.cell_contents
            except ValueError:  # not assigned yet
                self.closure[name] = _UNKNOWN
        args = node.args
        positional = [*args.posonlyargs, *args.args]
        self.parameters = {
            argument.arg
            for argument in (*positional, *args.kwonlyargs, args.vararg, args.kwarg)
            if argument is not None
        }
        self.state = positional[skip].arg if len(positional) > skip else ""
        self.assigned: dict[str, list[ast.expr | None]] = {}
        """By local name, the expressions that it is assigned; None for one that cannot be followed."""
        self.added: dict[str, list[tuple[str | None, ast.expr]]] = {}
        """By local name, `name[key] = value` and `name.update({...})`; the key None for one that is not a constant."""
        self.appended: dict[str, list[tuple[ast.expr, bool]]] = {}
        """By local name, what `append`, `extend` and `+=` add, and whether they do so inside a loop."""
        self.passed: set[str] = set()
        """Local names that are arguments of calls, which may change their values."""
        for child in own(node):
            self._look(child)
        looped = {inner for child in own(node) if isinstance(child, _LOOPS) for inner in ast.walk(child)}
        for child in own(node):
            self._grow(child, in_loop=child in looped)

    def _grow(self, node: ast.AST, *, in_loop: bool) -> None:
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and isinstance(node.op, ast.Add):
            self.appended.setdefault(node.target.id, []).append((node.value, in_loop))
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
            return
        if isinstance(node.func.value, ast.Name) and node.func.attr in ("append", "extend", "insert", "add"):
            self.appended.setdefault(node.func.value.id, []).append((node.args[-1], in_loop))

    def _look(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(target, node.value)
        elif (isinstance(node, ast.AnnAssign) and node.value is not None) or isinstance(node, ast.NamedExpr):
            self._assign(node.target, node.value)
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)) or (
            isinstance(node, ast.AugAssign) and not isinstance(node.op, ast.Add)
        ):
            self._assign(node.target, None)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                if item.optional_vars is not None:
                    self._assign(item.optional_vars, None)
        elif isinstance(node, _NAMING):
            self.assigned.setdefault(node.name or "", []).append(None)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            self._imported(node)
        elif isinstance(node, ast.Call):
            self._called(node)

    def _imported(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.split(".")[0]
            if name not in ("Command", "Send", "interrupt", "END", "START"):  # imported late, so recognised by name
                self.assigned.setdefault(name, []).append(None)

    def _called(self, node: ast.Call) -> None:
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr == "update" and isinstance(func.value, ast.Name):
            added = self.added.setdefault(func.value.id, [])
            for argument in node.args:
                keys: list[ast.expr | None] = argument.keys if isinstance(argument, ast.Dict) else [None]
                values = argument.values if isinstance(argument, ast.Dict) else [argument]
                added += [(_text(key), value) for key, value in zip(keys, values, strict=True)]
            added += [(keyword.arg, keyword.value) for keyword in node.keywords]
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            if isinstance(argument, ast.Name):
                self.passed.add(argument.id)

    def _assign(self, target: ast.expr, value: ast.expr | None) -> None:
        if isinstance(target, ast.Name):
            self.assigned.setdefault(target.id, []).append(value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for element in target.elts:
                self._assign(element, None)
        elif isinstance(target, ast.Starred):
            self._assign(target.value, None)
        elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) and value is not None:
            self.added.setdefault(target.value.id, []).append((_text(target.slice), value))

    def is_local(self, name: str) -> bool:
        """Return whether the function itself binds the name."""
        return name in self.assigned or name in self.parameters

    def object(self, expr: ast.expr) -> Any:
        """Return the object that a (dotted) name refers to outside the function; `_UNKNOWN` if it is not found."""
        if isinstance(expr, ast.Name):
            if self.is_local(expr.id):
                return _UNKNOWN
            for place in (self.closure, self.globals, vars(builtins)):
                if expr.id in place:
                    return place[expr.id]
            return {
                "Command": Command,
                "Send": Send,
                "interrupt": interrupt,
                "END": "__end__",
                "START": "__start__",
            }.get(expr.id, _UNKNOWN)
        if isinstance(expr, ast.Attribute):
            base = self.object(expr.value)
            if isinstance(base, (types.ModuleType, enum.EnumMeta)):  # this lookup runs no code
                return (
                    vars(base).get(expr.attr, _UNKNOWN)
                    if isinstance(base, types.ModuleType)
                    else _member(base, expr.attr)
                )
            if base is Command and expr.attr == "PARENT":
                return Command.PARENT
            if isinstance(base, enum.Enum) and expr.attr in ("value", "name"):
                return base.value if expr.attr == "value" else base.name
        if isinstance(expr, ast.Subscript):  # Command[Literal["a"]](goto=...)
            return self.object(expr.value)
        return _UNKNOWN

    def is_(self, expr: ast.expr, wanted: Any) -> bool:
        """Return whether an expression refers to *wanted*."""
        return self.object(expr) is wanted

    def values(self, expr: ast.expr | None, depth: int = 0) -> tuple[list[tuple[Any, int]], bool]:
        """Return the constants that an expression can be, each with its line, and whether it can be anything else."""
        if expr is None or depth > _DEPTH:
            return [], True
        if isinstance(expr, ast.Constant):
            return [(expr.value, expr.lineno)], False
        if isinstance(expr, (ast.IfExp, ast.BoolOp, ast.NamedExpr)):
            if isinstance(expr, ast.BoolOp):
                return self._joined(expr.values, depth)
            return self._joined([expr.body, expr.orelse] if isinstance(expr, ast.IfExp) else [expr.value], depth)
        if isinstance(expr, ast.Name) and self.is_local(expr.id):
            if expr.id in self.parameters or not self.assigned.get(expr.id):
                return [], True
            return self._joined(self.assigned[expr.id], depth)
        constant = self.object(expr)
        if isinstance(constant, enum.Enum) and isinstance(constant, str):
            constant = str(constant.value)
        if isinstance(constant, (str, int, bool, float, enum.Enum, type(None))):
            return [(constant, expr.lineno)], False
        return [], True

    def _joined(self, exprs: list[Any], depth: int) -> tuple[list[tuple[Any, int]], bool]:
        values: list[tuple[Any, int]] = []
        is_open = False
        for expr in exprs:
            constants, more = self.values(expr, depth + 1)
            values += constants
            is_open = is_open or more
        return values, is_open


def _member(base: enum.EnumMeta, name: str) -> Any:
    members: Mapping[str, Any] = base.__members__
    return members.get(name, _UNKNOWN)


def _text(expr: ast.expr | None) -> str | None:
    return expr.value if isinstance(expr, ast.Constant) and isinstance(expr.value, str) else None


def _results(node: _Function, names: _Names) -> Iterator[Result]:
    if isinstance(node, ast.Lambda):
        yield from _of(node.body, names)
        return
    for child in own(node):
        if isinstance(child, ast.Return):
            if child.value is None:
                yield Result(line=child.lineno, nothing=True)
            else:
                yield from _of(child.value, names)
    if not ends(node.body):
        yield Result(line=node.lineno, nothing=True, implicit=True)


def _of(expr: ast.expr, names: _Names, depth: int = 0) -> Iterator[Result]:
    """Yield the possible results of an expression: one per path through conditional expressions and assignments."""
    if depth > _DEPTH:
        yield _open(expr.lineno)
    elif isinstance(expr, ast.IfExp):
        yield from _of(expr.body, names, depth + 1)
        yield from _of(expr.orelse, names, depth + 1)
    elif isinstance(expr, ast.BoolOp):
        for operand in expr.values:
            yield from _of(operand, names, depth + 1)
    elif isinstance(expr, ast.NamedExpr):
        yield from _of(expr.value, names, depth + 1)
    elif isinstance(expr, ast.Name) and names.assigned.get(expr.id):
        for result in [
            possible for value in names.assigned[expr.id] for possible in _assigned(value, expr, names, depth)
        ]:
            _extend(result, expr.id, names)
            _append(result, expr.id, names, depth)
            yield result
    else:
        result = Result(line=expr.lineno)
        _fill(result, expr, names, depth)
        if isinstance(expr, ast.Name) and expr.id == names.state:
            _extend(result, expr.id, names)
        yield result


def _assigned(value: ast.expr | None, expr: ast.expr, names: _Names, depth: int) -> Iterator[Result]:
    if value is None:
        yield _open(expr.lineno)
    else:
        yield from _of(value, names, depth + 1)


def _open(line: int) -> Result:
    return Result(line=line, open_keys=True, open_gotos=True, open_sends=True, open_labels=True, open_parent=True)


def _extend(result: Result, name: str, names: _Names) -> None:
    """Add keys that are assigned to the local name later."""
    for key, value in names.added.get(name, ()):
        if key is None:
            result.open_keys = True
        else:
            result.keys.setdefault(key, value)
    if name in names.passed and name != names.state and not result.is_command:
        result.open_keys = True


def _append(result: Result, name: str, names: _Names, depth: int) -> None:
    """Add elements that are appended to the local name later."""
    for value, in_loop in names.appended.get(name, ()):
        result.is_list = result.grows = True
        before = set(result.sends)
        _element(result, value, names, depth)
        if in_loop:
            result.many_sends |= frozenset(result.sends) - before


def _fill(result: Result, expr: ast.expr, names: _Names, depth: int) -> None:
    """Record one expression without alternatives in *result*."""
    if isinstance(expr, ast.Constant) and expr.value is None:
        result.nothing = True
        result.labels.setdefault(None, expr.lineno)
    elif isinstance(expr, ast.Name) and expr.id == names.state:
        result.whole_state = True
        result.open_labels = True
    elif isinstance(expr, ast.Dict):
        _dict(result, expr, names)
        result.open_labels = True
    elif isinstance(expr, (ast.List, ast.Tuple, ast.Set)):
        result.is_list = True
        for element in expr.elts:
            _element(result, element, names, depth)
    elif isinstance(expr, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
        result.is_list = True
        before = set(result.sends)
        _element(result, expr.elt, names, depth)
        result.many_sends |= frozenset(result.sends) - before
    elif isinstance(expr, ast.BinOp) and isinstance(expr.op, ast.Add):
        result.is_list = True
        _element(result, expr.left, names, depth)
        _element(result, expr.right, names, depth)
    elif isinstance(expr, ast.Call):
        _call(result, expr, names, depth)
    else:
        values, is_open = names.values(expr)
        for value, line in values:
            result.labels.setdefault(value, line)
        if is_open:
            _merge(result, _open(expr.lineno))


def _element(result: Result, expr: ast.expr, names: _Names, depth: int) -> None:
    """Record one element of a list."""
    if isinstance(expr, ast.Starred):
        expr = expr.value
    for possible in _of(expr, names, depth + 1):
        again = frozenset(possible.sends) & frozenset(result.sends)
        _merge(result, possible)
        result.many_sends |= again


def _merge(result: Result, other: Result) -> None:
    result.keys.update(other.keys)
    result.gotos.update(other.gotos)
    result.parent_gotos.update(other.parent_gotos)
    result.sends.update(other.sends)
    result.many_sends |= other.many_sends
    result.labels.update(other.labels)
    for flag in (
        "open_keys",
        "open_gotos",
        "open_parent",
        "open_sends",
        "open_labels",
        "whole_state",
        "is_command",
        "grows",
    ):
        setattr(result, flag, getattr(result, flag) or getattr(other, flag))


def _dict(result: Result, expr: ast.Dict, names: _Names) -> None:
    for key, value in zip(expr.keys, expr.values, strict=True):
        if key is None:  # **other
            if isinstance(value, ast.Name) and value.id == names.state:
                result.whole_state = True
            else:
                result.open_keys = True
            continue
        constants, is_open = names.values(key)
        for name, _ in constants:
            if isinstance(name, str):
                result.keys[name] = value
        result.open_keys = result.open_keys or is_open


def _call(result: Result, expr: ast.Call, names: _Names, depth: int) -> None:
    called = names.object(expr.func)
    keywords = {keyword.arg: keyword.value for keyword in expr.keywords if keyword.arg is not None}
    spread = any(keyword.arg is None for keyword in expr.keywords)
    if called is Command:
        result.is_command = True
        result.open_labels = True
        _command(result, keywords, names, depth, spread=spread)
    elif called is Send:
        target = expr.args[0] if expr.args else keywords.get("node")
        values, is_open = names.values(target)
        for value, line in values:
            result.sends.setdefault(str(value), line)
        result.open_sends = result.open_sends or is_open
    elif called is dict:
        state_arguments = [
            argument for argument in expr.args if isinstance(argument, ast.Name) and argument.id == names.state
        ]
        result.whole_state = bool(state_arguments)
        result.open_keys = spread or len(state_arguments) < len(expr.args)
        result.keys.update(keywords)
        result.open_labels = True
    elif _is_schema(called):
        result.keys.update(keywords)
        result.open_keys = spread or bool(expr.args)
        result.open_labels = True
    elif called in (list, tuple, set, sorted) and len(expr.args) == 1:
        result.is_list = True
        _element(result, expr.args[0], names, depth)
    elif _copies_state(expr, names):
        result.whole_state = True
        result.keys.update(keywords)
        result.open_labels = True
    else:
        _merge(result, _open(expr.lineno))


def _copies_state(expr: ast.Call, names: _Names) -> bool:
    """Return whether a call is `state.copy()` or `state.model_copy(...)`."""
    func = expr.func
    if not isinstance(func, ast.Attribute) or not isinstance(func.value, ast.Name):
        return False
    return func.value.id == names.state and func.attr == "copy" and not expr.args


def _is_schema(called: Any) -> bool:
    return inspect.isclass(called) and (
        te.is_typeddict(called) or issubclass(called, BaseModel) or dataclasses.is_dataclass(called)
    )


def _command(result: Result, keywords: Mapping[str, ast.expr], names: _Names, depth: int, *, spread: bool) -> None:
    graph, graph_open = names.values(keywords["graph"]) if "graph" in keywords else ([(None, 0)], False)
    to_parent = any(value == Command.PARENT for value, _ in graph)
    to_own = graph_open or any(value is None for value, _ in graph)
    goto = Result(line=result.line)
    if "goto" in keywords:
        alternatives = list(_of(keywords["goto"], names, depth + 1))
        for possible in alternatives:
            _merge(goto, possible)
        result.is_list = result.is_list or any(possible.is_list for possible in alternatives)
        result.grows = result.grows or goto.grows or (result.is_list and len(alternatives) > 1)
    texts = {str(label): line for label, line in goto.labels.items() if label is not None}
    if to_own:
        result.gotos.update(texts)
        result.sends.update(goto.sends)
        result.many_sends |= goto.many_sends
        result.open_gotos = result.open_gotos or goto.open_labels or spread
        result.open_sends = result.open_sends or goto.open_sends or spread
    if to_parent or graph_open:
        result.parent_gotos.update({**texts, **goto.sends})
        result.open_parent = result.open_parent or goto.open_labels or goto.open_sends or spread
    result.open_keys = result.open_keys or spread
    if "update" in keywords and to_own:
        for possible in _of(keywords["update"], names, depth + 1):
            result.keys.update(possible.keys)
            result.open_keys = result.open_keys or possible.open_keys
            result.whole_state = result.whole_state or possible.whole_state


CHANGING: Final = frozenset(
    ["append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse", "update", "add", "discard", "setdefault",
     "popitem", "__setitem__"]
)  # fmt: skip
"""Mutating methods of lists, sets and dicts."""


def _changes(node: _Function, names: _Names) -> Iterator[tuple[int, str, str]]:
    """Yield in-place changes of the state: `state["k"].append(x)`, `state["k"] = x`, `state.k += x`, `del state["k"]`."""
    if not names.state or names.state in names.assigned:
        return
    for child in own(node):
        for target in targets(child):
            key = _key_of(target, names)
            if key is not None:
                yield target.lineno, key, "del" if isinstance(child, ast.Delete) else "="
            elif isinstance(target, ast.Subscript):
                inner = _key_of(target.value, names)
                if inner is not None:
                    yield target.lineno, inner, "[...] ="
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Attribute) and child.func.attr in CHANGING:
            key = _key_of(child.func.value, names)
            if key is not None:
                yield child.lineno, key, f".{child.func.attr}()"


def targets(statement: ast.AST) -> list[ast.expr]:
    """Return the targets that a statement assigns to or deletes."""
    if isinstance(statement, (ast.Assign, ast.Delete)):
        return list(statement.targets)
    return [statement.target] if isinstance(statement, (ast.AugAssign, ast.AnnAssign)) else []


def _reads(node: _Function, names: _Names) -> dict[str, int]:
    """Return the keys of `state["k"]` in expressions, except keys that the function itself tests for or assigns."""
    if not names.state or names.state in names.assigned:
        return {}
    without = {key for key, _ in names.added.get(names.state, ()) if key is not None}
    if any(key is None for key, _ in names.added.get(names.state, ())):
        return {}
    for child in ast.walk(node):
        if isinstance(child, ast.Compare) and any(isinstance(op, (ast.In, ast.NotIn)) for op in child.ops):
            without.add(_text(child.left) or "")
        elif isinstance(child, ast.ExceptHandler):  # a KeyError may be expected
            return {}
    return {key: line for key, line in _uses(node, names).items() if key not in without}


def _uses(node: _Function, names: _Names) -> dict[str, int]:
    """Return the keys of `state["k"]` in expressions, each with its first line."""
    lines_by_key: dict[str, int] = {}
    for child in ast.walk(node):
        if isinstance(child, ast.Subscript) and isinstance(child.ctx, ast.Load):
            key = _key_of(child, names)
            if key is not None:
                lines_by_key.setdefault(key, child.lineno)
    return lines_by_key


def _key_of(expr: ast.expr, names: _Names) -> str | None:
    """Return the key of `state["k"]`, `state.k` or `state.get("k")`; None for anything else."""
    if isinstance(expr, ast.Subscript) and isinstance(expr.value, ast.Name) and expr.value.id == names.state:
        return _text(expr.slice)
    if isinstance(expr, ast.Attribute) and isinstance(expr.value, ast.Name) and expr.value.id == names.state:
        return expr.attr
    return None


def _caught(node: _Function, names: _Names) -> Iterator[tuple[int, int]]:
    """Yield calls of `interrupt` in a `try` whose first matching handler catches Exception and does not re-raise."""
    for child in own(node):
        if not isinstance(child, ast.Try):
            continue
        calls = [
            call.lineno
            for statement in child.body
            for call in ast.walk(statement)
            if isinstance(call, ast.Call) and names.is_(call.func, interrupt)
        ]
        for handler in child.handlers:
            kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
            caught = [None if kind is None else names.object(kind) for kind in kinds]
            if any(getattr(kind, "__name__", "").startswith("Graph") for kind in caught):
                break  # GraphInterrupt, GraphBubbleUp: handled on purpose
            if any(kind in (None, Exception, BaseException) for kind in caught):
                if not any(isinstance(inner, ast.Raise) for each in handler.body for inner in ast.walk(each)):
                    yield from ((line, handler.lineno) for line in calls)
                break


def mentions(function: Any, *words: str, depth: int = 2) -> bool:
    """Return whether a function uses one of these names, also in global functions that it calls, two levels deep."""
    seen: set[types.CodeType] = set()
    work: list[tuple[Any, int]] = [(function, 0)]
    while work:
        current, level = work.pop()
        plain = plain_function(current)
        if not inspect.isfunction(plain):
            continue
        codes = [plain.__code__]
        closure = dict(zip(plain.__code__.co_freevars, plain.__closure__ or (), strict=False))
        while codes:
            code = codes.pop()
            if code in seen:
                continue
            seen.add(code)
            codes += [const for const in code.co_consts if isinstance(const, types.CodeType)]
            if any(word in code.co_names or word in code.co_freevars for word in words):
                return True
            if level < depth:
                for name in (*code.co_names, *code.co_freevars):
                    value = plain.__globals__.get(name)
                    if name in closure:
                        try:
                            value = closure[name].cell_contents
                        except ValueError:
                            continue
                    if isinstance(value, types.FunctionType):
                        work.append((value, level + 1))
    return False
