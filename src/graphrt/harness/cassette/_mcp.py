"""`RecordedMcpServer`: the tools of an MCP server through a cassette, with the model replies in the same file.

A request to the server is recorded as a conversation of one message: "tools/list", or "tools/call" with the tool call.
The result is the `output` of the recorded reply, as the data of the SDK's objects. So order, redaction, failures and
misses are those of model calls. In mode "replay" the server is not started, and the SDK is not imported for it.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, Self, final

from graphrt._arguments import is_list, is_mapping
from graphrt.errors import InputError
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.harness.cassette._exchange import Exchange
from graphrt.harness.media import Document, Media, made_of
from graphrt.harness.messages import AssistantMessage, ToolCall, UserMessage
from graphrt.harness.protocol import AgentReply
from graphrt.harness.request import ModelRequest
from graphrt.harness.tools.mcp._server import McpServer, McpTool

if TYPE_CHECKING:
    from graphrt.harness.cassette._recordings import Recordings
    from graphrt.harness.tools.protocol import ToolPolicy

__all__ = ["RecordedMcpServer"]

_LIST: Final = ("name", "description", "input_schema", "annotations")
"""Attributes of a tool's description that `McpTool` reads."""


@final
class RecordedMcpServer:
    """An MCP server with a cassette around it; made by `Cassette.mcp`.

    It has the methods of `McpServer` that agents need: `async with`, `tools` and `call_tool`.

    Args:
        server: The server.
        recordings: The recordings of the cassette; None in mode "live".
        hook: The user's `redact` function.
        is_live: Whether the server may be asked; if not, it is not started.
    """

    def __init__(
        self,
        server: McpServer,
        recordings: Recordings | None,
        hook: Callable[[str], str] | None,
        *,
        is_live: bool,
    ) -> None:
        value: Any = server
        if not isinstance(value, McpServer):
            raise INVALID_ARGUMENT(
                argument="The server of cassette.mcp()",
                value=server,
                wanted="an MCP server: McpServer.stdio(...) or McpServer.http(...)",
            )
        self._server: Final = server
        self._recordings: Final = recordings
        self._hook: Final = hook
        self._is_live: Final = is_live

    @property
    def name(self) -> str:
        """The server's name in error messages and in the cassette."""
        return self._server.name

    @property
    def policy(self) -> ToolPolicy:
        """Policy of the server's tools, as `McpServer.policy`."""
        return self._server.policy

    async def __aenter__(self) -> Self:
        if self._is_live:
            await self._server.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._is_live:
            await self._server.__aexit__(*exc)

    async def tools(self) -> list[McpTool]:
        """Return the server's tools, as recorded or as the server lists them now. Their calls are recorded too.

        Raises:
            ScriptError: The list is not recorded.
            ToolError: The server cannot be reached, now or when the list was recorded.
            InputError: Two tools would have the same name (`duplicate-tool`).
        """
        server = self._server

        async def listed() -> Any:
            entries = await server._described()
            return [{name: _plain(getattr(tool, name)) for name in _LIST} for tool in entries]

        described = await self._exchanged(UserMessage(text="tools/list"), listed)
        return server._made(map(_tool, described), self)

    async def call_tool(self, name: str, arguments: Mapping[str, Any], *, idempotency_key: str = "") -> Any:
        """Return the recorded result of the call, or make it if the mode allows it; see `McpServer.call_tool`.

        The idempotency key is not recorded: it differs from thread to thread.

        Raises:
            ScriptError: The call is not recorded.
            ToolError: The call failed, now or when it was recorded.
        """
        media: list[Media] = []  # of the live result: the recording has their hashes, and files beside it

        async def called() -> Any:
            result = await self._server.call_tool(name, arguments, idempotency_key=idempotency_key)
            return {
                "content": [_outlined(block, media) for block in _plain(result.content)],
                "structured_content": _plain(result.structured_content),
                "is_error": bool(result.is_error),
            }

        call = ToolCall(id="1", name=name, arguments=dict(arguments))
        reply = await self._replied(AssistantMessage(text="tools/call", tool_calls=(call,)), called, media)
        result, files = reply.output, {part.sha256: part for part in reply.media}
        blocks = [_object(_filled(block, files)) for block in result["content"]]
        return SimpleNamespace(**{**result, "content": blocks})

    async def _exchanged(self, message: UserMessage | AssistantMessage, live: Callable[[], Awaitable[Any]]) -> Any:
        """Return the recorded result for *message*, or that of *live*, as data."""
        return (await self._replied(message, live, [])).output

    async def _replied(
        self, message: UserMessage | AssistantMessage, live: Callable[[], Awaitable[Any]], media: list[Any]
    ) -> AgentReply:
        """Return the recorded result for *message*, or that of *live*, as the output of a reply, with its *media*."""

        async def replied() -> AgentReply:
            output = await live()
            return AgentReply(output=output, media=tuple(media))

        if self._recordings is None:
            return await replied()
        request = ModelRequest(messages=(message,))
        exchange = Exchange(self._recordings, self._hook, request, harness=f"MCP server {self.name}")
        return await exchange.answer(replied, None)

    def __repr__(self) -> str:
        return f"RecordedMcpServer({self._server!r})"


def _plain(value: Any) -> Any:
    """Return an object of the SDK as data, without the fields that are None."""
    if is_list(value):
        return [_plain(item) for item in value]
    return value.model_dump(mode="json", exclude_none=True) if hasattr(value, "model_dump") else value


def _outlined(block: Any, media: list[Media]) -> Any:
    """Return a content block with the hash of its file in place of the bytes, which are added to *media*."""
    resource: Any = block.get("resource", block) if is_mapping(block) else {}
    for key in ("data", "blob"):
        if isinstance(resource.get(key), str):
            try:
                data = b64decode(resource[key], validate=True)
                part = _part(data)
            except ValueError:  # not base64
                return block
            media.append(part)
            resource = {**resource, key: {"sha256": part.sha256}}
            return {**block, "resource": resource} if "resource" in block else resource
    return block


def _part(data: bytes) -> Media:
    try:
        return made_of(data, None)
    except InputError:  # an unknown or a large file is recorded nevertheless
        return Document._restored(data, None, "application/octet-stream", None)


def _filled(block: Any, files: Mapping[Any, Media]) -> Any:
    """Return a content block with the bytes that `_outlined` took out of it."""
    resource: Any = block.get("resource", block) if is_mapping(block) else {}
    for key in ("data", "blob"):
        if is_mapping(resource.get(key)):
            part = files.get(resource[key].get("sha256"))
            resource = {**resource, key: b64encode((part and part.data) or b"").decode("ascii")}
            return {**block, "resource": resource} if "resource" in block else resource
    return block


def _tool(described: Mapping[str, Any]) -> Any:
    """Return the description of a tool, with the attributes of the SDK's object."""
    hints = described["annotations"]
    hint_names = ("read_only_hint", "idempotent_hint")
    annotations = None if hints is None else SimpleNamespace(**{name: hints.get(name) for name in hint_names})
    return SimpleNamespace(**{**described, "annotations": annotations})


def _object(value: Any) -> Any:
    """Return data with its keys as attributes, as content blocks and their resources have."""
    return SimpleNamespace(**{name: _object(item) for name, item in value.items()}) if is_mapping(value) else value
