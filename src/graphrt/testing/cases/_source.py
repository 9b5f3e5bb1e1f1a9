"""The source text of a case: a pytest file that a person can read, change and keep."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from graphrt.testing.cases._plain import literal
from graphrt.testing.cases._step import Recorded
from graphrt.testing.cases.replaying import ReplayedTask

_INLINE: Final = 2_000
"""Characters of a literal that stands where it is compared; a longer one gets a name, and follows the test."""
_SHOWN: Final = 100
"""Characters of a value in the docstring."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What the file needs to know besides the step."""

    thread: str
    module: str
    """Module that has the graph."""
    name: str
    """Its name there; with `()` if it is a function that returns the graph."""
    deps: str | None
    """Class of the run's `deps`; None without."""
    harness: bool
    """Whether the run had a harness."""
    budget: str | None
    """The run's budget as source text; None without."""
    state: Mapping[str, Any]
    """The state before the step."""
    text: str
    """The recording."""


def slug(text: str) -> str:
    """Return *text* as part of a name: lower case letters, digits and underscores."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:60] or "x"


def source(about: Source, step: Recorded) -> str:
    """Return the text of the file."""
    later: dict[str, str] = {}
    body = _asserts(step, later)
    name = slug("_".join([*step.nodes[:3], "of", about.thread]))
    first, call = _graph(about)
    options = "".join(
        [
            ", deps=DEPS" if about.deps else "",
            ", harness=MockHarness([])" if about.harness else "",
            f", budget={about.budget}" if about.budget else "",
        ],
    )
    names = [name for name, used in (("Budget", about.budget), ("MockHarness", about.harness)) if used]
    imports = [f"from graphrt import {', '.join(names)}"] if names else []
    deps = (
        [f"DEPS: Any = None  # the run had a {about.deps} here: give the test a double of it", ""] if about.deps else []
    )
    parts = [
        f'"""{_escaped(_docstring(about, step))}"""',
        "",
        *(["from typing import Any", ""] if about.deps else []),
        first,
        "",
        *imports,
        "from graphrt.testing import replay_case",
        "",
        *deps,
        "",
        f"def test_{name}() -> None:",
        f"    step = replay_case({call}, CASE{options})",
        "",
        *body,
        "",
        "",
        *(f"{label} = {text}\n" for label, text in later.items()),
        f'CASE = """\n{about.text}\n"""',
    ]
    return "\n".join(parts) + "\n"


def _graph(about: Source) -> tuple[str, str]:
    name = about.name.removesuffix("()")
    return f"from {about.module} import {name}", about.name


def _asserts(step: Recorded, later: dict[str, str]) -> list[str]:
    lines: list[str] = []
    if step.error is not None:
        lines += [
            "    # The run failed here, and so does this test until the node is mended:",
            f"    # {_short(step.error)}",
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
        "The state before the step:",
        *(f"    {name}: {_short(value)}" for name, value in about.state.items()),
    ]
    if step.replies:
        lines += ["", "Recorded, and given to the step again:"]
        lines += [f"    {task}, {what}: {_short(value)}" for task, what, value in step.replies[:40]]
        if len(step.replies) > 40:
            lines.append(f"    and {len(step.replies) - 40} more")
    return "\n".join([*lines, ""])


def _short(value: Any) -> str:
    text = value.replace("\n", " ") if isinstance(value, str) else " ".join(literal(value).split())
    # A file with a control character or a lone surrogate could not be written, or not be parsed.
    text = "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"') if '"""' in text or "\\" in text else text
