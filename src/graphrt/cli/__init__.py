"""The command line, `graphrt`. It needs the extra `cli`: click, and rich for colours and the live view.

A projection of plans and journals: nothing below knows of it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line, and return its exit code; without click, say what to install."""
    try:
        import click  # noqa: F401  # pyright: ignore[reportUnusedImport]  # is it there?
    except ImportError:
        sys.stderr.write(
            'The command line of graphrt needs click, which is not installed: pip install "graphrt[cli]"\n'
        )
        return 2
    from graphrt.cli.app import main as run

    return run(arguments)
