"""Every event is restored unchanged from its stored form, and the forms are the documented ones."""

from __future__ import annotations

import re
import typing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import from_json
from tests.journal.event_forms import CODEC, FIELDS, HANDLED, JOIN, PATH, USAGE, alike, instances, logged, own_fields

from graphrt import events
from graphrt._codec import NotStorable
from graphrt._engine import evolve, questions
from graphrt._journal.batch import Batch
from graphrt._journal.batch_format import encode, encode_state
from graphrt._journal.body import VERSION, Body, Names
from graphrt._journal.event_schema import CODES, FORMS, NODE_IN_TASK_ID
from graphrt._journal.field_codecs import CHECKSUMS, EACH_AMOUNTS, TEXT, TEXTS
from graphrt._journal.reader import Reader
from graphrt.stores import MemoryStore

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "journal.md"
MARK = "word of the user"
DUE = "next sends errors joins"
GIVEN_OUT = {
    1: "graph fingerprint thread seed input fresh",
    2: "verb thread",
    3: "id answer",
    4: "id task node payload key answer_type expires_at usage",
    5: "task node attempt delay_s error message usage",
    6: "task key starts",
    7: "task key result",
    8: "task updates goto sends usage",
    9: "task error message handler exception usage",
    10: "task",
    11: "node visits route",
    12: f"superstep wrote {DUE}",
    13: f"reason {DUE}",
    14: "values as_node next sends errors joins open",
    15: f"values superstep steps visits {DUE} entering usage status run seed cause fingerprint names digests",
    16: "source at state",
    17: "source target why values",
    18: "upto",
    19: "interrupts folded",
    20: "steps folded",
    21: "error message node folded",
    22: "reason folded",
    35: "reason",
    23: "id",
    24: "id reason",
    25: "id reworded payload nth",
    26: "id reason nth",
    27: "superstep tasks finished interrupts effects next usage",
    28: "task key failed_attempts reply usage model answers",
    29: "task key failed_attempts nth usage model",
    30: "task failed_attempts",
    31: "task key failed_attempts reservations",
    32: "task key failed_attempts",
    33: "task question of amounts",
    34: "by reason records lines",
    36: "title tags user",
    37: "id name value user",
    38: "id interrupt",
    39: "id what reason",
    40: "task key thread graph detached made",
    41: "task key failed_attempts text model attempt",
    42: "user",
    43: "source thread",
    44: "task namespace key value deleted expires_s expires_at",
}
"""Fields by code, as they were when versions 1 and 2 (from 28 on) were given out: more may follow, none may change."""


def reader(*known: str) -> Reader:
    return Reader(MemoryStore(), "t", CODEC, known)


def written(*batch: tuple[str, Any], names: Names | None = None, at: float = 1.5, run: str = "r") -> tuple[bytes, Body]:
    body = Body(CODEC, names if names is not None else Names())
    return encode(body, Batch(at, run, 3, list(batch))), body


def test_every_event_class_has_a_strategy() -> None:
    assert set(FIELDS) == {*typing.get_args(events.Event), events.StateSaved}
    assert set(FIELDS) == set(FORMS) == set(CODES)


@pytest.mark.parametrize("kind", FIELDS, ids=lambda kind: kind.__name__)
def test_every_field_has_a_strategy_and_a_place_in_the_form(kind: Any) -> None:
    stored = {name for name, _ in FORMS[kind]} | ({"node"} if kind in NODE_IN_TASK_ID else set())

    assert own_fields(kind) == stored == set(FIELDS[kind]) - ({"node"} - own_fields(kind))


def test_every_field_of_nested_values_has_a_strategy() -> None:
    assert own_fields(events.Usage) == set(USAGE)
    assert own_fields(events.JoinStanding) == set(JOIN)
    assert own_fields(events.HandledTask) == set(HANDLED)


@pytest.mark.parametrize("kind", FIELDS, ids=lambda kind: kind.__name__)
@settings(max_examples=12 if settings().max_examples <= 200 else 1_000)
@given(data=st.data())
def test_event_is_restored_unchanged(kind: Any, data: Any) -> None:
    path = data.draw(st.sampled_from(["", PATH]))
    event = data.draw(instances(kind, path))
    payload, body = written((path, event))
    read = reader()
    read._blobs = body.blobs
    [(back_path, back)] = read.body(payload)[0].logged

    assert back_path == path
    assert alike(back, event), f"{event}\n{back}"


