"""Modules that tests write into folders of their own must not be found by other tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def imports_undone(base: Path) -> Iterator[None]:
    """Undo changes of the import path at the end, and forget all modules whose files are below *base*."""
    path = list(sys.path)
    try:
        yield
    finally:
        sys.path[:] = path
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", "") or "").startswith(str(base)):
                del sys.modules[name]
