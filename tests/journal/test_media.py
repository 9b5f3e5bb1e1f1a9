"""Images in threads: each byte is stored once, and protections of values cover them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from graphrt import START, Context, GraphBuilder, Runtime
from graphrt._codec import Codec
from graphrt.harness import Agent, AgentReply, Document, Image, Message, ScriptedModel, ToolCall, UserMessage, tool
from graphrt.reducers import messages
from graphrt.stores import EncryptedStore, MemoryStore, SqliteStore, Store, TenantStore

PNG = b"\x89PNG\r\n\x1a\n"
BASE64 = re.compile(rb"[A-Za-z0-9+/]{400}")


class State(BaseModel):
    said: Annotated[list[Message], messages] = []


def picture(number: int = 0, size: int = 3_000) -> Image:
    return Image.from_bytes(PNG + number.to_bytes(4, "big") * (size // 4))


def echo(state: State) -> dict[str, Any]:
    return {}


def graph_of(node: Any) -> Any:
    g = GraphBuilder(State, name="album")
    g.add_node("node", node)
    g.add_edge(START, "node")
    return g.compile()


def stored(store: Store, thread: str) -> tuple[bytes, dict[str, bytes]]:
    """Return all bodies of a thread as one, and its blobs."""
    loaded = store.load(thread)
    bodies = [record.body for record in store.records(thread)]
    bodies += [loaded.snapshot.body] if loaded.snapshot is not None else []
    bodies += [body for _, body in loaded.staged]
    whole = b"\n".join(bodies)
    return whole, store.blobs(thread, set(re.findall(r"[0-9a-f]{64}", whole.decode())))


def test_picture_of_a_message_is_stored_once_for_any_number_of_states(tmp_path: Path) -> None:
    store = MemoryStore()
    with Runtime(graph_of(echo), store=store) as runtime:
        for turn in range(20):
            runtime.run({"said": [UserMessage(content=["look", picture(turn % 2)], id=str(turn))]}, thread="t")
        assert runtime.state("t").values.said[3].media == (picture(1),)

    bodies, blobs = stored(store, "t")
    assert sorted(map(len, blobs.values())) == [len(picture().data or b"")] * 2
    assert BASE64.search(bodies) is None


def test_journal_of_many_turns_with_pictures_is_linear() -> None:
    """Without the pictures, the size of 50 turns is linear in the turns, and each byte of a picture is written once."""
    store, size = MemoryStore(), 400_000
    with Runtime(graph_of(echo), store=store) as runtime:
        sizes: list[int] = []
        for turn in range(50):
            runtime.run({"said": [UserMessage(content=["look", picture(turn, size)], id=str(turn))]}, thread="t")
            if turn in (24, 49):
                sizes.append(sum(len(record.body) for record in store.records("t")))

    blobs = stored(store, "t")[1]
    assert sum(map(len, blobs.values())) == 50 * (size + len(PNG))
    assert sizes[1] < 2.1 * sizes[0]


def test_pictures_of_tools_and_replies_are_recorded_by_hash_and_restored_after_a_pause() -> None:
    @tool
    def scan() -> list[str | Image]:
        """Scan."""
        return ["seen:", picture(1)]

    model = ScriptedModel(
        [AgentReply(tool_calls=(ToolCall(id="1", name="scan"),)), AgentReply(text="Here.", media=(picture(2),))]
    )
    agent = Agent(model, tools=[scan])

    async def node(state: State, ctx: Context) -> dict[str, Any]:
        reply = await ctx.harness.run(["Scan this.", picture(3)])
        if ctx.interrupt("go on?") is not True:
            return {}
        return {"said": list(reply.messages)}

    store = MemoryStore()
    with Runtime(graph_of(node), store=store, harness=agent) as runtime:
        runtime.run({}, thread="t")
        result = runtime.resume("t", True)  # neither the model nor the tool is called again
        bodies, blobs = stored(store, "t")

    assert BASE64.search(bodies) is None
    assert blobs.keys() == {picture(number).sha256 for number in (1, 2, 3)}
    assert [one.media for one in result.state.said] == [(picture(3),), (), (picture(1),), (picture(2),)]


@pytest.mark.parametrize("kind", ["encrypted", "tenant", "file"])
def test_pictures_are_restored_through_wrapping_stores(kind: str, tmp_path: Path) -> None:
    inner: Store = SqliteStore(tmp_path / "a.db") if kind == "file" else MemoryStore()

    store: Store = (
        EncryptedStore(inner, {"k": bytes(range(32))})
        if kind == "encrypted"
        else TenantStore(inner, "acme")
        if kind == "tenant"
        else inner
    )
    with Runtime(graph_of(echo), store=store) as runtime:
        runtime.run({"said": [UserMessage(content=[picture()], id="1")]}, thread="t")
    with Runtime(graph_of(echo), store=store) as runtime:
        assert runtime.state("t").values.said[0].media == (picture(),)
    if kind == "encrypted":
        assert all(PNG not in blob for blob in inner.blobs("t", [str(picture().sha256)]).values())
    inner.close()


def test_export_and_import_include_pictures(tmp_path: Path) -> None:
    store, other = MemoryStore(), MemoryStore()
    with Runtime(graph_of(echo), store=store) as runtime:
        runtime.run({"said": [UserMessage(content=[picture()], id="1")]}, thread="t")

    store.export_thread("t", tmp_path / "t.zip")
    other.import_thread(tmp_path / "t.zip")

    with Runtime(graph_of(echo), store=other) as runtime:
        assert runtime.state("t").values.said[0].media == (picture(),)


def test_pruned_pictures_are_deleted_once_they_are_unreferenced() -> None:
    class Last(BaseModel):
        shown: Image | None = None

    g = GraphBuilder(Last, name="last")
    g.add_node("node", lambda state: {})
    g.add_edge(START, "node")
    store = MemoryStore()
    with Runtime(g.compile(), store=store) as runtime:
        for number in range(3):
            runtime.run({"shown": picture(number)}, thread="t")
        runtime.prune("t", before=runtime.state("t").seq)

    names = [str(picture(number).sha256) for number in range(3)]
    assert names[0] not in store.blobs("t", names)
    assert store.blobs("t", names)[names[2]] == picture(2).data


def shows_a_picture(thread: str, seq: int, field: str | None, value: object) -> bool:
    return "a picture of" in str(value)


LETTER = Document.from_bytes(b"Dear Ada Lovelace,", name="letter.txt")


@pytest.mark.parametrize(
    "where",
    [
        pytest.param("I am Ada", id="text"),
        pytest.param("Ada Lovelace", id="text of a document"),
        pytest.param(shows_a_picture, id="predicate"),
    ],
)
def test_erasure_of_a_message_deletes_its_files(where: Any) -> None:
    store = MemoryStore()
    said = [UserMessage(content=["I am Ada, a picture of me:", picture(1), LETTER], id="1")]
    with Runtime(graph_of(echo), store=store) as runtime:
        runtime.run({"said": said}, thread="t")
        runtime.run({"said": [UserMessage(content=["hello", picture(2)], id="2")]}, thread="t")
        runtime.erase(where, force=True)

        left = store.blobs("t", [str(one.sha256) for one in (picture(1), LETTER, picture(2))])
        assert list(left) == [picture(2).sha256]
        assert runtime.state("t").values.said[-1].media == (picture(2),)


def test_redaction_replaces_texts_of_messages_and_documents_and_keeps_pictures() -> None:
    rules = Replaced()
    letter = Document.from_bytes(b"call 555-1234", name="555-1234.txt")
    said = UserMessage(content=["I am 555-1234", picture(), letter])

    made = Codec().rewrite([said], "said", rules)[0]

    assert made.text == "I am [number]"
    assert made.media == (picture(), Document.from_bytes(b"call [number]", name="[number].txt"))
    assert rules.others == ["Image"]


class Replaced:
    def __init__(self) -> None:
        self.others: list[str] = []

    def text(self, text: str, names: tuple[str, ...]) -> str:
        return text.replace("555-1234", "[number]")

    def other(self, kind: str, names: tuple[str, ...]) -> None:
        self.others += [kind] if kind == "Image" else []
