"""Errors of the test kit's doubles: fake chat servers, scripted nodes, flaky stores, virtual clocks; and of reducer laws."""

from __future__ import annotations

from graphrt.errors import ScriptError
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.databases import STORE_UNAVAILABLE
from graphrt.errors._codes.doubles import SCRIPT_UNEXPECTED_CALL
from graphrt.errors._error_code import ErrorCode

SCRIPT_USED_UP = ErrorCode(
    "script",
    ScriptError,
    "The scripted {of} was called {calls:count time}, and its script has {results:count result}.",
    fix="Add a result for each call, or find out why there were more calls than expected.",
)
SERVER_SCRIPT_LEFT_OVER = SCRIPT_USED_UP.variant(
    "The FakeChatServer has {left:count answer} left over and got {unexpected:count unexpected request}.{first}",
    known="{got:count request} in all{items}",
    fix="Make the script as long as the calls; retries of a client count as calls.",
)
SERVER_FUNCTION_FAILED = SCRIPT_USED_UP.variant(
    "{function} of the script of the FakeChatServer failed: {error:described}",
    fix="Correct the function. It is called with the ChatRequest.",
)

NOT_A_CHAT_REQUEST = SCRIPT_UNEXPECTED_CALL.variant(
    "The FakeChatServer expected a chat request, but got {method} {url_path}.",
    known="POST to a path that ends in {paths}",
    fix="Give the client server.url as its address, or server.anthropic_url or server.gemini_url for the formats of Anthropic and Gemini.",
    where="",
)

SERVER_NOT_RUNNING = INVALID_ARGUMENT.variant(
    "The FakeChatServer is not running, so it has no address.", fix="Use it in a with block, or call start() first."
)

STALL_ON_EVENT_LOOP = INVALID_ARGUMENT.variant(
    "The test makes call {number} of {operation} stall on the event loop, which would block the test itself.",
    known="a run commits to a store in memory on the event loop, unless it has sinks",
    fix="Put the FlakyStore in front of a SqliteStore, or pass sinks= to the runtime, as arecord() does.",
)
PLANNED_STORE_FAILURE = STORE_UNAVAILABLE.variant(
    "The test makes call {number} of {operation} fail.",
    known="{kept}",
    fix="This failure is planned: check how the run behaves, and continue it.",
)
