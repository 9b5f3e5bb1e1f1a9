"""The command line, `graphrt`. It needs the extra `cli`: click, and rich for colours and the live view.

It only presents plans and journals; no lower module depends on it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line, and return its exit code; without click, report the package to install."""
    try:
        import click  # noqa: F401  # pyright: ignore[reportUnusedImport]  # is it there?
    except ImportError:
        sys.stderr.write(
            'The command line of graphrt needs click, which is not installed: pip install "graphrt[cli]"\n'
        )
        return 2
    from graphrt.cli.app import main as run

    return run(arguments)
