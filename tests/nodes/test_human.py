"""`human`: decisions of persons, who may make them, and how wrong, late and missing answers are handled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graphrt import END, START, GraphBuilder, InputError, NodeError, Runtime
from graphrt.nodes import human, router, set_value

from .support import State, one

ANN = {"choice": "approve", "by": "Ann", "role": "editor", "rationale": "Good."}


def jury(**options: Any) -> Any:
    given = {
        "record": "review",
        "show": "answer",
        "roles": {"approve": ["editor"], "reject": ["editor", "author"]},
        "rationale": True,
        "edit": "answer",
        **options,
    }
    return human("Publish {topic}?", into="verdict", **given)


def routed(**options: Any) -> Any:
    g = GraphBuilder(State, name="jury").add_node("ask", jury(**options))
    for name in ("approved", "rejected", "late"):
        g.add_node(name, set_value(notes=[name]))
    g.add_edge(START, "ask")
    ways = {"approve": "approved", "reject": "rejected", "edit": "ask", "timeout": "late"}
    return g.add_conditional_edges("ask", *router("verdict", ways)).compile()


def test_question_shows_choices_context_roles_and_editable_fields() -> None:
    with Runtime(routed(), store="memory:") as runtime:
        question = runtime.run({"answer": "Leaves."}, thread="t").interrupts[0]

    assert question.payload == {
        "question": "Publish tea?",
        "choices": ["approve", "reject", "edit"],
        "context": {"answer": "Leaves."},
        "roles": ["editor", "author"],
        "rationale": True,
        "edit": ["answer"],
    }
    assert {"choice", "by", "role", "rationale"} <= set(question.answer_schema["properties"])


@pytest.mark.parametrize(
    ("answer", "way"),
    [(ANN, "approved"), ({"choice": "reject", "by": "Bob", "role": "author", "rationale": "No."}, "rejected")],
)
def test_decision_is_routed_and_recorded(answer: dict[str, str], way: str) -> None:
    with Runtime(routed(), store="memory:") as runtime:
        runtime.run({}, thread="t")
        state = runtime.resume("t", answer=answer).state

    assert state.notes == [way]
    assert state.review == {**answer, "edits": {}}


def test_edit_replaces_the_field_and_asks_again() -> None:
    edit = {"choice": "edit", "by": "Ann", "rationale": "Short.", "edits": {"answer": "Hot leaves."}}
    with Runtime(routed(), store="memory:") as runtime:
        runtime.run({"answer": "Leaves."}, thread="t")
        again = runtime.resume("t", answer=edit)

        assert again.interrupts[0].payload["context"] == {"answer": "Hot leaves."}
        assert runtime.resume("t", answer=ANN).state.notes == ["approved"]


@pytest.mark.parametrize(
    "wrong",
    [
        {**ANN, "by": ""},
        {**ANN, "by": "   "},
        {name: value for name, value in ANN.items() if name != "by"},
        {**ANN, "role": "author"},
        {**ANN, "role": "king"},
        {name: value for name, value in ANN.items() if name != "role"},
        {**ANN, "rationale": ""},
        {**ANN, "choice": "perhaps"},
        {**ANN, "edits": {"answer": "x"}},
        {**ANN, "choice": "edit"},
        {**ANN, "choice": "edit", "edits": {"topic": "x"}},
        {**ANN, "more": 1},
        "approve",
        None,
    ],
    ids=str,
)
def test_answer_that_breaks_a_rule_is_refused_and_the_question_stays_open(wrong: Any) -> None:
    with Runtime(routed(), store="memory:") as runtime:
        asked = runtime.run({}, thread="t").interrupts

        with pytest.raises(InputError) as caught:
            runtime.resume("t", answer=wrong)
        assert caught.value.code == "bad-answer"
        assert runtime.state("t").interrupts == asked
        assert runtime.resume("t", answer=ANN).state.notes == ["approved"]


def test_any_named_person_may_decide_without_roles() -> None:
    with Runtime(one(human("{topic}?", into="verdict")), store="memory:") as runtime:
        runtime.run({}, thread="t")
        with pytest.raises(InputError):
            runtime.resume("t", answer={"choice": "approve"})

        assert runtime.resume("t", answer={"choice": "approve", "by": "Ann"}).state.verdict == "approve"


def test_timeout_is_a_choice_once_the_thread_is_retried() -> None:
    now = 0.0
    with Runtime(routed(timeout_s=60), store="memory:", clock=lambda: now) as runtime:
        assert runtime.run({}, thread="t").interrupts[0].expires_at == 60
        now = 61.0
        with pytest.raises(InputError) as caught:
            runtime.resume("t", answer=ANN)
        assert caught.value.code == "interrupt-expired"

        state = runtime.retry("t").state
        assert state.notes == ["late"]
        assert (state.review["choice"], state.review["by"]) == ("timeout", None)


def test_answer_in_time_counts_although_the_run_continues_later(tmp_path: Path) -> None:
    """The process that took the answer dies before the node runs again, and the next one starts a day later."""

    class Killed(BaseException):
        pass

    now, dies = 0.0, True

    def dying(state: Any) -> str:
        if dies:
            raise Killed
        return str(state.verdict)

    g = GraphBuilder(State).add_node("ask", human("{topic}?", into="verdict", timeout_s=60)).add_edge(START, "ask")
    g.add_conditional_edges("ask", dying, {"approve": END, "timeout": END})
    store = f"sqlite:///{tmp_path / 'runs.db'}"
    with Runtime(g.compile(), store=store, clock=lambda: now, lease_s=1) as runtime:
        runtime.run({}, thread="t")
        now = 59.0
        with pytest.raises(Killed):
            runtime.resume("t", answer={"choice": "approve", "by": "Ann"})
    now, dies = 90_000.0, False
    with Runtime(g.compile(), store=store, clock=lambda: now, lease_s=1) as runtime:
        assert runtime.retry("t").state.verdict == "approve"


def test_another_process_takes_the_answer(tmp_path: Path) -> None:
    """The class of the answer is identified by its rules, so a rebuilt graph can read the question."""
    from graphrt.nodes import _decision

    store = f"sqlite:///{tmp_path / 'runs.db'}"
    with Runtime(routed(), store=store) as runtime:
        runtime.run({}, thread="t")
    _decision.decision_type.cache_clear()
    with Runtime(routed(), store=store) as runtime:
        with pytest.raises(InputError):
            runtime.resume("t", answer={**ANN, "role": "author"})
        assert runtime.resume("t", answer=ANN).state.review["by"] == "Ann"


def test_question_without_a_thread_is_an_error() -> None:
    with pytest.raises(Exception, match="thread"):
        one(human("{topic}?", into="verdict")).run({})


# -- at a terminal -------------------------------------------------------------------------------------------------


class Terminal:
    """Answers prompts from a list, and then ends the input."""

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)
        self.shown: list[str] = []

    def __call__(self, prompt: str) -> str:
        self.shown.append(prompt)
        if not self.lines:
            raise EOFError
        return self.lines.pop(0)


def test_terminal_prompts_until_the_answer_is_valid() -> None:
    lines = Terminal("approve", "Bob", "author", "Mine.", "approve", "Ann", "editor", "Good.")

    state = routed(terminal=lines).run({"answer": "Leaves."}).state

    assert state.review["by"] == "Ann"
    assert "answer: Leaves." in lines.shown[0]
    assert "may not choose 'approve'" in lines.shown[4]


def test_fields_are_edited_at_a_terminal() -> None:
    lines = Terminal("edit", "Ann", "editor", "Short.", "Hot leaves.", "approve", "Ann", "editor", "Good.")

    assert routed(terminal=lines).run({"answer": "Leaves."}).state.answer == "Hot leaves."


@pytest.mark.parametrize(
    ("field", "typed", "wanted"),
    [
        ("answer", "1984", "1984"),
        ("answer", '"Hi"', '"Hi"'),
        ("words", "5", 5),
        ("pages", '["a"]', ["a"]),
        ("review", '{"a": 1}', {"a": 1}),
        ("verdict", "null", "null"),
    ],
)
def test_typed_value_has_the_type_of_its_field(field: str, typed: str, wanted: Any) -> None:
    node = human("Well?", into="topic", record="error", edit=field, terminal=Terminal("edit", "Ann", "", typed))
    state = one(node).run({}).state

    assert getattr(state, field) == wanted
    assert state.error is not None
    assert state.error["edits"] == {field: wanted}


def test_typed_value_that_does_not_fit_is_asked_for_again() -> None:
    lines = Terminal("edit", "Ann", "", "many", "edit", "Ann", "", "5")
    node = human("Well?", into="topic", edit="words", terminal=lines)

    assert one(node).run({}).state.words == 5
    assert lines.shown[4].startswith("Not valid: words: Input should be a valid integer")


def test_end_of_the_input_pauses_the_run() -> None:
    with Runtime(routed(terminal=Terminal("approve")), store="memory:") as runtime:
        assert runtime.run({}, thread="t").status == "interrupted"
        assert runtime.resume("t", answer=ANN).state.notes == ["approved"]


def test_run_without_a_terminal_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    import io
    import sys

    monkeypatch.setattr(sys, "stdin", io.StringIO("approve\n"))
    with Runtime(routed(terminal=True), store="memory:") as runtime:
        assert runtime.run({}, thread="t").status == "interrupted"


@pytest.mark.parametrize(
    "options",
    [
        {"choices": []},
        {"choices": ["a", "a"]},
        {"choices": ["edit"]},
        {"roles": {"aprove": ["editor"]}},
        {"roles": []},
        {"record": "verdict"},
        {"show": [1]},
        {"timeout_s": 0},
        {"timeout_s": "60"},
    ],
    ids=str,
)
def test_invalid_arguments_are_refused_at_once(options: Any) -> None:
    with pytest.raises(InputError) as caught:
        human("Well?", into="verdict", **options)
    assert caught.value.code == "input"


def test_edit_that_does_not_match_its_field_fails_and_can_be_answered_again() -> None:
    edit = {"choice": "edit", "by": "Ann", "rationale": "x", "edits": {"answer": ["not", "a", "text"]}}
    with Runtime(routed(), store="memory:") as runtime:
        runtime.run({}, thread="t")
        with pytest.raises(Exception, match="answer"):
            runtime.resume("t", answer=edit)

        assert runtime.resume("t", answer=ANN).state.notes == ["approved"]


def test_reason_is_optional_unless_it_is_requested() -> None:
    with Runtime(routed(rationale=False), store="memory:") as runtime:
        runtime.run({}, thread="t")

        assert runtime.resume("t", answer={**ANN, "rationale": ""}).state.notes == ["approved"]


def test_unfillable_template_of_the_question_fails_the_node() -> None:
    with pytest.raises(NodeError, match="cannot be filled"):
        one(human("{verdict}?", into="verdict")).run({}, thread="t", store="memory:")
