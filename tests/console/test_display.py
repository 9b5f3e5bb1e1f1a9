"""Values are displayed safely and with bounds; results are tables in notebooks."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import dataclass
from typing import Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder, Runtime
from graphrt._display import brief, html_table, safe, safe_json, shown_error
from graphrt.errors import DefinitionError, InputError, Problem


@given(st.text(alphabet=st.characters(categories=("C", "Z", "L", "M", "S"))))
def test_control_and_invisible_characters_are_removed(text: str) -> None:
    shown = safe(text)

    assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") or 0x202A <= ord(c) <= 0x202E]
    shown.encode("utf-8")


def test_newlines_are_kept_on_request() -> None:
    assert safe("a\nb\tc") == "a\\nb\\tc"
    assert safe("a\nb\x1b", lines=True) == "a\nb\\x1b"
    assert safe("naïve 漢字") == "naïve 漢字"


@given(st.text(alphabet=st.characters(categories=("Cc", "Cf", "Co", "Z", "L", "M", "S"))))
def test_json_text_keeps_its_meaning_and_hides_nothing(text: str) -> None:
    shown = safe_json(json.dumps({text: [text]}, ensure_ascii=False, indent=2))

    assert json.loads(shown) == {text: [text]}
    assert safe(shown, lines=True) == shown


def test_drawn_json_hides_nothing() -> None:
    g = GraphBuilder(Model, name="a\x9b\u202e\u2028\u200b\x7f")
    drawn = g.add_node("n", lambda _: {}).add_edge(START, "n").compile().to_json()

    assert safe(drawn, lines=True) == drawn


FORGED = "x\n  Fix: run this\ngraphrt: done\x1b[2J"


@pytest.mark.parametrize(
    "error",
    [
        ValueError(FORGED),
        InputError(FORGED, code="input", known=FORGED, fix=FORGED),
        DefinitionError("wrong", [Problem(code="bad-name", message=FORGED, hint=FORGED, where=FORGED)]),
    ],
)
def test_text_of_an_error_cannot_forge_a_line(error: Exception) -> None:
    lines = shown_error(error).splitlines()

    assert any("run this" in line for line in lines)
    assert [line for line in lines if line.lstrip().startswith(("Fix: run", "graphrt"))] == []
    assert not any("\x1b" in line for line in lines)


class Model(BaseModel):
    a: int = 1
    text: str = "x"


@dataclass
class Data:
    b: int


class Odd:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("it's", '"it\'s"'),
        ("x" * 1_000, f"{'x' * 170!r}... (1,000 characters)"),
        (b"\x00\xff" * 10, "<20 bytes: 00 ff 00 ff 00 ff 00 ff...>"),
        (10**5_000, "<int of 16,610 bits>"),
        (list(range(1_000)), None),
        ({"k": [1, (2,)], 3: {"a"}}, "{'k': [1, (2)], 3: {'a'}}"),
        (Model(), "Model(a=1, text='x')"),
        (Data(2), "Data(b=2)"),
        (Odd(), "<Odd, whose repr raised RuntimeError>"),
        (float("nan"), "nan"),
        (None, "None"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_are_displayed_on_one_line(value: Any, shown: str | None) -> None:
    found = brief(value)

    assert shown is None or found == shown
    assert len(found) < 400


def test_cyclic_value_is_displayed() -> None:
    value: list[Any] = []
    value.append(value)

    assert brief(value) == "[[[[[[<list>]]]]]]"


def test_tables_of_notebooks_are_escaped() -> None:
    html = html_table("<b>", [("<script>", "\x1b[2J & \u202e")])

    assert "<b>" not in html
    assert "<script>" not in html
    assert "\\x1b[2J &amp; \\u202e" in html


class State(TypedDict, total=False):
    n: str


def test_results_snapshots_steps_and_runtimes_have_tables() -> None:
    def ask(state: State, ctx: Context) -> State:
        return {"n": ctx.interrupt("how <much>?")}

    g = GraphBuilder(State, name="asks")
    g.add_node("ask", ask)
    g.add_sequence([START, "ask", END])
    with Runtime(g.compile(), store="memory:") as runtime:
        paused = runtime.run({}, thread="t")
        shown = [paused, runtime.state("t"), runtime, *runtime.steps(thread="t", answer="\x1b[31m")]
        texts = [one._repr_html_() for one in shown]

    assert "interrupted" in texts[0]
    assert "how &lt;much&gt;?" in texts[0]
    assert "Thread &#x27;t&#x27; after entry" in texts[1]
    assert "MemoryStore" in texts[2]
    assert "success" in texts[3]
    assert not any("\x1b" in text or "how <much>" in text for text in texts)
    assert "interrupts=(InterruptInfo(" in repr(paused)
    assert repr(runtime) == "Runtime('asks', store=MemoryStore)"
