"""Wrong builds: each takes one promise of the hosts away, in the process that calls it. The storm has to notice."""

from __future__ import annotations

from typing import Any

from graphrt._runs import results
from graphrt.stores.postgres import _statements
from graphrt.stores.sqlite import _ownership
from graphrt.workers import _worker


def no_claims() -> None:
    """Nobody owns a thread: each process takes what another one drives."""
    lives = _statements.LIVES
    _ownership.Holding._lives = lambda _self, _row: False  # type: ignore[method-assign]
    for name, text in list(vars(_statements).items()):
        if name.isupper() and isinstance(text, str):
            setattr(_statements, name, text.replace(lives, "FALSE"))
    made = results.ThreadInfo.__init__

    def made_free(self: Any, head: Any, error: Any) -> None:
        made(self, head._replace(owned=False), error)

    results.ThreadInfo.__init__ = made_free  # type: ignore[method-assign]


def new_ones_only() -> None:
    """What was driven before is not found again: threads of dead processes are lost."""
    found: Any = _worker.due_threads

    def started(runtime: Any, graph: str | None, fits: Any) -> list[Any]:
        return [info for info in found(runtime, graph, fits) if info.seq <= 2]

    wrong: Any = _worker
    wrong.due_threads = started
    try:
        from graphrt.backends import dbos
    except ImportError:
        return
    wrong = dbos
    wrong.due_threads = started


PLANTS = {"no_claims": no_claims, "new_ones_only": new_ones_only}
