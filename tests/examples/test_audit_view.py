"""The output fits the terminal and is complete: screens, tables, drawings, answers, reports."""

from __future__ import annotations

import io
import json
from typing import Any, TypedDict

import pytest
from examples.audit import report, review, view
from examples.audit.graph import GRAPH
from examples.audit.journal import Row
from examples.audit.offline import OfflineReader
from examples.audit.policy import PRESETS
from examples.audit.report import Outcome
from examples.audit.state import State

from graphrt import END, START, GraphBuilder
from graphrt.console import Column, PlainScreen, cells, draw, duration, fit, size, table
from graphrt.harness import Usage


@pytest.fixture
def outcome(odd_site) -> Outcome:
    result = GRAPH.run(State(sites=[str(odd_site.path)], policy=PRESETS["permissive"]), harness=OfflineReader())
    return Outcome(
        state=result.state,
        usage=Usage(calls=3, input_tokens=10),
        rows=(),
        elapsed_s=0.5,
        at=0.0,
        label="here",
        reader="offline rules",
        command="audit",
        versions="graphrt",
        mermaid=GRAPH.to_mermaid(),
        fingerprint=GRAPH.fingerprint,
    )


class Loop(TypedDict, total=False):
    n: int


def plain(row: Any) -> str:
    return "".join(part if isinstance(part, str) else part[0] for part in row)


def lines(screen_width: int, show: Any) -> list[str]:
    out = io.StringIO()
    out_screen = PlainScreen(out, screen_width)
    out_screen._translate = {}
    show(out_screen)
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [20, 38, 58, 78, 98])
def test_no_output_is_wider_than_the_screen(outcome: Outcome, width: int) -> None:
    def show(screen: PlainScreen) -> None:
        view.show_head(screen, "here", "permissive", "offline rules")
        view.show_outcome(screen, outcome)
        log = view.Log(screen, shown=True)
        log.start()
        log.show(Row(12, "inspect", 300, "packages +300, size +1.2 GB, sources +300", 12.5))
        view.show_verdict(screen, outcome)
        for line in draw(GRAPH, width):
            screen.line(*line)

    shown = lines(width, show)

    assert max(cells(line) for line in shown) <= width + 2  # the indent
    assert all(line == line.rstrip() for line in shown)
    assert not any("\x1b" in line for line in shown)


def test_texts_are_truncated_by_their_width_in_the_terminal() -> None:
    assert fit("漢字漢字", 5) == "漢字…"
    assert fit("漢字漢字", 4) == "漢…" + " "
    assert fit("ab", 4, right=True) == "  ab"
    assert cells("e\u0301") == 1


def test_tables_drop_the_least_important_column_first() -> None:
    columns = [Column(title="name", least=4), Column(title="detail", rank=1), Column(title="extra", rank=2)]
    rows = [["something", "detailed", "extraordinary"]]

    assert [cells(line[0][0]) if isinstance(line[0], tuple) else 0 for line in table(columns, rows, 40)[:1]] == [34]
    assert "extra" not in str(table(columns, rows, 20))
    assert "detail" not in str(table(columns, rows, 10))
    assert "some…" in str(table(columns, rows, 5))


def test_drawing_shows_every_node_and_label() -> None:
    text = "\n".join(plain(row) for row in draw(GRAPH, 78))

    assert all(name in text for name in (*GRAPH.nodes, "START", "END"))
    assert all(label in text for label in ("nothing", "clear", "each doubt", "policy", "person", "clean"))


def test_drawing_of_another_graph_with_a_loop() -> None:
    g: Any = GraphBuilder(Loop, name="loop").add_node("a", lambda state: None).add_node("b", lambda state: None)
    g.add_edge(START, "a").add_edge("a", "b")
    graph = g.add_conditional_edges("b", lambda state: "done", {"again": "a", "done": END}).compile()

    text = [plain(row).rstrip() for row in draw(graph, 78)]

    assert text == ["○ START", "● a ◀───────╮", "● b         │", "├─ again ───╯", "│ done", "◉ END"]


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("", ({"accept": None}, False)),
        ("y", ({"accept": True, "reason": ""}, False)),
        ("yes it is ours", ({"accept": True, "reason": "it is ours"}, False)),
        ("N too old", ({"accept": False, "reason": "too old"}, True)),
        ("P", ({"accept": None, "reason": ""}, True)),
        ("Yes", ({"accept": True, "reason": ""}, False)),
        ("maybe", None),
    ],
)
def test_answers_of_a_person_are_parsed(line: str, answer: Any) -> None:
    assert review.read(line) == answer


def test_the_report_is_markdown_that_metadata_cannot_break(outcome: Outcome) -> None:
    text = report.to_markdown(outcome)

    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert "pi\\|pe" in text
    assert "<b>" not in text
    assert "\x1b" not in text
    assert all(row.endswith("|") for row in rows)
    assert "```mermaid\nflowchart TD" in text


def test_the_report_is_json(outcome: Outcome) -> None:
    data = json.loads(report.to_json(outcome))

    assert data["verdict"]["passed"] is False
    assert len(data["distributions"]) == 14
    assert data["findings"][0]["decision"]["by"] == "policy"
    assert data["usage"]["calls"] == 3


def test_licences_are_listed_from_the_least_free() -> None:
    state = State(sites=[], policy=PRESETS["permissive"])

    assert report.by_licence(state) == []


def test_numbers_are_human_readable() -> None:
    assert [size(n) for n in (0, 999, 1_000, 123_456, 4_500_000, 2.5e9)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "123 kB",
        "4.5 MB",
        "2.5 GB",
    ]
    assert [duration(s) for s in (0.0004, 0.25, 2.0, 125.0)] == ["0.4 ms", "250 ms", "2.0 s", "2 min 5 s"]
