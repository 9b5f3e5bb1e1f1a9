"""Supersteps of the fast path as bytes, without events in between: the very bytes that `batch_format` makes of their events.

What one plain task wrote and what came next has a shape, and a graph has few of them: all but a time, two numbers and
the values is made once for each. Nothing is decided here, and nothing stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final
from zlib import crc32

from pydantic_core import to_json

from graphrt import events
from graphrt._journal.batch import Line, no_time
from graphrt._journal.batch_format import VERSION
from graphrt._journal.event_schema import CODES
from graphrt._journal.in_memory_entries import FastStep
from graphrt._journal.name_table import Names

if TYPE_CHECKING:
    from graphrt._engine.emit_events import Logged
    from graphrt._engine.storability import Stamped
    from graphrt._journal.chain import Chain
    from graphrt._plan.state import StateSchema
    from graphrt._plan.tables import NodePlan

Fresh: TypeAlias = "tuple[int, NodePlan, Stamped | None, NodePlan | None]"
"""What the fast path tells of a superstep: its number, the node, its update, and the node that is due after it."""
Shape: TypeAlias = tuple[bytes, bytes, tuple[tuple[str, int], ...]]
"""What stands after the number of the superstep, where the task is told of and where the commit is; fields and lines."""

_STRUCTURE: Final = b"[%d,%%b,%%b,%%d,[],[[%d,0,[%%d%%b%%d%%b" % (VERSION, CODES[events.TaskSucceeded])
_COMMIT: Final = b"],[%d,0," % CODES[events.SuperstepCommitted]


@final
class FastStepBytes:
    """Makes the bodies and seals of one run.

    Args:
        seed: Makes the same salts in every run; None draws them.
    """

    __slots__ = ("_chain", "_names", "_order", "_run", "_run_id", "_seed", "_shapes", "_untracked")

    def __init__(
        self, names: Names, state: StateSchema, run_id: Callable[[], str], chain: Chain | None, seed: int | None
    ) -> None:
        self._names = names
        self._order = tuple(state.fields)
        self._untracked = state.untracked
        self._run_id = run_id
        self._chain = chain
        self._seed = seed
        self._run: bytes = b""
        """The run's id, encoded at first need."""
        self._shapes: dict[tuple[Any, ...], Shape] = {}

    def shape(self, told: Fresh) -> Shape | None:
        """What of the structure is the same in every such superstep; None if a name is new, which events have to tell."""
        _, node, update, target = told
        key = (node, target, *update) if update else (node, target)
        try:
            return self._shapes[key]
        except KeyError:
            made = self._shape(told)
            if made is not None:
                self._shapes[key] = made
            return made

    def make(self, shape: Shape, told: Fresh, seq: int, at: float, cause: int) -> tuple[bytes, bytes]:
        """The body and the seal of the commit of the entries up to *seq*."""
        task, commit, written = shape
        superstep, _, update, _ = told
        if not self._run:
            self._run = to_json(self._run_id())
        if at - at:  # it is infinite or no number
            raise no_time(at)
        structure = _STRUCTURE % (to_json(at), self._run, cause, superstep, task, superstep, commit)
        chain = self._chain
        lines = [structure, *update.lines.values()] if update else [structure]
        text = b"\n".join(lines)
        seal = chain.seal(seq, 2, at, lines, written, self._seed) if chain is not None else b""
        return b"%b\n%08x" % (text, crc32(text)), seal

    def logged(self, told: Fresh) -> Sequence[Logged]:
        """The same as events."""
        superstep, node, update, target = told
        line = Line(0.0, superstep, node.name, update or None, (target.name,) if target is not None else ())
        return FastStep("", 0, line, self._order, self._untracked).logged

    def _shape(self, told: Fresh) -> Shape | None:
        _, node, update, target = told
        number = self._names.number
        written = update.lines if update else ()
        wrote = [name for name in self._order if name in update] if update else []
        used = [node.name, *written, *wrote, *([target.name] if target is not None else ())]
        numbers = {name: at for name in used if (at := number(name)) is not None}
        if len(numbers) != len(set(used)):
            return None
        placed = [part for line, name in enumerate(written, 1) for part in (numbers[name], line)]
        task = b",0,%d]" % numbers[node.name]
        if update:
            task += b",[%b]" % to_json(placed)
        fields = to_json([numbers[name] for name in wrote])
        if target is not None:
            commit = b",%b,[%d]]]]" % (fields, numbers[target.name])
        else:
            commit = b",%b]]]" % fields if wrote else b"]]]"
        return task + _COMMIT, commit, tuple(zip(written, placed[1::2], strict=True))