@given(
    st.lists(st.lists(logged(), max_size=4), min_size=1, max_size=3), st.floats(-1e12, 1e12), st.text("ab", max_size=3)
)
def test_batches_are_restored_in_order_with_the_earlier_names(batches: Any, at: float, run: str) -> None:
    names, read = Names(), reader()
    for batch in batches:
        payload, body = written(*batch, names=names, at=at, run=run)
        read._blobs |= body.blobs
        back, told = read.body(payload)

        assert (back.at, back.run, back.cause) == (at, run, 3)
        assert alike(list(back.logged), batch)
        assert told.lines == body.lines
        assert told.written == body.written
        assert read.names.known == names.known


@given(st.lists(logged(), max_size=4))
def test_body_is_lines_of_json_and_a_checksum(batch: Any) -> None:
    payload, body = written(*batch)
    *lines, check = payload.split(b"\n")

    assert lines == body.lines
    assert re.fullmatch(rb"[0-9a-f]{8}", check)
    for line in lines:
        from_json(line, allow_inf_nan=False)
    assert from_json(lines[0])[0] == VERSION


def test_codes_equal_those_of_the_reference() -> None:
    rows = re.findall(r"^- (\d+)-(\d+): (`[A-Z].*)$", REFERENCE.read_text(encoding="utf-8"), re.MULTILINE)
    codes = [code for first, last, _ in rows for code in range(int(first), int(last) + 1)]
    names = [name for *_, text in rows for name in re.findall(r"`(\w+)`", text)]

    assert {kind.__name__: code for kind, code in CODES.items()} == dict(zip(names, codes, strict=True))


@pytest.mark.parametrize("code", GIVEN_OUT)
def test_form_starts_with_the_assigned_fields(code: int) -> None:
    kind = {code: kind for kind, code in CODES.items()}[code]
    first = GIVEN_OUT[code].split()

    assert [name for name, _ in FORMS[kind]][: len(first)] == first


def test_every_code_is_listed_here() -> None:
    assert sorted(CODES.values()) == sorted(GIVEN_OUT)


SAVED = events.StateSaved(values={"a": MARK}, superstep=1, steps=1, visits={}, next=("n",), sends={0: MARK})
USERS: list[Any] = [
    events.RunStarted(graph="g", fingerprint="f", thread="t", seed=1, input={"a": MARK}),
    events.InterruptAnswered(id="i", answer=[MARK]),
    events.InterruptRaised(id="i", task="1.0:n", node="n", payload={MARK: MARK}),
    events.TaskRetried(task="1.0:n", node="n", attempt=1, delay_s=0.5, error="ValueError", message=MARK),
    events.AnswerUsed(id="i", reworded=True, payload=MARK),
    events.EffectStarted(task="1.0:n", key="k", arguments=[MARK]),
    events.EffectRecorded(task="1.0:n", key="k", result=MARK),
    events.MemoryWritten(task="1.0:n", namespace=MARK, key=MARK, value=MARK, embedded=MARK),
    events.ModelReplied(task="1.0:n", key="k", reply={"text": MARK}),
    events.ReplyStopped(task="1.0:n", key="k", text=MARK),
    events.TaskSucceeded(task="1.0:n", node="n", updates=({"a": MARK},), goto=("n",), sends={0: MARK}),
    events.TaskFailed(
        task="1.0:n", node="n", error="ValueError", message=MARK, handler="h", exception=ValueError(MARK)
    ),
    events.SuperstepCommitted(superstep=1, wrote=(), next=("n",), sends={0: MARK}, errors={0: ValueError(MARK)}),
    events.SuperstepAbandoned(superstep=1, said={"a": MARK}),
    events.TasksRouted(reason="entry", next=("n",), sends={0: MARK}),
    events.ThreadUpdated(values={"a": MARK}, as_node=None, sends={0: MARK}),
    SAVED,
    events.StateSaved(values={}, superstep=1, steps=1, visits={}, next=(), signals=(("i", "n", MARK),)),
    events.SignalReceived(id="i", name="n", value=[MARK]),
    events.ThreadLabelled(title=MARK, tags=()),
    events.ThreadLabelled(title=None, tags=(MARK,)),
    events.ThreadForked(source="s", at=1, state=SAVED),
    events.ThreadStarted(task="1.0:n", key="k", thread="t", graph="g", arguments=[MARK]),
    events.ThreadMigrated(source="f", target="g", why="compatible", values={"a": MARK}),
    events.RunFailed(error="ValueError", message=MARK, node="n"),
]
"""Events with values of the user."""


