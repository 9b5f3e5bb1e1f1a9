"""The entries of images, audio and documents, whose bytes are stored separately from the value, under their SHA-256.

A message with a picture may occur in an update, in snapshots of the state, and in the record of a reply or a tool
result. Each of these has the kind, media type, size and hash, and a reference to the bytes. The store keeps the bytes
once per thread, raw and not as base64. Where blobs are not supported, such as in a message between processes, the value
contains the bytes.

    {"$t": "graphrt:Image", "v": {"type": "image/png", "size": 12345, "data": {"$t": "blob", "v": "<hex>"}}}
"""

from __future__ import annotations

from typing import Any, Final

from graphrt._codec.entry import Entry
from graphrt._codec.refusal import TAG, DamagedError
from graphrt._codec.walk import TAGGED_BYTES, Reader, Writer, fetched, only, text_of

__all__ = ["media_entry"]

_KEYS: Final = {"url": "_url", "type": "_media_type", "name": "_name"}
"""Optional text keys of the stored form, and the attributes that they hold."""


def media_entry(cls: Any, tag: str) -> Entry:
    """Return the entry of *cls*: `Image`, `Audio` or `Document`."""

    def encode(writer: Writer, value: Any, depth: int) -> dict[str, Any]:
        writer.enter(depth, TAGGED_BYTES)
        content: dict[str, Any] = {}
        for key, name in _KEYS.items():
            text = getattr(value, name)
            if text is not None:
                content[key] = writer.at(f".{key}", text, depth + 1)
        if value.data is not None:
            content["size"] = value.size
            if writer.blobs is None:
                content["data"] = writer.at(".data", value.data, depth + 1)
            else:
                writer.blobs[value.sha256] = value.data
                content["data"] = {TAG: "blob", "v": value.sha256}
        return {TAG: tag, "v": content}

    def decode(reader: Reader, node: dict[str, Any], depth: int) -> Any:
        content = only(node)
        if (
            content.__class__ is not dict
            or content.keys() - {*_KEYS, "size", "data"}
            or ("data" in content) == ("url" in content)
        ):
            raise DamagedError(f"it is not the stored form of {cls.__qualname__}")
        texts = {key: text_of(content[key]) if key in content else None for key in _KEYS}
        data: Any = None
        if "data" in content:
            stored = content["data"]
            is_blob = stored.__class__ is dict and stored.get(TAG) == "blob"
            data = fetched(reader, stored) if is_blob else reader.value(stored, depth + 1)
            if data.__class__ is not bytes or len(data) != content.get("size"):
                raise DamagedError("it has other bytes than were stored")
        return cls._restored(data, texts["url"], texts["type"], texts["name"])

    return Entry(cls, tag, encode, decode)
