"""The events of AG-UI: valid types of the protocol, in the order that its client checks, and equal to the journal."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable
from copy import deepcopy
from typing import Any

import pytest

from graphrt import END, START, Context, GraphBuilder, RetryPolicy, Runtime
from graphrt.harness import Agent, Image, ScriptedModel, UserMessage
from graphrt.wires.ag_ui import wire

from .chats import ANSWERS, GIVEN, LABEL, MODES, PICTURE, Desk, desk, fold, opened

Event = dict[str, Any]


def events_of(text: str) -> list[Event]:
    return [json.loads(one.removeprefix("data: ")) for one in text.split("\n\n") if one]


class Page:
    """The state of a page after events: messages, state and interrupts, assembled and checked like the client does."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.messages: list[dict[str, Any]] = []
        self.state: Any = None
        self.end: Event = {}
        self._open: set[tuple[str, ...]] = set()
        self._subagents: set[str] = set()
        for one in events:
            take = getattr(self, f"_{one['type'].lower()}", None)  # other events change nothing here
            if take is not None:
                take(one)

    def _message(self, id_: str, **new: Any) -> dict[str, Any]:
        for one in self.messages:
            if one["id"] == id_:
                return one
        self.messages.append({"id": id_, **new})
        return self.messages[-1]

    def _begin(self, *key: str) -> None:
        assert key not in self._open, key
        self._open.add(key)

    def _finish(self, *key: str) -> None:
        self._open.remove(key)

    def _run_started(self, one: Event) -> None:
        self.end = {}
        self._subagents.clear()
        self._begin("run")
        for said in one.get("input", {}).get("messages", ()):
            self._message(said["id"], role="user", text=said["content"])

    def _run_finished(self, one: Event) -> None:
        self._finish("run")
        assert not self._open
        self.end = one["outcome"]

    def _run_error(self, one: Event) -> None:
        self._open.clear()
        self.end = one

    def _step_started(self, one: Event) -> None:
        self._begin("step", one.get("subagentRunId", ""), one["stepName"])

    def _step_finished(self, one: Event) -> None:
        self._finish("step", one.get("subagentRunId", ""), one["stepName"])

    def _subagent_started(self, one: Event) -> None:
        assert one["subagentRunId"] not in self._subagents
        assert one.get("parentSubagentRunId", one["subagentRunId"]) in {*self._subagents, one["subagentRunId"]}
        self._subagents.add(one["subagentRunId"])
        self._begin("subagent", one["subagentRunId"])

    def _subagent_finished(self, one: Event) -> None:
        self._finish("subagent", one["subagentRunId"])

    _subagent_error = _subagent_finished

    def _text_message_start(self, one: Event) -> None:
        self._begin("text", one["messageId"])
        self._message(one["messageId"], role="assistant", of=one.get("subagentRunId", "")).setdefault("text", "")

    def _text_message_content(self, one: Event) -> None:
        assert ("text", one["messageId"]) in self._open
        self._message(one["messageId"])["text"] += one["delta"]

    def _text_message_end(self, one: Event) -> None:
        self._finish("text", one["messageId"])

    def _tool_call_start(self, one: Event) -> None:
        self._begin("tool", one["toolCallId"])
        parent = self._message(one["parentMessageId"], role="assistant", of=one.get("subagentRunId", ""))
        parent.setdefault("calls", {})[one["toolCallId"]] = [one["toolCallName"], ""]

    def _tool_call_args(self, one: Event) -> None:
        next(m for m in self.messages if one["toolCallId"] in m.get("calls", {}))["calls"][one["toolCallId"]][1] += one[
            "delta"
        ]

    def _tool_call_end(self, one: Event) -> None:
        self._finish("tool", one["toolCallId"])

    def _tool_call_result(self, one: Event) -> None:
        self._message(one["messageId"], role="tool", call=one["toolCallId"], text=one["content"])

    def _activity_snapshot(self, one: Event) -> None:
        made = self._message(one["messageId"], role="activity", of=one.get("subagentRunId", ""))
        made["file"] = one["content"]

    def _reasoning_start(self, one: Event) -> None:
        self._begin("reasoning", one["messageId"])
        self._message(one["messageId"], role="reasoning", text="")

    def _reasoning_message_content(self, one: Event) -> None:
        assert ("reasoning", one["messageId"]) in self._open
        self._message(one["messageId"])["text"] += one["delta"]

    def _reasoning_end(self, one: Event) -> None:
        self._finish("reasoning", one["messageId"])

    def _state_snapshot(self, one: Event) -> None:
        self.state = deepcopy(one["snapshot"])

    def _state_delta(self, one: Event) -> None:
        for change in one["delta"]:
            target, *path = self.state, *change["path"].split("/")[1:]
            for name in path[:-1]:
                target = target[name]
            if change["path"].endswith("/-"):
                target.append(change["value"])
            else:
                target[path[-1]] = change["value"]


