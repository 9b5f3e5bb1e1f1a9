"""Bugs to plant in the engine: each replaces a few words of one function by others.

This module plants bugs and has their table; `test_planted_mistake_is_a_finding` asserts that the laws detect them.
"""

from __future__ import annotations
import __future__

import importlib
import inspect
import textwrap
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import pytest


@dataclass(frozen=True)
class Bug:
    """In *where* ("module:function" below graphrt._engine), *new* replaces *old*; *law* has to detect it."""

    name: str
    where: str
    old: str
    new: str
    law: str

    def function(self) -> FunctionType:
        """The broken function."""
        module, path = self.where.split(":")
        found: Any = importlib.import_module(f"graphrt.{module}")
        for name in path.split("."):
            found = getattr(found, name)
        return found.fget if isinstance(found, property) else found

    def plant(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Break the live function wherever it was imported; *monkeypatch* undoes it."""
        function = self.function()
        source = textwrap.dedent(inspect.getsource(function)).removeprefix("@property\n")
        assert self.old in source, f"{self.where} changed: write the bug {self.name!r} anew"
        made: dict[str, Any] = {}
        flags = __future__.annotations.compiler_flag
        broken = compile(source.replace(self.old, self.new), f"<{self.name}>", "exec", flags, dont_inherit=True)
        exec(broken, function.__globals__, made)  # the unchanged function, except for the bug
        monkeypatch.setattr(function, "__code__", made[function.__name__].__code__)


GENERAL = [
    Bug(
        "fold in reverse order", "_engine.fold:fold", "for task in tasks:", "for task in reversed(tasks):", "reference"
    ),
    Bug(
        "fold in completion order",
        "_engine.fold:fold",
        "for task in tasks:",
        "for task in sorted(tasks, key=lambda task: task.duration_s):",
        "order",
    ),
    Bug("ephemeral never reset", "_engine.fold:fold", "for field in ephemeral:", "for field in ():", "reference"),
    Bug(
        "ephemeral lives until it is written again",
        "_engine.fold:fold",
        "for field in ephemeral:",
        "for field in [f for f in ephemeral if any(f.name in u for t in tasks for u in t.updates)]:",
        "reference",
    ),
    Bug(
        "no conflict check",
        "_engine.fold:fold",
        "raise _conflict(field, before, task, tasks, where or engine.where)",
        "pass",
        "reference",
    ),
    Bug("a write beside an Overwrite allowed", "_engine.fold:fold", "or name in exclusive", "", "reference"),
    Bug("an Overwrite beside a write allowed", "_engine.fold:fold", "(marker or not", "(not", "reference"),
    Bug("DELETE leaves the pending items", "_engine.fold:fold", "grown.pop(name, None)", "pass", "nesting"),
    Bug(
        "steps of tasks see each other's undo",
        "_engine.fold:_note_before",
        "len(start) + len(pending or ())",
        "len(start)",
        "reference",
    ),
    Bug("duplicate report counts", "_engine.outcome:report", "or task.status > RUNNING", "", "duplicate"),
    Bug("late report counts", "_engine.outcome:report", "task.execution != execution or ", "", "duplicate"),
    Bug("a second attempt has no number", "_engine.outcome:_fail", "task.execution += 1", "pass", "duplicate"),
    Bug(
        "Sends before plain activations",
        "_engine.route:Routed.due",
        "for at in order] + self.sends",
        "for at in order][:0] + self.sends + [Due(nodes[at]) for at in order]",
        "reference",
    ),
    Bug(
        "plain activations in the order of their edges",
        "_engine.route:Routed.due",
        "sorted(nodes) if len(nodes) > 1 else nodes",
        "nodes",
        "reference",
    ),
    Bug(
        "goto does not replace the edges",
        "_engine.route:Router.follow",
        "elif task.goto is not None:",
        "elif task.goto is not None and self._edges(node, view, result, None) is None:",
        "reference",
    ),
    Bug(
        "edges followed for each task of a node",
        "_engine.route:Router.follow",
        "followed.add(node.index)",
        "pass",
        "reference",
    ),
    Bug(
        "default instead of the route",
        "_engine.route:Router._one",
        "branch.table.get(label, NO_DEFAULT)",
        "(branch.table.get(label, NO_DEFAULT) if branch.default is NO_DEFAULT else branch.default)",
        "reference",
    ),
    Bug("undeclared goto allowed", "_engine.route:Router._declared", "targets is not None", "False", "reference"),
    Bug(
        "routers asked on the unfolded state",
        "_engine.committing:commit",
        "view = engine.make_view(values)",
        "view = engine.make_view(engine.values)",
        "reference",
    ),
    Bug(
        "sole ownership not asked for",
        "_engine.fold:applied",
        "getrefcount(values[name]) == SOLE",
        "True",
        "ownership",
    ),
    Bug(
        "a join counts repeats",
        "_engine.join_state:JoinState.arrive",
        "self.arrived.add(source)",
        "self.arrived.add(-1 - len(self.arrived) if source in self.arrived else source)",
        "joins",
    ),
    Bug(
        "a join fires after it fired",
        "_engine.join_state:JoinState.arrive",
        "fires = not self.fired and",
        "fires =",
        "joins",
    ),
    Bug(
        "a join never opens again",
        "_engine.join_state:JoinState.arrive",
        "if self.fired and source in self.arrived:",
        "if False:",
        "joins",
    ),
    Bug("a fired join starves", "_engine.join_state:JoinState.starved", "and not self.fired", "", "joins"),
    Bug("one visit more", "_engine.engine:Engine.begin", ">= limits[at]", "> limits[at]", "reference"),
    Bug("visits of tasks", "_engine.engine:Engine.open_superstep", "if not is_send:", "if True:", "reference"),
    Bug(
        "one superstep more",
        "_engine.engine:Engine.begin",
        "self.steps >= self.max_steps",
        "self.steps > self.max_steps",
        "reference",
    ),
    Bug("one task more", "_engine.engine:Engine.begin", "limits.max_tasks", "limits.max_tasks + 1", "reference"),
    Bug(
        "the journal in completion order",
        "_engine.emit_events:committed",
        "for task in tasks:",
        "for task in sorted(tasks, key=lambda task: task.duration_s):",
        "order",
    ),
    Bug(
        "the trail keeps the newest only",
        "_engine.run_state:RunState.follow",
        "trail and update.keys() <=",
        "trail or update.keys() <=",
        "nesting",
    ),
]

STRAIGHT = [
    Bug(
        "supersteps counted twice",
        "_engine.engine:Engine.open_superstep",
        "state.steps += 1",
        "state.steps += 2",
        "straight end",
    ),
    Bug(
        "visits not counted",
        "_engine.engine:Engine.open_superstep",
        "[node.index] += 1",
        "[node.index] += 0",
        "straight end",
    ),
    Bug("fatigue not asked", "_engine.engine:Engine.begin", "visits[at] >= limits[at]", "False", "straight end"),
    Bug("add folds twice", "_engine.fold:fold", "values[name] + value", "values[name] + value + value", "straight end"),
    Bug("update not checked", "_engine.outcome:report", "else field.check(value)", "else value", "straight end"),
    Bug(
        "router not asked",
        "_engine.committing:_routes",
        "label = node.router(view)",
        "label = next(iter(node.table))",
        "straight end",
    ),
    Bug(
        "router asked on the unfolded state",
        "_engine.committing:commit",
        "view = engine.make_view(values)",
        "view = engine.make_view(engine.values)",
        "straight end",
    ),
    Bug(
        "list taken without a copy",
        "_engine.fold:applied",
        "getrefcount(values[name]) == SOLE",
        "True",
        "straight ownership",
    ),
    Bug(
        "lengths not noted",
        "_engine.run_state:RunState.measured",
        "sizes = {**sizes, name: len(values[name])}",
        "pass",
        "straight end",
    ),
    Bug("arrivals forgotten", "_plan.tables:NodePlan.settle", "if self.arrives or ", "if ", "straight joins"),
    Bug("trail not followed", "_engine.committing:_watch", "engine.follow(update)", "pass", "nesting"),
]
"""Bugs that only unwatched runs show."""
