"""A walk as the source text of a pytest test, which fails as long as the bug exists.

Values with a literal form are literals in the test: results of nodes, replies, answers. Other objects are imported if a
    module has them, and are fixtures otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, final

from graphrt.commands import END, Command, Send, node_name
from graphrt.testing.exploring.routes._alternatives import Graph, Label
from graphrt.testing.exploring.routes._walk import Walk
from graphrt.testing.written_tests import TestSource, home_of, plain, slug

BY_ITSELF: Final = frozenset(
    {
        "starved-join", "write-conflict", "over-budget", "bad-update", "wrong-route", "unset-field", "node-error",
        "agent-limit", "unanswerable-interrupt",
    }
)  # fmt: skip
"""Kinds of bugs that a single run reveals. Others need an explorer."""
_SCALARS: Final = (type(None), bool, int, float, str, bytes)


class _NoLiteral(Exception):  # noqa: N818 - not an error: it says that another form of test is needed
    """A value without a literal form."""


def as_test(kind: str, text: str, walk: Walk, graph: Graph, call: Mapping[str, Any]) -> str:
    """Return the source text of a test.

    Args:
        kind: Kind of the bug.
        text: Description of the bug; its first line becomes the docstring.
        walk: The shortest walk that shows it.
        graph: The explored graph.
        call: Further arguments of `explore_routes` that were given, by name. *path* is None if only the whole search
            shows the bug.
    """
    if kind in BY_ITSELF:
        try:
            return _Text(kind, text).by_itself(walk, graph, call.get("options"))
        except _NoLiteral:
            pass
    return _Text(kind, text).by_explorer(graph, call)


@final
class _Text:
    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind
        self.text = text.splitlines()[0]
        self._test = TestSource()
        self._use = self._test.use

    # -- the two forms -------------------------------------------------------------------------------------------

    def by_itself(self, walk: Walk, graph: Graph, options: Any) -> str:
        nodes: dict[str, list[str]] = {}
        models: dict[str, list[str]] = {}
        harness: list[str] = []
        answers: list[str] = []
        input_text = "{}"
        for choice in walk.made:
            value = choice.value if choice.result is None else choice.result
            if choice.kind == "input":
                input_text = self.source(value)
            elif choice.kind in {"node", "route"}:
                nodes.setdefault(choice.name, []).append(self.result(value))
            elif choice.kind == "answer":
                answers.append(self.source(value))
            else:
                (harness if choice.kind == "harness" else models.setdefault(choice.name, [])).append(self.source(value))
        name = self.named(graph, "graph")
        lines: list[str] = []
        if nodes:
            lines.append(f"    stubbed = {self._stubs(name, nodes)}")
            name = "stubbed"
        more = [f"limits={self._use('graphrt', 'Limits')}(max_concurrency=1)"]
        if models:
            scripts = ", ".join(f"{agent!r}: ScriptedModel([{', '.join(items)}])" for agent, items in models.items())
            self._use("graphrt.harness", "ScriptedModel")
            more.append(f"models={{{scripts}}}")
        if harness:
            more.append(f"harness={self._use('graphrt', 'MockHarness')}([{', '.join(harness)}])")
        if options is not None:
            more.append(f"**{self.named(options, 'options')}()")
        self._use("graphrt.testing", "record")
        lines.append(f"    run = record({name}, {input_text}, {', '.join(more)})")
        lines += [f"    run = run.resume({{run.interrupts[0].id: {answer}}})" for answer in answers]
        lines += ["", "    assert run.error is None, run.error", '    assert run.status == "completed"']
        return self._whole(lines)

    def by_explorer(self, graph: Graph, call: Mapping[str, Any]) -> str:
        self._use("graphrt.testing", "explore_routes")
        arguments = [self.named(graph, "graph")]
        for name, value in call.items():
            if name == "path":
                arguments += [] if value is None else [f"path={list(value)}"]
                continue
            try:
                shown = self.source(value)
            except _NoLiteral:
                shown = self.named(value, name)
            arguments.append(shown if name == "input" else f"{name}={shown}")
        return self._whole([f"    explore_routes({', '.join(arguments)}).check()"])

    # -- parts ---------------------------------------------------------------------------------------------------

    def source(self, value: Any) -> str:
        """Return the source text of *value*.

        Raises:
            _NoLiteral: It has no source text.
        """
        kind: Any = value.__class__
        if kind in _SCALARS:
            return repr(value)
        if value is END:
            return self._use("graphrt", "END")
        if isinstance(value, Mapping):
            items: Mapping[Any, Any] = value  # pyright: ignore[reportUnknownVariableType]
            return f"{{{', '.join(f'{self.source(key)}: {self.source(item)}' for key, item in items.items())}}}"
        if kind is list or kind is tuple:
            parts = ", ".join(self.source(item) for item in value)
            return f"[{parts}]" if kind is list else f"({parts}{',' if len(value) == 1 else ''})"
        if hasattr(kind, "model_fields") or hasattr(kind, "__dataclass_fields__"):
            # Fields of these types are validated from their data.
            return self.source(plain(value))
        if callable(value):
            return self._imported(value)
        raise _NoLiteral

    def result(self, value: Any) -> str:
        """Return the source text of a node's result or exception."""
        if isinstance(value, Label):
            if value.fails:
                return "RuntimeError('the explorer lets this node fail')"
            if value.goto is None:
                return "None"
            targets = [END if name == "END" else name for name in value.goto]
            return self.result(Command(goto=targets[0] if len(targets) == 1 else targets))
        if isinstance(value, Command):
            command: Command[Any] = value  # pyright: ignore[reportUnknownVariableType]
            parts = [] if command.update is None else [f"update={self.source(command.update)}"]
            if command.goto is not None:
                parts.append(f"goto={self._goto(command.goto)}")
            return f"{self._use('graphrt', 'Command')}({', '.join(parts)})"
        if isinstance(value, BaseException):
            if type(value).__module__ != "builtins":
                raise _NoLiteral
            return repr(value)
        if callable(value):
            raise _NoLiteral
        return self.source(value)

    def _goto(self, goto: Any) -> str:
        if isinstance(goto, list | tuple):
            return f"[{', '.join(self._goto(target) for target in goto)}]"  # pyright: ignore[reportUnknownVariableType]
        if isinstance(goto, Send):
            return f"{self._use('graphrt', 'Send')}({goto.node!r}, {self.source(goto.arg)})"
        return self.source(goto if goto is END else node_name(goto))

    def _stubs(self, name: str, nodes: Mapping[str, list[str]]) -> str:
        self._use("graphrt.testing", "scripted")
        own = {node: items for node, items in nodes.items() if "/" not in node}
        parts = [f"{node!r}: scripted({', '.join(items)})" for node, items in own.items()]
        inner: dict[str, dict[str, list[str]]] = {}
        for node, items in nodes.items():
            above, slash, rest = node.partition("/")
            if slash:
                inner.setdefault(above, {})[rest] = items
        parts += [f"{above!r}: {self._stubs(f'{name}.nested[{above!r}]', stubs)}" for above, stubs in inner.items()]
        return f"{name}.with_nodes({{{', '.join(parts)}}})"

    def named(self, value: Any, fixture: str) -> str:
        """Return a name for *value*: imported from a module that has it, or else a fixture of the test."""
        try:
            return self._imported(value)
        except _NoLiteral:
            self._test.fixtures[fixture] = None
            return fixture

    def _imported(self, value: Any) -> str:
        home = home_of(value)
        if home is None:
            raise _NoLiteral
        return self._use(*home)

    def _whole(self, body: Sequence[str]) -> str:
        return self._test.text(
            about=f"Found by explore_routes(): {self.kind}.",
            name=f"no_{slug(self.kind)}",
            body=body,
            rule=self.text,
        )
