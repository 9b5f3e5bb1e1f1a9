"""Errors of the HTTP server: requests that it refuses, and answers of a server that its client cannot read."""

from __future__ import annotations

from graphrt.errors import InputError, StoreError
from graphrt.errors._error_code import ErrorCode

CANNOT_LISTEN = ErrorCode(
    "cannot-listen",
    InputError,
    "The server cannot listen at {address}: {problem}.",
    fix="Stop the program that listens there, or pass another port: --port or port=, where 0 chooses a free one.",
)
UNAUTHENTICATED = ErrorCode(
    "unauthenticated",
    InputError,
    "The request has no valid credentials.",
    fix="Send the credentials that the server asks for: to `graphrt serve`, `Authorization: Bearer TOKEN`.",
)
FORBIDDEN = ErrorCode(
    "forbidden",
    InputError,
    "The caller lacks the right to {right}.",
    fix="Call as a user who has it; the function authorize= of the server decides.",
)
FOREIGN_REQUEST = FORBIDDEN.variant(
    "The request has {problem}.",
    fix="Call the server from this machine and from a page of its own, or allow more with --cors or --authorize.",
)
UNKNOWN_PATH = ErrorCode(
    "unknown-path",
    InputError,
    "There is no {path}.",
    fix="See /openapi.json, which lists all paths and methods.",
)
BAD_REQUEST_PART = ErrorCode(
    "bad-request-part",
    InputError,
    "The {part} of the request cannot be used: {problem}.",
    fix="Send what /openapi.json describes.",
)
REQUEST_TOO_LARGE = ErrorCode(
    "request-too-large",
    InputError,
    "The {part} of the request exceeds {limit}.",
    fix="Send less, or give the server other Bounds.",
)
BODY_TOO_SLOW = REQUEST_TOO_LARGE.variant(
    "The body of the request did not arrive within {most:g} seconds.",
    fix="Send it faster, or in smaller requests.",
)
TOO_MANY_REQUESTS = ErrorCode(
    "too-many-requests",
    InputError,
    "The caller has {number:count open stream}, and no more can be opened now.",
    fix="Close streams that nobody reads, or try again later.",
)
TOO_MANY_RUNS = TOO_MANY_REQUESTS.variant(
    "{number:count thread} of the caller are running, and no further run begins now.",
    fix="Wait until some have ended: more workers drive more threads at once.",
)
TOO_MANY_WAITS = TOO_MANY_REQUESTS.variant(
    "{number:count request} of the caller wait for the end of a run, and no more may wait now.",
    fix="Send it without wait_s, and follow the events of the thread; or try again later.",
)
KEY_REUSED = ErrorCode(
    "key-reused",
    InputError,
    "{key} was used for another request before.",
    fix="Use a new key or id for each request, and the same one only to repeat the request.",
)
KEY_IN_PROGRESS = ErrorCode(
    "key-in-progress",
    InputError,
    "The first request with this idempotency key has not been answered yet.",
    fix="Repeat the request after some seconds.",
)
KEY_OUTCOME_UNKNOWN = ErrorCode(
    "key-outcome-unknown",
    InputError,
    "The process that handled the first request with this idempotency key ended without an answer, and the thread moved on.",
    fix="Check on the thread whether the request had its effect; if not, send it with a new key.",
)
SERVER_STOPPING = ErrorCode(
    "server-stopping",
    InputError,
    "The server is stopping, and opens no further streams.",
    fix="Repeat the request: another replica answers it, or this one once it runs again.",
)
SERVER_UNREACHABLE = ErrorCode(
    "server-unreachable",
    StoreError,
    "The server at {url} cannot be reached, or its answer was cut off: {error:described}",
    fix="Check the address, and that the server runs. A call with key= may be repeated.",
)
BAD_SERVER_ANSWER = SERVER_UNREACHABLE.variant(
    "The server at {url} answered with status {status_code} and no document of graphrt.",
    fix="Check that the address is that of `graphrt serve`, and what a proxy in front of it does.",
)
