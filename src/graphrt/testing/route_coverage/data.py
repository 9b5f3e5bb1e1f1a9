"""The data of a test run: the compiled graphs, and the arcs taken, by graph, path and test.

Files of several processes, machines and runs merge into one `CoverageData`, which is saved as one JSON file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, final

from graphrt.errors import describe_error
from graphrt.errors._codes.route_coverage import BAD_COVERAGE_DATA
from graphrt.testing.route_coverage.arcs import KINDS, Arc
from graphrt.testing.written_tests import write_whole

FORMAT: Final = 1
"""Version of the file format, which other versions of graphrt may not be able to read."""


@final
@dataclass
class GraphData:
    """A graph as its process described it."""

    key: str
    name: str
    file: str
    """File where its builder was created, relative to the working directory if it is below; empty if unknown."""
    line: int
    lines: dict[str, int]
    """Maps nodes to the lines where they were added, if in the same file."""
    digest: str
    """Identifies the version of the file; empty if it could not be read."""
    arcs: tuple[Arc, ...]
    nested: dict[str, str]
    """Maps nodes that run nested graphs to the keys of these."""

    def to_json(self) -> dict[str, Any]:
        """Return the graph as JSON-ready data."""
        return asdict(self)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> GraphData:
        """Read what `to_json` returned."""
        fields: dict[str, Any] = {**data, "arcs": tuple(map(_arc, data["arcs"]))}
        return cls(**fields)


@final
@dataclass
class Explored:
    """The arcs of a graph that explorers took."""

    taken: set[Arc] = field(default_factory=set[Arc])
    complete: bool = True
    """Whether each of them followed every path, so that arcs which none of them took cannot be taken."""

    def merge(self, other: Explored) -> None:
        """Add the arcs that *other* took."""
        self.taken |= other.taken
        self.complete = self.complete and other.complete


@final
@dataclass
class CoverageData:
    """Graphs and hits of one or more test runs."""

    graphs: dict[str, GraphData] = field(default_factory=dict[str, GraphData])
    hits: dict[tuple[str, str], dict[Arc, set[str]]] = field(default_factory=dict[tuple[str, str], dict[Arc, set[str]]])
    """Maps the key of the graph that ran, and a path of node names in it, to the arcs taken with their tests."""
    explored: dict[tuple[str, str], Explored] = field(default_factory=dict[tuple[str, str], Explored])
    """Maps the key of an explored graph, and a path of node names in it, to the arcs that explorers took."""

    def merge(self, other: CoverageData) -> None:
        """Add the graphs and hits of *other*."""
        self.graphs.update(other.graphs)
        for place, arcs in other.hits.items():
            mine = self.hits.setdefault(place, {})
            for arc, contexts in arcs.items():
                mine.setdefault(arc, set()).update(contexts)
        for place, explored in other.explored.items():
            self.explored.setdefault(place, Explored()).merge(explored)

    def outdated(self, other: CoverageData) -> list[GraphData]:
        """Return the graphs that *other* lacks, from files of which it has another version."""
        versions = {graph.file: graph.digest for graph in other.graphs.values()}
        return [
            graph
            for key, graph in self.graphs.items()
            if key not in other.graphs and versions.get(graph.file, graph.digest) != graph.digest
        ]

    def leave_out(self, graphs: Iterable[GraphData]) -> None:
        """Remove *graphs*, and their taken arcs."""
        keys = {graph.key for graph in graphs}
        self.graphs = {key: graph for key, graph in self.graphs.items() if key not in keys}
        self.hits = {place: arcs for place, arcs in self.hits.items() if place[0] not in keys}
        self.explored = {place: result for place, result in self.explored.items() if place[0] not in keys}

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON-ready data, in a fixed order."""
        return {
            "format": FORMAT,
            "graphs": [self.graphs[key].to_json() for key in sorted(self.graphs)],
            "hits": [
                [key, path, [[arc, sorted(arcs[arc])] for arc in sorted(arcs, key=lambda arc: arc.id)]]
                for (key, path), arcs in sorted(self.hits.items())
            ],
            "explored": [
                [key, path, sorted(explored.taken, key=lambda arc: arc.id), explored.complete]
                for (key, path), explored in sorted(self.explored.items())
            ],
        }

    def save(self, path: Path) -> None:
        """Write everything to one file, which replaces an older one as a whole."""
        write_whole(path, json.dumps(self.to_json(), ensure_ascii=False, indent=1) + "\n")