def test_every_event_that_may_have_values_of_the_user_is_listed() -> None:
    without = {codec.lines for codec in (TEXT, TEXTS, CHECKSUMS, EACH_AMOUNTS)}
    kinds = {kind for kind, form in FORMS.items() if not without.issuperset(codec.lines for _, codec in form)}

    assert kinds == {type(event) for event in USERS}


@pytest.mark.parametrize("event", USERS, ids=lambda event: type(event).__name__)
def test_structure_contains_no_value_of_the_user(event: Any) -> None:
    payload, body = written(("", event))

    assert MARK.encode() in payload
    assert MARK.encode() not in body.lines[0]


def test_text_with_lone_surrogates_is_stored_escaped() -> None:
    event = events.RunFailed(error="\ud800Error", message="half \udcff", node=None)
    [(_, back)] = reader().body(written(("", event))[0])[0].logged

    assert (back.error, back.message) == ("\\ud800Error", "half \\udcff")


@pytest.mark.parametrize("cost", [float("nan"), float("inf"), -float("inf"), 1e308, -0.0])
def test_number_that_json_does_not_support_is_restored(cost: float) -> None:
    """A harness may report any price: its thread has to stay readable."""
    event = events.TaskSucceeded(task="1.0:n", node="n", usage=events.Usage(calls=1, cost_usd=cost))
    [(_, back)] = reader().body(written(("", event))[0])[0].logged

    assert alike(back, event)


def test_untracked_fields_are_not_written() -> None:
    body = Body(CODEC, Names(), frozenset({"secret"}))
    event = events.RunStarted(graph="g", fingerprint="f", thread="t", seed=1, input={"a": 1, "secret": MARK})
    payload = encode(body, Batch(0.0, "r", 0, [("", event)]))

    assert MARK.encode() not in payload
    assert reader().body(payload)[0].logged[0][1].input == {"a": 1}


def test_only_fields_of_the_top_are_reported_as_written() -> None:
    inner = events.TaskSucceeded(task=f"{PATH}1.0:n", node="n", updates=({"a": 1},))
    outer = events.TaskSucceeded(task="1.0:n", node="n", updates=({"b": 2}, {"a": 3}))
    payload, body = written((PATH, inner), ("", outer))

    assert [(name, body.lines[at]) for name, at in body.written] == [("b", b"2"), ("a", b"3")]
    assert reader().body(payload)[1].written == body.written


def test_large_value_is_stored_apart_under_its_content() -> None:
    event = events.ThreadUpdated(values={"a": MARK * 10_000, "b": MARK * 10_000, "c": 1}, as_node=None)
    payload, body = written(("", event))
    read = reader()
    read._blobs = body.blobs

    assert len(body.blobs) == 1
    assert len(payload) < 500
    assert alike(read.body(payload)[0].logged[0][1], event)


def test_snapshot_has_its_own_names() -> None:
    state = events.StateSaved(values={"a": 1}, superstep=2, steps=2, visits={"n": 2}, next=("n",), names=("x", "n"))
    read = reader("other")

    assert read.saved(encode_state(Body(CODEC, Names()), state), 1) == state
    assert read.names.known == ["other"]


def test_body_that_could_not_be_written_leaves_no_names() -> None:
    names, read = Names(), reader()
    with pytest.raises(NotStorable):
        written(("", events.ThreadUpdated(values={"a": object()}, as_node="new")), names=names)
    with pytest.raises(NotStorable):
        written(("", events.EffectRecorded(task="1.0:new", key="k", result=object())), names=names)

    payload, _ = written(("", events.OutcomeDropped(task="1.0:new", node="new")), names=names)
    assert read.body(payload)[0].logged[0][1].node == "new"


def test_every_event_changes_the_state_or_is_listed_as_neutral() -> None:
    """A new event in neither list would be stored, and ignored by every load."""
    applied = {*evolve._APPLY, *questions.APPLY, events.InterruptRaised}

    assert applied | evolve.CHANGE_NOTHING == set(FORMS) | {events.StateSaved}
    assert not applied & evolve.CHANGE_NOTHING
