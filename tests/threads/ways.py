"""Reads steps and streams of threads, sync or async. Shared by the tests of watched threads."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

from graphrt import Runtime


class Way:
    """The verbs, sync or async, read to the end or up to a number of items."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def steps(self, runtime: Runtime[Any], *given: Any, most: int | None = None, **options: Any) -> list[Any]:
        return self._read(runtime, "steps", given, options, most)

    def stream(self, runtime: Runtime[Any], *given: Any, most: int | None = None, **options: Any) -> list[Any]:
        return self._read(runtime, "stream", given, options, most)

    def _read(self, runtime: Runtime[Any], verb: str, given: Any, options: Any, most: int | None) -> list[Any]:
        found: list[Any] = []
        if self.kind == "sync":
            items: Any = getattr(runtime, verb)(*given, **options)
            for item in items:
                found.append(item)
                if len(found) == most:
                    break
            items.close()
            return found

        async def read() -> None:
            async with aclosing(getattr(runtime, f"a{verb}")(*given, **options)) as items:
                async for item in items:
                    found.append(item)
                    if len(found) == most:
                        break

        asyncio.run(read())
        return found


def ids(runtime: Runtime[Any], thread: str = "t") -> dict[str, str]:
    return {question.payload["q"]: question.id for question in runtime.state(thread).interrupts}
