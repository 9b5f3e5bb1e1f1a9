"""graphrt's own classes need no registration anywhere, and do not affect user classes."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from graphrt import START, GraphBuilder, Runtime
from graphrt._codec import Codec, NotStorable, register, registry
from graphrt.errors import InputError, StoreError
from graphrt.events import Usage
from graphrt.harness import (
    AgentReply,
    AssistantMessage,
    Audio,
    Document,
    Image,
    ProviderPart,
    SystemMessage,
    TextPart,
    ThinkingBlock,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from graphrt.reducers import append

PNG = b"\x89PNG\r\n\x1a\n"
OWN: list[Any] = [
    SystemMessage(text="be brief"),
    UserMessage(text="hi"),
    AssistantMessage(tool_calls=(ToolCall(id="1", name="look"),)),
    AssistantMessage(text="so", thinking=(ThinkingBlock(text="hm", signature="s"), ThinkingBlock(redacted="r"))),
    ThinkingBlock(text="hm", signature="s"),
    ThinkingBlock(provider="openai", id="rs_1", data={"summary": [{"text": "hm"}]}),
    AssistantMessage(provider_parts=(ProviderPart(provider="openai", type="url_citation", data={"url": "u"}),)),
    ProviderPart(provider="google", type="grounding", data={"chunks": [1, None]}),
    ToolMessage(tool_call_id="1", text="seen"),
    ToolCall(id="1", name="look", arguments={"at": 1}),
    Usage(calls=1),
    AgentReply(text="x", usage=Usage(calls=1), messages=(UserMessage(text="hi"),)),
    TextPart(text="x"),
    Image.from_bytes(PNG, name="a.png"),
    Image(url="https://example.org/a.png"),
    Audio.from_bytes(b"ID3"),
    Document.from_bytes(b"a,b", media_type="text/csv"),
    UserMessage(content=["What is this?", Image.from_bytes(PNG)]),
    AssistantMessage(media=(Image.from_bytes(PNG),)),
]


@pytest.fixture(autouse=True)
def _registry_is_put_back() -> Iterator[None]:
    before = registry.registered_classes()
    yield
    registry._replace(before)  # pyright: ignore[reportPrivateUsage]  # undoes registrations


@pytest.mark.parametrize("value", OWN, ids=lambda value: type(value).__name__)
def test_undeclared_own_class_has_a_tag_that_no_user_class_has(value: Any) -> None:
    codec, cls = Codec(), value.__class__

    data = codec.dump({"a": [value]})

    assert codec.knows(cls)
    assert f'{{"$t":"graphrt:{cls.__name__}"'.encode() in data
    assert Codec().load(data) == {"a": [value]}


def test_bytes_of_a_picture_are_a_blob_under_their_hash_and_stored_once() -> None:
    picture = Image.from_bytes(PNG)
    blobs: dict[str, bytes] = {}

    data = Codec().dump([picture, UserMessage(content=[picture])], "", blobs)

    assert blobs == {picture.sha256: PNG}
    assert Codec().load(data, blobs.__getitem__) == [picture, UserMessage(content=[picture])]


@pytest.mark.parametrize("stored", [b"", b"another"])
def test_changed_or_missing_blob_of_a_picture_is_damage(stored: bytes) -> None:
    blobs: dict[str, bytes] = {}
    data = Codec().dump(Image.from_bytes(PNG), "", blobs)
    there = {name: stored for name in blobs if stored}

    with pytest.raises(StoreError, match="blob"):
        Codec().load(data, there.__getitem__)


@pytest.mark.parametrize(
    "held",
    [
        b'{"type":"image/png"}',
        b'{"type":"image/png","size":3,"data":{"$t":"bytes","v":"eHg="}}',
        b'{"url":"https://example.org","data":{"$t":"bytes","v":""}}',
        b'{"url":1}',
        b'{"url":"https://example.org","more":1}',
    ],
)
def test_damaged_picture_is_refused(held: bytes) -> None:
    with pytest.raises(StoreError):
        Codec().load(b'{"$t":"graphrt:Image","v":%s}' % held)


def test_declared_own_class_keeps_its_tag() -> None:
    declared = Codec([list[UserMessage]])
    data = declared.dump(UserMessage(text="hi"))

    assert data.startswith(b'{"$t":"UserMessage","v":{"text":"hi",')
    assert declared.load(data) == UserMessage(text="hi")
    assert declared.load(b'{"$t":"UserMessage","v":{"text":"hi","id":null,"role":"user"}}') == UserMessage(text="hi")


def test_data_from_before_the_declaration_is_read() -> None:
    data = Codec().dump(UserMessage(text="hi"))

    assert Codec([UserMessage]).load(data) == UserMessage(text="hi")


def test_user_class_may_have_the_same_name() -> None:
    @dataclasses.dataclass
    class Usage_:  # noqa: N801 - the name is given below
        watts: int

    Usage_.__qualname__ = Usage_.__name__ = "Usage"
    codec = Codec([Usage_])

    assert codec.load(codec.dump([Usage_(5), Usage(calls=1)])) == [Usage_(5), Usage(calls=1)]
    with pytest.raises(StoreError) as caught:
        Codec().load(codec.dump(Usage_(5)))
    assert caught.value.code == "unknown-type"


def test_class_that_pretends_to_be_an_own_class_is_not_one() -> None:
    fake = dataclasses.make_dataclass("UserMessage", ["text"])
    fake.__module__ = "graphrt.harness.messages"

    assert not Codec().knows(fake)
    with pytest.raises(NotStorable):
        Codec().dump(fake("hi"))


def test_tag_of_an_own_class_is_reserved() -> None:
    class Mine(BaseModel):
        text: str

    with pytest.raises(InputError) as caught:
        register(Mine, tag="graphrt:UserMessage")

    assert caught.value.code == "duplicate-tag"


@pytest.mark.parametrize(
    "tag", ["graphrt:ToolSpec", "graphrt:", "graphrt:harness.messages", "graphrt.harness.messages"]
)
def test_other_tags_of_that_kind_are_unknown(tag: str) -> None:
    with pytest.raises(StoreError) as caught:
        Codec().load(f'{{"$t":"{tag}","v":{{}}}}'.encode())

    assert caught.value.code == "unknown-type"


def test_damaged_own_class_is_refused() -> None:
    with pytest.raises(StoreError) as caught:
        Codec().load(b'{"$t":"graphrt:UserMessage","v":{"text":"hi","is_admin":true}}')

    assert caught.value.code == "damaged-value"


SCRIPT = """
import sys
from graphrt._codec import Codec
codec = Codec()
codec.load(codec.dump([(1,), {2}]))
assert "graphrt.harness.messages" not in sys.modules
value = codec.load(b'{"$t":"graphrt:UserMessage","v":{"text":"hi","id":null,"role":"user"}}')
print(type(value).__module__, value.text)
"""


def test_module_of_an_own_class_is_imported_on_use() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, env=os.environ)

    assert done.stdout == "graphrt.harness.messages hi\n"


class State(BaseModel):
    chat: Annotated[list[Any], append] = []
    seen: Any = None


def test_conversation_in_a_field_of_type_any_is_stored_on_a_thread(tmp_path: Any) -> None:
    def node(state: State, ctx: Any) -> Any:
        answered = ctx.interrupt({"so far": state.chat})
        return {"chat": [AssistantMessage(text="yes")], "seen": ctx.effect("look", lambda: (answered, Usage(calls=1)))}

    builder = GraphBuilder(State)
    builder.add_node("think", node)
    builder.add_edge(START, "think")
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    with Runtime(builder.compile(), store=url) as runtime:
        runtime.run({"chat": [UserMessage(text="hi")]}, thread="t")
    with Runtime(builder.compile(), store=url) as runtime:
        assert runtime.state("t").interrupts[0].payload == {"so far": [UserMessage(text="hi")]}
        runtime.resume("t", answer=ToolMessage(tool_call_id="1", text="x"))
    with Runtime(builder.compile(), store=url) as runtime:
        state = runtime.state("t").values

    assert state.chat == [UserMessage(text="hi"), AssistantMessage(text="yes")]
    assert state.seen == (ToolMessage(tool_call_id="1", text="x"), Usage(calls=1))
