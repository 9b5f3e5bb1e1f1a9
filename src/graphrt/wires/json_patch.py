"""JSON Patch (RFC 6902): the change from one JSON document to another."""

from __future__ import annotations

from typing import Any, cast

__all__ = ["json_patch"]


def json_patch(before: Any, after: Any, path: str = "") -> list[dict[str, Any]]:
    """Return operations that change *before* to *after*: 0..n of `add`, `remove` and `replace`.

    Lists are compared item by item, so one that grew or shrank at its end has an operation for each item. After an
    insertion elsewhere, everything after it is replaced.

    Args:
        before: JSON data.
        after: JSON data.
        path: JSON Pointer of both in the whole document.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        return _members(cast("Any", before), cast("Any", after), path)
    if isinstance(before, list) and isinstance(after, list):
        return _items(cast("Any", before), cast("Any", after), path)
    # True equals 1 in Python, but not in JSON.
    same = before == after and isinstance(before, bool) == isinstance(after, bool)
    return [] if same else [{"op": "replace", "path": path, "value": after}]


def _members(before: dict[str, Any], after: dict[str, Any], path: str) -> list[dict[str, Any]]:
    operations: list[dict[str, Any]] = []
    for name, value in before.items():
        at = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
        operations += json_patch(value, after[name], at) if name in after else [{"op": "remove", "path": at}]
    for name, value in after.items():
        if name not in before:
            at = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
            operations.append({"op": "add", "path": at, "value": value})
    return operations


def _items(before: list[Any], after: list[Any], path: str) -> list[dict[str, Any]]:
    operations: list[dict[str, Any]] = []
    for number, (old, new) in enumerate(zip(before, after, strict=False)):
        operations += json_patch(old, new, f"{path}/{number}")
    operations += [{"op": "remove", "path": f"{path}/{number}"} for number in reversed(range(len(after), len(before)))]
    return operations + [{"op": "add", "path": f"{path}/-", "value": value} for value in after[len(before) :]]
