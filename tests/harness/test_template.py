"""The only syntax of a template is `{name}`; it refuses everything ambiguous, and never guesses."""

from __future__ import annotations

import pickle
import re
from dataclasses import dataclass
from typing import Any, TypedDict

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, computed_field

from graphrt.errors import InputError
from graphrt.harness.template import Template


class State(BaseModel):
    topic: str = "tea"
    style: str | None = None
    rows: list[int] = []

    @computed_field  # type: ignore[prop-decorator]
    @property
    def loud(self) -> str:
        return self.topic.upper()

    @property
    def hidden(self) -> str:
        return "hidden"


@dataclass
class Data:
    topic: str = "tea"
    style: str | None = None


class Dict(TypedDict, total=False):
    topic: str
    style: str


def refused(action: Any, *arguments: Any, **options: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        action(*arguments, **options)
    return caught.value


# -------------------------------------------------------------------------------------------------------- grammar


def test_fields_are_filled() -> None:
    template = Template("Summarise {topic} in {style}, then {topic} again.")

    assert template.fields == ("topic", "style")
    assert template.render({"topic": "tea", "style": "verse"}) == "Summarise tea in verse, then tea again."


LITERAL = [
    "",
    "{",
    "}",
    "}{",
    "{}",
    "{ }",
    "{{}}",
    "{{",
    "}}",
    '{"a": 1}',
    '{ "a": {"b": [{}]}, "c": "x" }',
    "{'a': 1}",
    '{\n  "a": 1\n}',
    "{\n  name: string\n}",
    "function f() { return x; }",
    "{n + 1}",
    "{a, b}",
    "{2,5}",
    "{-1}",
    "{*args}",
    "{name",
    "{name\n}",
    "{x.}",
    "{wow!}",
    "{x!}",
    "{a=1}",
    "{$x}",
    "{% if x %}",
    "{# note #}",
    "\\{",
    "{é è}",
]


@pytest.mark.parametrize("text", LITERAL)
def test_braces_that_cannot_be_a_field_stay(text: str) -> None:
    template = Template(text)

    assert template.fields == ()
    assert template.render() == text


REFUSED = [
    ("{x.__class__}", "attributes"),
    ("{x.__class__.__mro__}", "attributes"),
    ("{x.y!r}", "attributes"),
    ("{0}", "no number"),
    ("{12}", "no number"),
    ("{0.x}", "attributes"),
    ("{0:>5}", "format"),
    ("{x!r:>9999999}", "conversions"),
    ("{x!r}", "conversions"),
    ("{x!s:}", "conversions"),
    ("{x[0]}", "items"),
    ("{x[key]}", "items"),
    ("{x:>5}", "format"),
    ("{x: >5}", "format"),
    ("{x:}", "format"),
    ("{x:%Y-%m-%d}", "format"),
    ("{x:{width}}", "format"),
    ("{x[{y}]}", "items"),
    ("{name: string}", "quotes"),
    ("{ x }", "spaces"),
    ("{x }", "spaces"),
    ("{ x.y }", "attributes"),
    ("{len(x)}", "calls"),
    ("{user-name}", "dashes"),
    ("{{x}}", "doubled"),
    ("${{x}}", "doubled"),
    ("{{{x}}}", "doubled"),
]


@pytest.mark.parametrize(("text", "why"), REFUSED)
def test_malformed_field_is_refused_when_the_template_is_built(text: str, why: str) -> None:
    error = refused(Template, f"Write\n  of {text}.")

    assert error.code == "template-field"
    assert why in error.what
    assert error.value in text
    assert error.where.startswith("line 2, column ")


def test_all_mistakes_are_reported_with_their_positions() -> None:
    error = refused(Template, "{x.y}\nand {0}, {ok}")

    assert error.where == "line 1, column 1"
    assert "also '{0}' in line 2" in error.known


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"topic": "{x}"}', '{"topic": "V"}'),
        ('{"a": {x}}', '{"a": V}'),
        ("{{x}, {x}}", "{V, V}"),
        ("${x}", "$V"),
        ("{x}{x}", "VV"),
        ("{{x} }", "{V }"),
        ("{x", "{x"),
    ],
)
def test_fields_may_be_inside_other_braces(text: str, shown: str) -> None:
    assert Template(text).render(**({"x": "V"} if "V" in shown else {})) == shown