def image(file: Image) -> Event:
    """A picture as a content part."""
    assert file.data is not None
    source = {"type": "data", "value": b64encode(file.data).decode(), "mimeType": "image/png"}
    return {"type": "image", "source": source}


def whole() -> tuple[list[Event], list[Page]]:
    """The committed events of a thread with every feature, and the page at each end of a run."""
    with opened() as shop:
        shop.run(GIVEN, thread="t")
        for answer in ANSWERS:
            shop.resume("t", answer=answer)
        text = wire(shop.entries("t"), state_at=lambda seq: shop.state("t", at=seq), shows={"notes", "colour"})
    found = events_of(text)
    ends = [at for at, one in enumerate(found, 1) if one["type"] == "RUN_FINISHED"]
    return found, [Page(found[:at]) for at in ends]


def test_simple_turn_has_the_events_of_the_protocol() -> None:
    g = GraphBuilder(Desk, name="desk")

    @g.node
    async def talk(state: Desk, ctx: Context) -> dict[str, Any]:
        reply = await ctx.bind(Agent("none", name="clerk")).run(state.messages)
        return {"notes": [reply.text]}

    g.add_sequence([START, talk, END])
    models = {"clerk": ScriptedModel(["Hello!"])}
    with Runtime(g.compile(), store="memory:", models=models) as shop:
        shop.run(GIVEN, thread="t")
        text = wire(shop.entries("t"), state_at=lambda seq: shop.state("t", at=seq), shows={"notes"})

    begun, snapshot, *rest = events_of(text)
    ended = rest.pop()
    assert text.startswith('data: {"type":"RUN_STARTED","threadId":"t",')
    assert begun["input"]["messages"] == [{"id": "m1", "role": "user", "content": "A kettle"}]
    assert snapshot == {"type": "STATE_SNAPSHOT", "snapshot": {"notes": []}}
    assert rest == [
        {"type": "STEP_STARTED", "stepName": "talk"},
        {"type": "TEXT_MESSAGE_START", "messageId": "1.0:talk/0", "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "1.0:talk/0", "delta": "Hello!"},
        {"type": "TEXT_MESSAGE_END", "messageId": "1.0:talk/0"},
        {"type": "STEP_FINISHED", "stepName": "talk"},
        {"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/notes/-", "value": "Hello!"}]},
    ]
    usage = {"model": "scripted", "inputTokens": 2, "outputTokens": 1, "totalTokens": 3}
    assert ended == {
        "type": "RUN_FINISHED", "threadId": "t", "runId": "t:1", "outcome": {"type": "success"}, "usage": [usage],
    }  # fmt: skip


def test_page_gets_messages_subagents_interrupts_and_its_visible_fields() -> None:
    found, (approval, question, done) = whole()

    assert "sesame" not in json.dumps(found)
    (asked,) = approval.end["interrupts"]
    assert (asked["reason"], asked["message"]) == ("approval", "Approve the call of book?")
    assert asked["toolCallId"] in next(m for m in approval.messages if "calls" in m)["calls"]
    (wanted,) = question.end["interrupts"]
    assert (wanted["message"], wanted["responseSchema"]) == ("Which colour?", {"type": "string"})
    assert wanted["subagentRunId"] == "2.0:paint"
    assert done.end == {"type": "success"}
    assert done.state == {"notes": ["talked", "Red and blue."], "colour": "red"}
    said = [(one["role"], one.get("of", ""), one["text"]) for one in done.messages if one.get("text")]
    assert said == [
        ("user", "", "A kettle"),
        ("assistant", "1.0:talk/c1", "The blue one."),
        ("tool", "", "The blue one."),
        ("tool", "", [{"type": "text", "text": "kettle is put aside"}, image(LABEL)]),
        ("assistant", "", "Done: kettle is put aside."),
        ("assistant", "2.0:paint", "Red and blue."),
    ]
    assert [(one["id"], one["file"]) for one in done.messages if "file" in one] == [
        ("2.0:paint/1.0:ask/0/file/0", image(PICTURE))
    ]


@pytest.mark.needs("ag_ui")
def test_every_event_belongs_to_the_protocol() -> None:
    from ag_ui.core import PROTOCOL_VERSION
    from ag_ui.core import Event as Known
    from pydantic import TypeAdapter

    known: TypeAdapter[Any] = TypeAdapter(Known)
    found, _ = whole()

    assert PROTOCOL_VERSION == "1.0"
    assert {one["type"] for one in found} >= {
        "SUBAGENT_STARTED", "SUBAGENT_FINISHED", "STATE_DELTA", "TOOL_CALL_RESULT", "STEP_FINISHED",
    }  # fmt: skip
    for one in found:
        made = known.validate_python(one)
        assert not made.model_extra
        assert made.model_dump(mode="json", by_alias=True) == one


