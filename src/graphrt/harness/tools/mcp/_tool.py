"""`McpTool`, which presents a tool of an MCP server as a `Tool`: name, schema, argument validation and results.

Objects of the SDK are read by attribute only, and nothing is sent here: `_server` does that.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, Protocol

from graphrt.errors import InputError
from graphrt.harness.media import made_of
from graphrt.harness.messages import MediaPart, ToolSpec
from graphrt.harness.tools._argument_errors import clip, misfit, path, unknown
from graphrt.harness.tools.protocol import EffectClass, ToolContext, ToolPolicy, ToolResult
from graphrt.harness.tools.results import to_result

_LONGEST: Final = 64
"""Maximum number of characters of a tool name that every provider accepts."""


class Caller(Protocol):
    """The part of `McpServer` that a tool needs."""

    @property
    def name(self) -> str:
        """The server's name in error messages."""
        ...

    async def call_tool(self, name: str, arguments: Mapping[str, Any], *, idempotency_key: str = "") -> Any:
        """Send the call and return the SDK's `CallToolResult`."""
        ...


class McpTool:
    """A tool of an MCP server; made by `McpServer.tools()`."""

    def __init__(self, server: Caller, described: Any, *, prefix: str, policy: ToolPolicy, hinted: bool) -> None:
        self._server: Final = server
        self.remote_name: Final[str] = described.name
        """The server's own name for the tool."""
        self.origin: Final = f"MCP server {server.name}"
        """The server that the tool belongs to, for error messages."""
        schema: dict[str, Any] = dict(described.input_schema or {})
        schema.setdefault("type", "object")
        if not isinstance(schema.get("properties"), dict):
            schema["properties"] = {}
        self.spec: Final = ToolSpec(
            name=_name(prefix, self.remote_name), description=described.description or "", parameters=schema
        )
        """Name, description and JSON schema that are sent to the model; the latter two come from the server."""
        self.policy: Final = replace(policy, effect=_effect(described.annotations)) if hinted else policy
        """How an agent may use the tool."""
        self._validator: Any = None

    def check(self, arguments: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Validate *arguments* against the server's schema and return them unchanged.

        If the schema itself is invalid, nothing is checked here: the server validates its input anyway.

        Raises:
            ToolArgumentsError: The arguments are invalid; `what` is written for the model.
        """
        validator = self._schema_validator()
        if validator is None:
            return arguments
        try:
            errors = sorted(
                validator.iter_errors(dict(arguments)), key=lambda error: list(map(str, error.absolute_path))
            )
        except Exception:  # noqa: BLE001 - a `$ref` that cannot be resolved: the server's schema is invalid
            return arguments
        if errors:
            raise misfit(
                self.spec.name, list(dict.fromkeys(_findings(errors, tuple(self.spec.parameters["properties"]))))
            )
        return arguments

    async def call(self, arguments: Mapping[str, Any], context: ToolContext, /) -> ToolResult:
        """Call the tool on the server.

        Returns:
            The server's texts, images, audio and files, in order, and its structured content as `value`. `error` is the
            server's error flag.

        Raises:
            ToolError: The call failed; see `McpServer.call_tool`.
        """
        result = await self._server.call_tool(self.remote_name, arguments, idempotency_key=context.idempotency_key)
        structured = result.structured_content
        content = [_content(block) for block in result.content]
        if content or structured is None:
            tool_result = ToolResult(content=content, value=structured, error=bool(result.is_error))
        else:
            tool_result = replace(to_result(structured, tool=self.spec.name), error=bool(result.is_error))
        return to_result(tool_result, tool=self.spec.name)

    def __repr__(self) -> str:
        return f"McpTool({self.spec.name!r})"

    def _schema_validator(self) -> Any:
        if self._validator is None:
            from graphrt.harness.tools.mcp._connection import sdk

            jsonschema, referencing = sdk("jsonschema"), sdk("referencing")
            schema = dict(self.spec.parameters)
            kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
            try:
                kind.check_schema(schema)
                # An empty registry: no `$ref` is fetched from the network.
                self._validator = kind(schema, registry=referencing.Registry())
            except Exception:  # noqa: BLE001 - an invalid schema, which `check` lets pass
                self._validator = False
        return self._validator or None


def _name(prefix: str, remote: str) -> str:
    """Return a name that every provider accepts: other characters become `_`, and a long name ends in a hash."""
    name = prefix + (re.sub(r"[^A-Za-z0-9_-]", "_", remote) or "tool")
    if len(name) <= _LONGEST:
        return name
    digest = hashlib.sha256(remote.encode()).hexdigest()[:8]
    return f"{name[: _LONGEST - 9]}_{digest}"


def _effect(annotations: Any) -> EffectClass:
    # MCP's ToolAnnotations: both hints are optional, and without one the call may do anything.
    if annotations is not None and annotations.read_only_hint is True:
        return "pure"
    if annotations is not None and annotations.idempotent_hint is True:
        return "idempotent"
    return "once"


def _content(block: Any) -> str | MediaPart:
    """Return a content block as a text, or as the image, audio or document that it has.

    Nothing is fetched: of a link, the text has the URI. Other content is named with its size.
    """
    match block.type:
        case "text":
            return str(block.text)
        case "image" | "audio":
            size = len(block.data) * 3 // 4
            return _file(block.data, block.mime_type, None) or f"[{block.type}: {block.mime_type}, {size} bytes]"
        case "resource_link":
            return f"[resource: {block.uri}]"
        case "resource":
            resource = block.resource
            if (text := getattr(resource, "text", None)) is not None:
                return str(text)
            data, uri = getattr(resource, "blob", None), str(resource.uri)
            name = uri.partition("?")[0].rpartition("/")[2] or None
            return _file(data, getattr(resource, "mime_type", None), name) or f"[resource: {uri}]"
        case kind:
            return f"[{kind}]"


def _file(data: Any, media_type: Any, name: str | None) -> MediaPart | None:
    """Return the file with the base64 *data*; None if it cannot be one."""
    try:
        return made_of(b64decode(data, validate=True), media_type or None, name)
    except (TypeError, ValueError, InputError):  # ValueError: not base64
        return None


def _findings(errors: Iterable[Any], known: tuple[str, ...]) -> Iterable[str]:
    for error in errors:
        place = path(error.absolute_path)
        match error.validator:
            case "required":
                for name in [name for name in error.validator_value if name not in error.instance]:
                    yield f"{path([*error.absolute_path, name])}: is missing"
            case "additionalProperties" if not place:
                properties = error.schema.get("properties", {})
                for name in error.instance:
                    if name not in properties:
                        yield f"{name}: {unknown(name, known)}"
            case "type":
                yield f"{place}: should be of type {_types(error.validator_value)} (given: {clip(error.instance)})"
            case "enum":
                yield f"{place}: should be one of {clip(error.validator_value)} (given: {clip(error.instance)})"
            case _:
                rule = f"{error.validator} {clip(error.validator_value)}"
                yield f"{place or 'all of them'}: should keep to {rule} (given: {clip(error.instance)})"


def _types(value: Any) -> str:
    return value if isinstance(value, str) else " or ".join(map(str, value))
