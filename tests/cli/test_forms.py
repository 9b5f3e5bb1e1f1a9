"""Forms from JSON schemas: nested models, enums, lists, optional fields, and invalid answers."""

from __future__ import annotations

from datetime import date
from enum import Enum
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from graphrt.cli.forms import Form, NoAnswer


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Address(BaseModel):
    street: str = Field(min_length=2, description="Street and number")
    zip: int = Field(ge=1000, le=99999)


class Order(BaseModel):
    colour: Colour
    amount: int = Field(gt=0)
    when: date | None = None
    home: Address
    tags: list[str] = []
    others: list[Address] = []
    kind: Literal["a", "b"] | int = "a"
    sure: bool = False


class Person:
    """A screen whose person types prepared lines; each must follow its prompt."""

    def __init__(self, *typed: tuple[str, str]) -> None:
        self.typed = list(typed)
        self.shown: list[str] = []

    def line(self, *segments: Any) -> None:
        self.shown.append("".join(one if isinstance(one, str) else one[0] for one in segments))

    def ask(self, prompt: str) -> str | None:
        if not self.typed:
            return None
        wanted, text = self.typed.pop(0)
        assert prompt == wanted
        return text


def asked(model: type[BaseModel], *typed: tuple[str, str]) -> tuple[Any, list[str]]:
    person: Any = Person(*typed)
    found = Form(person, model.model_json_schema()).ask()
    assert person.typed == []
    return found, [line for line in person.shown if line.startswith("!")]


def test_model_with_every_kind_of_field_is_filled_in_and_invalid_lines_are_asked_again() -> None:
    found, problems = asked(
        Order,
        ("colour:", "green"), ("colour:", "2"),
        ("amount:", "many"), ("amount:", "0"), ("amount:", "4"),
        ("when (optional):", "tomorrow"), ("when (optional):", "2026-02-03"),
        ("street:", "x"), ("street:", "Main 1"),
        ("zip:", "5"), ("zip:", "12345"),
        ("tags 1 (optional):", "one"), ("tags 2 (optional):", ""),
        ("others: add one? (y/n) [n]:", "y"), ("street:", "Side 2"), ("zip:", "2000"), ("others: another? (y/n) [n]:", ""),
        ("kind: which form (optional):", "2"), ("kind:", "7"),
        ("sure (y/n) [n]:", "perhaps"), ("sure (y/n) [n]:", "y"),
    )  # fmt: skip

    assert Order.model_validate(found) == Order(
        colour=Colour.BLUE, amount=4, when=date(2026, 2, 3), home=Address(street="Main 1", zip=12345), tags=["one"],
        others=[Address(street="Side 2", zip=2000)], kind=7, sure=True,
    )  # fmt: skip
    assert problems == [
        "! choose 1 to 2, or one of the values",
        "! 'many' is not a whole number",
        "! above 0",
        "! write it as 2026-01-31",
        "! at least 2 characters",
        "! at least 1000, at most 99999",
        "! say y or n",
    ]


def test_empty_lines_leave_defaults_and_end_lists() -> None:
    found, problems = asked(
        Order,
        ("colour:", "red"), ("amount:", "1"), ("when (optional):", ""), ("street:", "Main 1"), ("zip:", "12345"),
        ("tags 1 (optional):", ""), ("others: add one? (y/n) [n]:", ""), ("kind: which form (optional):", ""),
        ("sure (y/n) [n]:", ""),
    )  # fmt: skip

    assert Order.model_validate(found) == Order(colour=Colour.RED, amount=1, home=Address(street="Main 1", zip=12345))
    assert problems == []


def test_person_who_leaves_the_form_gives_no_answer() -> None:
    with pytest.raises(NoAnswer):
        asked(Order, ("colour:", "red"))


@pytest.mark.slow
def test_answer_that_only_validation_rejects_is_asked_for_again(terminal, folder) -> None:
    """A validator of the model is not in its schema: it refuses the whole form, and the run asks again."""
    (folder / "even.py").write_text(
        "from typing import Any\nfrom pydantic import BaseModel, field_validator\n"
        "from graphrt import END, START, Context, GraphBuilder\n"
        "class Even(BaseModel):\n    number: int\n"
        "    @field_validator('number')\n    @classmethod\n"
        "    def even(cls, value: int) -> int:\n"
        "        if value % 2:\n            raise ValueError('odd')\n        return value\n"
        "class State(BaseModel):\n    given: Even | None = None\n"
        "g = GraphBuilder(State, name='even')\n"
        "@g.node\n"
        "def ask(state: State, ctx: Context) -> dict[str, Any]:\n"
        "    return {'given': ctx.interrupt('an even number', answer_type=Even)}\n"
        "g.add_sequence([START, ask, END])\ngraph = g.compile()\n"
    )
    for words in (["run", "even.py:graph"], ["resume", "even.py:graph", "t", "--store", "t.db"]):
        if words[0] == "resume":
            assert terminal("run", "even.py:graph", "--thread", "t", "--store", "t.db", "--no-input").code == 4
        done = terminal(*words, answers=[("number:", "3\n"), ("number:", "4\n")])

        assert done.code == 0, done.text
        assert "does not fit: answer.number: Value error, odd" in done.text
        assert "Even(number=4)" in done.text
