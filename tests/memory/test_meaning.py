"""Semantic search: a toy embedding counts letters, and texts with the same letters have the same meaning."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typing_extensions as te

from graphrt import END, START, Context, GraphBuilder, Runtime
from graphrt.errors import InputError
from graphrt.harness import Agent, AgentReply, FunctionModel, ToolCall
from graphrt.memory import memory_tools
from graphrt.stores import EncryptedStore, MemoryStore, SqliteStore, StoreWrapper, TenantStore


class State(te.TypedDict, total=False):
    found: list[Any]


class Letters:
    """An embedding that counts letters, and records its inputs."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, texts: list[str]) -> list[list[float]]:
        self.asked += texts
        return [[float(text.count(letter)) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts]


class AsyncLetters(Letters):
    async def __call__(self, texts: list[str]) -> list[list[float]]:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().__call__(texts)


def shorter(texts: list[str]) -> list[tuple[float, float]]:
    return [(len(text), 1) for text in texts]


def graph_of(node: Callable[..., Any]) -> Any:
    g = GraphBuilder(State, name="desk")
    g.add_node("node", node)
    g.add_sequence([START, "node", END])
    return g.compile()


def remember(state: State, ctx: Context) -> dict[str, Any]:
    ctx.memory.put("notes", "1", "silent")
    return {"found": [item.value for item in ctx.memory.search("notes", "listen", limit=1)]}


async def aremember(state: State, ctx: Context) -> dict[str, Any]:
    await ctx.memory.aput("notes", "1", "silent")
    return {"found": [item.value for item in await ctx.memory.asearch("notes", "listen", limit=1)]}


@pytest.mark.parametrize("letters", [Letters, AsyncLetters])
@pytest.mark.parametrize("node", [remember, aremember])
def test_item_is_found_by_semantic_search(node: Any, letters: type[Letters]) -> None:
    with Runtime(graph_of(node), store="memory:", embed=letters()) as runtime:
        runtime.memory.put("notes", "2", "zoo")

        assert runtime.run({}, thread="t").state.get("found") == ["silent"]
        [nearest] = runtime.memory.search("notes", "listen")
        assert (nearest.value, nearest.score) == ("silent", 0.5)
        assert [item.value for item in runtime.memory.search("notes", "zoo enlist")] == ["zoo", "silent"]


@pytest.mark.parametrize("letters", [Letters, AsyncLetters])
def test_async_twins_embed_without_a_run(letters: type[Letters]) -> None:
    async def main() -> None:
        async with Runtime(graph_of(aremember), store="memory:", embed=letters()) as runtime:
            await runtime.memory.aput("notes", "1", "silent")
            assert [item.key for item in await runtime.memory.asearch("notes", "listen")] == ["1"]
            assert await runtime.memory.aembed_again() == 1
            result = await runtime.arun({}, thread="t")
            assert result.state.get("found") == ["silent"]

    asyncio.run(main())


def test_sync_verbs_of_an_unopened_runtime_can_call_an_async_embedding() -> None:
    runtime = Runtime(graph_of(remember), store=MemoryStore(), embed=AsyncLetters())
    runtime.memory.put("notes", "1", "silent")
    assert [item.key for item in runtime.memory.search("notes", "listen")] == ["1"]


def test_recorded_embeddings_are_not_computed_again() -> None:
    """A node that runs again gets the recorded vectors, and so does a second execution from the journal."""

    def ask(state: State, ctx: Context) -> dict[str, Any]:
        found = remember(state, ctx)
        ctx.interrupt("go on?")
        return found

    letters = Letters()
    with Runtime(graph_of(ask), store="memory:", embed=letters) as runtime:
        runtime.run({}, thread="t")
        assert letters.asked == ["1\nsilent", "listen"]
        result = runtime.resume("t", answer=True)

        assert letters.asked == ["1\nsilent", "listen"]
        assert result.state.get("found") == ["silent"]
        assert runtime.reexecute("t").same
        assert letters.asked == ["1\nsilent", "listen"]
        assert [item.score for item in runtime.memory.search("notes", "listen")] == [0.5]


def test_tools_of_an_agent_use_semantic_search() -> None:
    def scripted(request: Any) -> AgentReply:
        done = [message.text for message in request.messages if message.role == "tool"]
        calls = [("remember", {"key": "1", "text": "silent"}), ("recall", {"query": "listen"})]
        if len(done) < len(calls):
            name, arguments = calls[len(done)]
            return AgentReply(tool_calls=(ToolCall(id=str(len(done)), name=name, arguments=arguments),))
        return AgentReply(text=done[-1])

    async def chat(state: State, ctx: Context) -> dict[str, Any]:
        agent = Agent(FunctionModel(scripted), name="writer", tools=memory_tools("notes"))
        return {"found": [(await ctx.bind(agent).run("hello")).text]}

    letters = Letters()
    with Runtime(graph_of(chat), store="memory:", embed=letters) as runtime:
        assert runtime.run({}, thread="t").state.get("found") == ["1: silent"]
        assert letters.asked == ["1\nsilent", "listen"]
        assert [item.score for item in runtime.memory.search("notes", "listen")] == [0.5]


def test_another_embedding_is_refused_until_the_items_are_embedded_again() -> None:
    store = MemoryStore()
    Runtime(graph_of(remember), store=store).memory.put("notes", "1", "written without", expires_at=4e9)
    Runtime(graph_of(remember), store=store, embed=Letters()).memory.put("notes", "2", "silent")
    memory = Runtime(graph_of(remember), store=store, embed=shorter).memory
    with pytest.raises(InputError, match="1 items whose vectors have another length") as refused:
        memory.search("notes", "listen")
    assert refused.value.code == "bad-memory"
    assert memory.embed_again("notes") == 2
    assert {(item.key, item.expires_at) for item in memory.search("notes", "listen")} == {("1", 4e9), ("2", None)}

    with pytest.raises(InputError, match="needs embed="):
        Runtime(graph_of(remember), store=store).memory.embed_again()


def test_item_that_changes_while_it_is_embedded_again_keeps_the_new_value() -> None:
    store = MemoryStore()
    plain = Runtime(graph_of(remember), store=store).memory
    plain.put("notes", "1", "old")

    def slow(texts: list[str]) -> list[list[float]]:
        plain.put("notes", "1", "new")
        return [[1.0] for _ in texts]

    assert Runtime(graph_of(remember), store=store, embed=slow).memory.embed_again() == 0
    assert [item.value for item in plain.search()] == ["new"]


@pytest.mark.parametrize(
    "returned",
    [None, [], [[1.0], [2.0]], [[]], [["a"]], [[float("nan")]], [[1.0] * 4_097]],
    ids=lambda one: f"{one!r:.20}",
)
def test_invalid_vector_is_refused(returned: Any) -> None:
    with Runtime(graph_of(remember), store="memory:", embed=lambda texts: returned) as runtime:
        with pytest.raises(InputError) as refused:
            runtime.memory.put("notes", "1", "silent")
        assert refused.value.code == "input"
        assert runtime.memory.search() == []


def test_option_that_is_not_callable_is_refused() -> None:
    with pytest.raises(InputError, match="embed="):
        Runtime(graph_of(remember), embed=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("size", [3, 3_072])
def test_erased_text_takes_its_vector_with_it(tmp_path: Path, size: int) -> None:
    """Also a long vector, which is stored as a large value."""
    store = SqliteStore(tmp_path / "runs.db")
    with Runtime(graph_of(remember), store=store, embed=lambda texts: [[float(size)] * size for _ in texts]) as runtime:
        runtime.run({}, thread="t")
        [item] = runtime.memory.search("notes")
        files = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        lines = runtime.erase("silent").lines + runtime.erase("listen").lines

        assert item.value == "silent"
        assert b"vector" in files
        assert lines
        assert b'"vector"' not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
        assert runtime.memory.search() == []
        assert runtime.verify().ok


def test_export_has_the_vectors() -> None:
    file = io.BytesIO()
    with Runtime(graph_of(remember), store="memory:", embed=Letters()) as source:
        source.memory.put("notes", "1", "silent")
        source.memory.export(file)
    file.seek(0)
    letters = Letters()
    with Runtime(graph_of(remember), store="memory:", embed=letters) as target:
        target.memory.import_items(file)

        assert [item.score for item in target.memory.search("notes", "listen")] == [0.5]
        assert letters.asked == ["listen"]


def test_tenant_finds_only_its_own_items() -> None:
    shared = MemoryStore()
    for tenant in ("a", "b"):
        Runtime(graph_of(remember), store=TenantStore(shared, tenant), embed=Letters()).memory.put(
            "n", tenant, "silent"
        )
    found = Runtime(graph_of(remember), store=TenantStore(shared, "a"), embed=Letters()).memory.search("", "listen")
    assert [item.key for item in found] == ["a"]


class Watched(StoreWrapper):
    """Records the vectors that reach the store."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.vectors: list[bytes | None] = []

    def write_memory(self, writes: Any, *, at: float) -> None:
        self.vectors += [write.vector for write in writes]
        super().write_memory(writes, at=at)


@pytest.mark.needs("cryptography")
def test_encrypted_store_keeps_no_vector_in_plain_text() -> None:
    watched = Watched(MemoryStore())
    store = EncryptedStore(watched, {"k": bytes(range(32))})
    with Runtime(graph_of(remember), store=store, embed=Letters()) as runtime:
        runtime.memory.put("notes", "1", "silent")
        runtime.memory.put("notes", "2", "zoo")

        assert watched.vectors == [None, None]
        assert [item.key for item in runtime.memory.search("notes", "listen", limit=1)] == ["1"]


def test_search_compares_the_vectors_of_the_newest_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphrt.stores._memory_items.MOST_COMPARED", 1)
    with Runtime(graph_of(remember), store="memory:", embed=Letters()) as runtime:
        for key in ("1", "2"):
            runtime.memory.put("notes", key, "silent", expires_at=4e9)

        assert [item.key for item in runtime.memory.search("notes", "listen")] == ["2"]
        assert [item.key for item in runtime.memory.search("notes", "silent")] == ["2", "1"]
