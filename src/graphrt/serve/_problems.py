"""Errors as problem details (RFC 9457): the status of each code, and the details for a client.

A client gets the code and the fix. The text of an error is included only if it quotes nothing but the request: for a
wrong call or a conflict. Texts of nodes, reducers and stores may quote the state or the host.
"""

from __future__ import annotations

from typing import Any, Final

from graphrt.errors import ConflictError, GraphrtError, InputError, StoreError, UpdateError

MEDIA_TYPE: Final = "application/problem+json"

_STATUS: Final = {
    "unauthenticated": 401,
    "forbidden": 403,
    "unknown-path": 404,
    "unknown-thread": 404,
    "unknown-entry": 404,
    "unknown-schedule": 404,
    "bad-request-part": 400,
    "request-too-large": 413,
    "input-too-large": 413,
    "too-many-requests": 429,
    "key-in-progress": 409,
    "key-outcome-unknown": 409,
    "thread-exists": 409,
    "schedule-exists": 409,
    "wrong-verb": 409,
    "other-input": 409,
    "unknown-interrupt": 409,
    "interrupt-expired": 409,
    "answer-has-effects": 409,
    "waits-for-signal": 409,
    "not-due": 409,
    "older-build": 409,
    "graph-changed": 409,
    "erasure-needed": 409,
    "server-stopping": 503,
    "store-lacks": 501,
    "missing-extra": 501,
}
"""Maps codes to statuses, where the class of the error does not determine it."""
_RETRY_AFTER_S: Final = {409: 1, 429: 5, 503: 5}
"""Seconds after which a request may be repeated, by status; for 409 only if another request is in the way."""


def status_of(error: BaseException) -> int:
    """Return the status of the response for *error*."""
    if not isinstance(error, GraphrtError):
        return 500
    if error.code in _STATUS:
        return _STATUS[error.code]
    match error:
        case ConflictError():
            return 409
        case InputError() | UpdateError():
            return 422
        case StoreError():
            return 503
        case _:
            return 500


def retry_after_s(error: BaseException) -> int | None:
    """Return the seconds after which the request may succeed; None if a repetition would not help."""
    status = status_of(error)
    if status == 409 and not isinstance(error, ConflictError) and getattr(error, "code", "") != "key-in-progress":
        return None
    return _RETRY_AFTER_S.get(status)


def problem(error: BaseException, root: str = "") -> dict[str, Any]:
    """Return the problem details of *error*.

    Args:
        error: What was raised.
        root: Path that the application is mounted at, for the address of the code's documentation.
    """
    code = error.code if isinstance(error, GraphrtError) else "unexpected"
    title = code.replace("-", " ").capitalize()
    details: dict[str, Any] = {
        "type": f"{root}/problems/{code}" if isinstance(error, GraphrtError) else "about:blank",
        "title": title,
        "status": status_of(error),
        "code": code,
    }
    if isinstance(error, (InputError, ConflictError)):
        details |= {"detail": error.what, "fix": error.fix or "See the documentation of the code."}
        if error.thread is not None:
            details["thread"] = error.thread
    else:
        details |= {"detail": f"{title}. The log of the server has more.", "fix": "Ask who runs the server."}
    return details