@pytest.mark.parametrize("name", ["straße", "_x", "x1", "名", "class"])
def test_every_python_identifier_is_a_valid_name(name: str) -> None:
    assert Template(f"{{{name}}}").render({name: "V"}) == "V"


@pytest.mark.parametrize("text", [None, 5, b"x"])
def test_template_of_another_type_is_refused(text: Any) -> None:
    refused(Template, text)


def test_templates_are_values() -> None:
    template = Template("{x}")

    assert template == Template("{x}") != Template("{y}")
    assert hash(template) == hash(Template("{x}"))
    assert repr(template) == "Template(text='{x}')"
    assert pickle.loads(pickle.dumps(template)).render(x="V") == "V"


@given(st.text(alphabet="{}[]()!:.,-x0 \n\"'", max_size=12))
@example("{x}{x!r}")
@example("{x0}")
def test_any_text_is_parsed_or_refused(text: str) -> None:
    """With marked values, the rendered text is the template with its fields replaced, and no more."""
    try:
        template = Template(text)
    except InputError:
        return

    assert all(re.fullmatch("x[x0]*", name) for name in template.fields)
    rendered = template.render(**{name: f"\0{name}\1" for name in template.fields})
    assert rendered.replace("\0", "{").replace("\1", "}") == text
    assert rendered.count("\0") == len(re.findall(r"\{x[x0]*\}", text))


# ---------------------------------------------------------------------------------------------------------- check


@pytest.mark.parametrize("state_type", [State, Data, Dict])
def test_check_passes_names_of_the_state(state_type: Any) -> None:
    template = Template("{topic} {style}")

    assert template.check(state_type) is template


@pytest.mark.parametrize("state_type", [State, Data, Dict])
def test_check_refuses_unknown_names_with_a_suggestion(state_type: Any) -> None:
    error = refused(Template("{topik} {other}").check, state_type)

    assert error.code == "template-unknown"
    assert "'topik', 'other'" in error.what
    assert state_type.__name__ in error.what
    assert "Did you mean 'topic' for 'topik'?" in error.fix


def test_check_knows_computed_fields_and_names_passed_later() -> None:
    Template("{loud} {extra}").check(State, more=["extra"])

    assert refused(Template("{hidden}").check, State).code == "template-unknown"


@pytest.mark.parametrize("state_type", [int, dict, "State", State(), None])
def test_check_against_a_type_that_is_not_a_state_is_refused(state_type: Any) -> None:
    assert refused(Template("{x}").check, state_type).code == "input"


# --------------------------------------------------------------------------------------------------------- render


@pytest.mark.parametrize("state", [State(topic="milk"), Data("milk"), {"topic": "milk"}])
def test_values_come_from_the_state_and_explicit_ones_win(state: Any) -> None:
    template = Template("{topic} {style}")

    assert template.render(state, style="short") == "milk short"
    assert template.render(state, style="short", topic="tea") == "tea short"


def test_names_of_arguments_are_not_reserved() -> None:
    assert Template("{self} {state}").render(self="a", state="b") == "a b"


@pytest.mark.parametrize("state", [State(), Data(), {"topic": "tea", "style": None}])
def test_field_with_the_value_none_is_refused(state: Any) -> None:
    error = refused(Template("{topic} {style}").render, state)

    assert error.code == "template-missing"
    assert error.field == "style"
    assert "'style' is None" in error.what


@pytest.mark.parametrize("state", [State(), Data(), {}, None])
def test_missing_field_is_refused(state: Any) -> None:
    error = refused(Template("{other} {hidden}").render, state)

    assert error.code == "template-missing"
    assert "'other' is not there, 'hidden' is not there" in error.what


def test_unused_value_is_refused() -> None:
    error = refused(Template("{topic}").render, State(), topik="x")

    assert error.code == "template-unknown"
    assert "Did you mean 'topic'" in error.fix


@pytest.mark.parametrize("state", [5, "topic", State, object()])
def test_rendering_from_a_value_that_is_not_a_state_is_refused(state: Any) -> None:
    assert refused(Template("{topic}").render, state).code == "input"


@given(st.text(max_size=20))
@example("{topic} {0} {x.__class__} }{")
def test_values_are_never_rendered_again(value: str) -> None:
    assert Template("<{topic}|{topic}>").render(topic=value) == f"<{value}|{value}>"


def test_extra_fields_of_a_model_are_available() -> None:
    class Open(BaseModel, extra="allow"):
        pass

    assert Template("{x}").render(Open(x="V")) == "V"  # type: ignore[call-arg]
