"""A malformed request gets a status, on every wire: the fake server never drops it."""

from __future__ import annotations

import copy
import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from graphrt.testing import FakeChatServer

ODD: tuple[Any, ...] = (None, 5, "x", [5], {"a": 1})
CALL = {"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}}
SCHEMA = {"type": "object", "properties": {"x": {"type": "string"}}, "additionalProperties": False, "required": ["x"]}
STRICT = {"type": "json_schema", "name": "a", "strict": True, "schema": SCHEMA}
BODIES = {
    "/v1/chat/completions": {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "a"}]},
            {"role": "assistant", "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "x", "content": "1"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}],
    },
    "/v1/responses": {
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "a"}]},
            {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "1"},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
        ],
        "include": ["reasoning.encrypted_content"],
        "text": {"format": STRICT},
    },
    "/v1beta/models/m:generateContent": {
        "contents": [
            {"role": "user", "parts": [{"text": "a"}]},
            {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "s"}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"a": 1}}}]},
        ],
        "tools": [{"functionDeclarations": [{"name": "f", "parameters": SCHEMA}]}],
    },
}


def changed(value: Any) -> Iterator[Any]:
    """Copies of *value*, each with an unusual value in one place."""
    yield from ODD
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        for one in changed(value[key]):
            other = copy.copy(value)
            other[key] = one
            yield other


@pytest.mark.parametrize("path", BODIES)
def test_body_with_an_unusual_value_gets_a_status(path: str) -> None:
    with FakeChatServer(lambda _: "x", strict=False) as server:
        host = server.anthropic_url.removeprefix("http://")
        client = http.client.HTTPConnection(host, timeout=10)
        for body in changed(BODIES[path]):
            client.request("POST", path, body=json.dumps(body))
            response = client.getresponse()
            response.read()
            assert response.status in (200, 400, 404), body
        client.close()
