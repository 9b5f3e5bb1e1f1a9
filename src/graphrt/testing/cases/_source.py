"""The source text of a case: a pytest file that a person can read, change and keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from graphrt.testing.cases._step import Recorded
from graphrt.testing.cases.replaying import ReplayedTask
from graphrt.testing.written_tests import TestSource, literal, one_line, slug

_INLINE: Final = 2_000
"""Maximum length of a literal in a comparison; a longer one gets a name and follows the test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The data that the file needs besides the step."""

    thread: str
    module: str
    """Module that has the graph."""
    name: str
    """Its name there, with `()` if it is a function that returns the graph."""
    deps: str | None
    """Class of the run's `deps`; None without."""
    harness: bool
    """Whether the run had a harness."""
    agent: str | None
    """Name of the agent that was the harness; None if it was not an agent."""
    agent_home: tuple[str, str] | None
    """Module that has this agent, and its name there; None if no imported module has it."""
    budget: str | None
    """The run's budget as source text; None without."""
    state: Mapping[str, Any]
    """The state before the step."""
    text: str
    """The recording."""


def source(about: Source, step: Recorded) -> str:
    """Return the text of the file."""
    test = TestSource()
    later: dict[str, str] = {}
    graph = test.use(about.module, about.name.removesuffix("()")) + ("()" if about.name.endswith("()") else "")
    options: list[str] = []
    before: list[str] = []
    if about.deps:
        deps = f"DEPS: {test.use('typing', 'Any')} = None"
        before.append(f"{deps}  # the run had a {about.deps} here: give the test a double of it")
        options.append("deps=DEPS")
    if about.agent is not None:
        # Its recorded replies answer the requests of an agent with the same name, prompt and tools.
        if about.agent_home is None:
            harness = f"HARNESS: {test.use('typing', 'Any')} = None"
            before.append(f"{harness}  # the run had the Agent {about.agent!r} here: give the test the same one")
        options.append(f"harness={'HARNESS' if about.agent_home is None else test.use(*about.agent_home)}")
    elif about.harness:
        options.append(f"harness={test.use('graphrt', 'MockHarness')}([])")
    if about.budget:
        test.use("graphrt", "Budget")
        options.append(f"budget={about.budget}")
    call = f"{test.use('graphrt.testing', 'replay_case')}({', '.join([graph, 'CASE', *options])})"
    return test.text(
        about=_docstring(about, step),
        name=slug("_".join([*step.nodes[:3], "of", about.thread])),
        body=[f"    step = {call}", "", *_asserts(step, later)],
        before=before,
        after=[*(f"{label} = {text}" for label, text in later.items()), f'CASE = r"""\n{about.text}\n"""'],
    )


def _asserts(step: Recorded, later: dict[str, str]) -> list[str]:
    lines: list[str] = []
    if step.error is not None:
        lines += [
            "    # The run failed here, and so does this test until the node is fixed:",
            f"    # {one_line(step.error)}",
            "    # Then add what the node is to write, for instance: assert step[...].wrote == {...}",
            "    assert all(task.failed is None for task in step.values())",
        ]
    for id_, task in step.step.items():
        if "/" not in id_ and step.error is None:
            lines += _task(id_, task, later)
    if step.error is None:
        wanted = step.step.asked if step.step.next is None else step.step.next
        name = "asked" if step.step.next is None else "next"
        lines.append(f"    assert step.{name} == {_value(f'{name}', wanted, later, 4)}")
    return lines


def _task(id_: str, task: ReplayedTask, later: dict[str, str]) -> list[str]:
    subject = f"step[{id_!r}]"
    label = slug(task.node)
    if task.failed is not None:
        return [f"    assert {subject}.failed == {task.failed!r}"]
    if len(task.updates) > 1:
        lines = [f"    assert {subject}.updates == {_value(f'{label}_updates', task.updates, later, 4)}"]
    else:
        lines = [f"    assert {subject}.wrote == {_value(f'{label}_wrote', task.wrote, later, 4)}"]
    if task.goto is not None:
        lines.append(f"    assert {subject}.goto == {task.goto!r}")
    return lines


def _value(label: str, value: Any, later: dict[str, str], indent: int) -> str:
    text = literal(value, indent)
    if len(text) <= _INLINE:
        return text
    name = label.upper()
    while name in later:
        name += "_"
    later[name] = literal(value)
    return name


def _docstring(about: Source, step: Recorded) -> str:
    nodes = ", ".join(step.nodes)
    lines = [
        f"What thread {about.thread} did after entry {step.at} of its journal: {nodes}.",
        "",
        "`graphrt.testing.case_of` wrote this test. Change its name and its assertions as you like; only the recording at",
        "the end must stay as it is.",
        "",
        "PERSONAL DATA: this file has values of a real thread, in plain text: its state, what models, tools and people",
        "said, and what nodes wrote. Read it, also the recording, before you commit it.",
        "",
        "The state before the step:",
        *(f"    {name}: {one_line(value)}" for name, value in about.state.items()),
        "",
        f"The clock shows {step.time!r}: the journal does not have what `ctx.now()` returned. If the step made something",
        "else of the time, pass the time that it had, replay_case(..., clock=lambda: ...), or do not compare these values.",
    ]
    if step.replies:
        lines += ["", "Recorded, and given to the step again:"]
        lines += [f"    {task}, {kind}: {one_line(value)}" for task, kind, value in step.replies[:40]]
        if len(step.replies) > 40:
            lines.append(f"    and {len(step.replies) - 40} more")
    return "\n".join([*lines, ""])