def test_watched_run_ends_with_the_page_of_its_journal() -> None:
    with opened() as shop:
        made, shown = fold("ag-ui", shop), list[Event]()

        def watch(stream: Any) -> None:
            for mode, item in stream:
                shown.extend(made.entry(item) if mode == "events" else made.live(mode, item))

        watch(shop.stream(GIVEN, thread="t", modes=MODES))
        for answer in ANSWERS:
            watch(shop.stream(thread="t", answer=answer, modes=MODES))
        committed = Page(
            events_of(wire(shop.entries("t"), state_at=lambda s: shop.state("t", at=s), shows=("notes", "colour")))
        )
        live = Page(shown)

    assert {one["id"]: one for one in live.messages} == {one["id"]: one for one in committed.messages}
    assert (live.state, live.end) == (committed.state, committed.end)
    said = [one["messageId"] for one in shown if one["type"] == "TEXT_MESSAGE_CONTENT"]
    assert len(said) > len({*said})  # it came in deltas
    assert {"type": "CUSTOM", "name": "emit", "value": {"at": "the desk"}} in shown


def ends(*, retry: RetryPolicy | None = None, error: type[BaseException] = ValueError) -> Runtime[Any, Any]:
    """A chat whose node fails after its reply, once."""
    g, fails = GraphBuilder(Desk, name="desk"), [error("sesame")]

    @g.node(retry=retry)
    async def talk(state: Desk, ctx: Context) -> dict[str, Any]:
        reply = await ctx.bind(Agent("none", name="clerk")).run(state.messages)
        if fails:
            raise fails.pop()
        return {"notes": [reply.text]}

    g.add_sequence([START, talk, END])
    return Runtime(g.compile(), store="memory:", models={"clerk": ScriptedModel(["First words.", "Second words."])})


def test_failed_run_is_an_error_without_the_state_and_its_retry_a_separate_run() -> None:
    with ends() as shop:
        with pytest.raises(Exception, match="sesame"):
            shop.run(GIVEN, thread="t")
        failed = events_of(wire(shop.entries("t")))
        shop.retry("t")
        found = events_of(wire(shop.entries("t")))

    assert (failed[-1]["type"], failed[-1]["code"]) == ("RUN_ERROR", "NodeError")
    assert failed[-1]["usage"][0]["outputTokens"] > 0
    assert "sesame" not in json.dumps(found)
    page = Page(found)
    assert (page.end, [one["text"] for one in page.messages[1:]]) == (
        {"type": "success"}, ["First words.", "Second words."],
    )  # fmt: skip


def test_abandoned_attempt_ends_the_stream_with_an_error() -> None:
    with ends(retry=RetryPolicy(2, wait_initial_s=0), error=TimeoutError) as shop:
        made, shown = fold("ag-ui"), list[Event]()
        for mode, item in shop.stream(GIVEN, thread="t", modes=MODES):
            if not made.over:
                shown.extend(made.entry(item) if mode == "events" else made.live(mode, item))
        anew = Page(events_of(wire(shop.entries("t"))))

    assert (shown[-1]["type"], shown[-1]["code"]) == ("RUN_ERROR", "withdrawn")
    assert [one["text"] for one in anew.messages[1:]] == ["Second words."]


def test_cancelled_run_is_reported_as_cancelled() -> None:
    with opened() as shop:
        shop.run(GIVEN, thread="t")
        shop.cancel("t")
        page = Page(events_of(wire(shop.entries("t"))))

    assert page.end == {"type": "cancelled"}


def test_run_that_a_timer_wakes_is_one_run_of_the_protocol() -> None:
    now = 1_000.0
    g = GraphBuilder(Desk, name="desk")

    @g.node
    def nap(state: Desk, ctx: Context) -> None:
        ctx.sleep(5)

    g.add_sequence([START, nap, END])
    with Runtime(g.compile(), store="memory:", clock=lambda: now) as shop:
        assert shop.run(GIVEN, thread="t").status == "interrupted"
        now += 10
        shop.drive("t")
        found = [one["type"] for one in events_of(wire(shop.entries("t")))]

    assert (found.count("RUN_STARTED"), found.count("RUN_FINISHED")) == (1, 1)


def test_user_messages_without_an_id_get_one_from_their_turn() -> None:
    with opened() as shop:
        shop.run({"messages": [UserMessage(text="Hi")]}, thread="t")
        page = Page(events_of(wire(shop.entries("t"))))

    assert (page.messages[0]["id"], desk().name) == ("t:1/0", "desk")
