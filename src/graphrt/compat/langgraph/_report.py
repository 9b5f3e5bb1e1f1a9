"""The report of a conversion: omitted features and changed behaviour, by node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, final

from graphrt.errors import DefinitionError
from graphrt.errors._codes.findings import DEFINITION, NOT_CARRIED_OVER


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """A feature of a LangGraph graph that the converted graph lacks, or that works differently there."""

    kind: Literal["left out", "differs"]
    """"left out": the converted graph does not have it. "differs": it has it, with a difference."""
    feature: str
    """Its name in LangGraph."""
    node: str | None
    """The node, as `outer/inner` in a nested graph; None for the graph as a whole."""
    reason: str
    """The reason, or the difference."""
    fix: str
    """What to do."""

    def __str__(self) -> str:
        where = "the graph" if self.node is None else f"node {self.node!r}"
        return f"{self.kind}: {self.feature} of {where}: {self.reason} {self.fix}"

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "kind": self.kind,
            "feature": self.feature,
            "node": self.node,
            "reason": self.reason,
            "fix": self.fix,
        }


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The features that `convert` could not carry over unchanged. As text, it has a line for each deviation."""

    graph: str
    """Name of the graph."""
    deviations: tuple[Deviation, ...]
    """0..n deviations: those of the graph, then those of its nodes in the order in which they were converted."""

    @property
    def left_out(self) -> tuple[Deviation, ...]:
        """The features that the converted graph lacks. With `strict=True`, `convert` raises if there is any."""
        return tuple(deviation for deviation in self.deviations if deviation.kind == "left out")

    @property
    def differs(self) -> tuple[Deviation, ...]:
        """The features that work differently in the converted graph."""
        return tuple(deviation for deviation in self.deviations if deviation.kind == "differs")

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"graph": self.graph, "deviations": [deviation.to_dict() for deviation in self.deviations]}

    def __str__(self) -> str:
        if not self.deviations:
            return f"{self.graph}: everything is carried over."
        return "\n".join([f"{self.graph}:", *(f"  {deviation}" for deviation in self.deviations)])

    def __iter__(self) -> Iterator[Deviation]:
        return iter(self.deviations)

    def __len__(self) -> int:
        return len(self.deviations)


class Notes:
    """Collects the deviations of one conversion. *path* is the position of a nested graph, such as `outer/`."""

    def __init__(self, path: str = "", found: list[Deviation] | None = None) -> None:
        self.path = path
        self.found: list[Deviation] = [] if found is None else found

    def inside(self, node: str) -> Notes:
        """Return the notes for the graph that is nested in *node*."""
        return Notes(f"{self.path}{node}/", self.found)

    def left_out(self, feature: str, node: str | None, reason: str, fix: str) -> None:
        """Note that *feature* is not carried over."""
        self._add("left out", feature, node, reason, fix)

    def differs(self, feature: str, node: str | None, reason: str, fix: str) -> None:
        """Note that *feature* is carried over with a difference."""
        self._add("differs", feature, node, reason, fix)

    def _add(self, kind: Literal["left out", "differs"], feature: str, node: str | None, reason: str, fix: str) -> None:
        where = f"{self.path}{node}" if node is not None else self.path.rstrip("/") or None
        deviation = Deviation(kind=kind, feature=feature, node=where, reason=reason, fix=fix)
        if deviation not in self.found:
            self.found.append(deviation)


def refused(report: Report) -> DefinitionError:
    """Return the error of `convert(strict=True)`, which lists everything that is left out."""
    problems = [
        NOT_CARRIED_OVER(node=deviation.node, feature=deviation.feature, reason=deviation.reason, fix=deviation.fix)
        for deviation in report.left_out
    ]
    return DEFINITION(who=f"Graph {report.graph!r} of LangGraph", problems=problems)
