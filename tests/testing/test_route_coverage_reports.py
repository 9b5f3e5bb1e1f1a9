"""The reports of route coverage, for a graph with half of its routes taken."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.testing.covered_graphs import child

from graphrt._display import safe
from graphrt.testing import record
from graphrt.testing.route_coverage import Summary
from graphrt.testing.route_coverage.reports import as_json, cobertura, lcov, terminal


@pytest.fixture
def half(collect: Callable[..., Summary]) -> Summary:
    record(child(), {"kind": "once"})
    return collect("child")


def test_table_lists_every_arc(half: Summary) -> None:
    assert terminal(half).splitlines() == [
        "graph   arcs  taken  missed  cover",
        "----------------------------------",
        "child      6      3       3    50%",
        "    node other",
        "    other -> END",
        "    inside -[True]-> other",
    ]


def test_names_cannot_forge_a_line_of_the_table(half: Summary) -> None:
    name = "a\nTOTAL  0  0  0  100%\x1b[2J\x9b\u202e"
    [graph] = half.graphs
    hostile = replace(graph, path=name, title=name, missing=tuple(arc._replace(source=name) for arc in graph.missing))
    summary = replace(half, graphs=(hostile,))

    table = terminal(summary)
    assert len(table.splitlines()) == 3 + len(hostile.missing)
    assert safe(table, lines=True) == table
    assert safe(as_json(summary), lines=True) == as_json(summary)


def test_lcov_and_cobertura_count_the_same(half: Summary) -> None:
    text = lcov(half)
    root = ET.fromstring(cobertura(half))

    assert "BRF:6\nBRH:3" in text
    branches = [line.rpartition(",")[2] for line in text.splitlines() if line.startswith("BRDA:")]
    assert branches == ["1", "1", "1", "0", "-", "-"]  # 0 beside others that were taken, "-" if none was
    assert text.count("BRDA:") == 6
    assert root.attrib["branches-valid"] == "6"
    assert root.attrib["branches-covered"] == "3"
    shown = [line.attrib["condition-coverage"] for line in root.iter("line")]
    assert shown == ["100% (1/1)", "66% (2/3)", "0% (0/2)"]


def test_json_has_every_arc(half: Summary) -> None:
    data = json.loads(as_json(half))

    assert [(arc["id"], arc["taken"]) for arc in data["graphs"][0]["arcs"]] == [
        ("node:inside", True),
        ("edge:START->inside", True),
        ("route:inside:False->END", True),
        ("node:other", False),
        ("edge:other->END", False),
        ("route:inside:True->other", False),
    ]
    assert data["percent"] == 50