def load(path: Path, *, root: Path | None = None) -> CoverageData:
    """Read a saved file, or a folder with the files of collectors.

    Args:
        path: The file or folder. Incomplete last lines, which killed processes leave, are skipped.
        root: In the files of collectors, graphs below this folder are named relative to it.

    Raises:
        InputError: It does not exist, is damaged, or was written by another version.
    """
    if path.is_dir():
        data = CoverageData()
        for part in sorted(path.glob("routes.*.jsonl")):
            data.merge(_lines(part))
        return _relocated(data, root)
    try:
        text = path.read_bytes()
    except OSError as error:
        raise BAD_COVERAGE_DATA(file=os.fspath(path), problem=describe_error(error)) from error
    saved: CoverageData = _checked(path, lambda: _saved(json.loads(text.decode())))
    return saved


def _relocated(data: CoverageData, root: Path | None) -> CoverageData:
    """Make the files and keys of *data* relative to *root*, so that they are the same on every machine."""
    keys: dict[str, str] = {}
    for graph in data.graphs.values():
        file = _relative(graph.file, root)
        keys[graph.key] = graph.key.replace(f"|{graph.file}:", f"|{file}:")
        graph.file = file
    moved = CoverageData()
    for old, graph in data.graphs.items():
        graph.key = keys[old]
        graph.nested = {node: keys.get(key, key) for node, key in graph.nested.items()}
        moved.graphs[graph.key] = graph
    for (key, where), arcs in data.hits.items():
        # Two processes may name one file by different paths.
        moved.merge(CoverageData(hits={(keys.get(key, key), where): arcs}))
    for (key, where), explored in data.explored.items():
        moved.merge(CoverageData(explored={(keys.get(key, key), where): explored}))
    return moved


def _lines(path: Path) -> CoverageData:
    """Read the file of one process."""
    data = CoverageData()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
        try:
            item = json.loads(line)
        except ValueError:
            continue  # the process was killed while it wrote
        if number == 0:
            _checked(path, lambda item=item: _same_format(item))
        elif "graph" in item:
            graph = _checked(path, lambda item=item: GraphData.of(item["graph"]))
            data.graphs[graph.key] = graph
        elif "hit" in item:
            key, where, arc, context = item["hit"]
            data.hits.setdefault((key, where), {}).setdefault(Arc(*arc), set()).add(context)
        elif "explored" in item:
            _read_explored(data, item["explored"])
    return data


def _read_explored(data: CoverageData, item: Any) -> None:
    key, where, arcs, complete = item
    data.explored.setdefault((key, where), Explored()).merge(Explored({_arc(arc) for arc in arcs}, complete))


def _saved(item: Any) -> CoverageData:
    _same_format(item)
    data = CoverageData()
    for graph_data in item["graphs"]:
        graph = GraphData.of(graph_data)
        data.graphs[graph.key] = graph
    for key, where, arcs in item["hits"]:
        data.hits[key, where] = {_arc(arc): set(contexts) for arc, contexts in arcs}
    for explored in item["explored"]:
        _read_explored(data, explored)
    return data


def _same_format(item: Any) -> None:
    if not isinstance(item, dict) or item.get("format") != FORMAT:  # pyright: ignore[reportUnknownMemberType]
        raise ValueError(f"its format is not {FORMAT}")


def _checked(path: Path, read: Any) -> Any:
    try:
        return read()
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise BAD_COVERAGE_DATA(
            file=os.fspath(path), problem=describe_error(error), known=f"this version of graphrt reads format {FORMAT}"
        ) from error


def _arc(fields: Any) -> Arc:
    arc = Arc(*fields)
    if arc.kind not in KINDS:
        raise ValueError(f"it has an arc of kind {arc.kind!r}")
    return arc


def _relative(file: str, root: Path | None) -> str:
    if not file or root is None:
        return file
    try:
        return Path(file).resolve().relative_to(root.resolve()).as_posix()
    except ValueError:
        return file
