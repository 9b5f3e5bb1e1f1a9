"""The options of a runtime: keyword arguments of `Runtime`, and of `CompiledGraph.run` and its other verbs.

Their types are declared here; their defaults and checks are in `run_config.configure`. Both callers take them as
`**options`, so that each option is declared only once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import typing_extensions as te

from graphrt.errors import closest
from graphrt.errors._codes.arguments import UNKNOWN_OPTION
from graphrt.errors._langgraph_names import OPTIONS
from graphrt.events import Entry
from graphrt.limits import Limits
from graphrt.migrations import Migration
from graphrt.stores import Store

if TYPE_CHECKING:
    from inspect import Signature

    from graphrt._drivers.embedding import Embed
    from graphrt._usage.budget import Budget
    from graphrt.audit import AuditLog
    from graphrt.harness.protocol import ChatModel
    from graphrt.harness.tools.registry import AnyTool


class RuntimeOptions(te.TypedDict, total=False):
    """Keyword arguments of `Runtime`. `CompiledGraph.run` and its other verbs take them too."""

    store: Store | str | None
    chain: bool | None
    audit: AuditLog | None
    lease_s: float
    migrations: Sequence[Migration]
    harness: Any
    deps: Any
    budget: Budget | None
    limits: Limits | None
    sinks: Sequence[Callable[[Entry], Any]]
    clock: Callable[[], float] | None
    sleep: Callable[[float], Any] | None
    ids: Callable[[], str] | None
    seed: int | None
    models: Mapping[str, ChatModel | str] | None
    tools: Mapping[str, AnyTool] | None
    worker_threads: int
    stream_models: bool | None
    embed: Embed | None
    check_state: bool | None


_OF_VERBS: Final = frozenset({"thread", "if_exists", "title", "tags", "allow_older", "modes"})
"""Arguments of the verbs of a `Runtime` that take an input. A graph's own verbs have only some of them."""


def check_options(options: Mapping[str, Any], *, where: str = "") -> None:
    """Check that all options are known options of a runtime.

    Args:
        options: The keyword arguments of `Runtime`, or of a verb of a graph.
        where: Where the call was made, for the error.

    Raises:
        InputError: An option is unknown (`input`).
    """
    known = RuntimeOptions.__annotations__
    option = next((name for name in options if name not in known), None)
    if option is None:
        return
    guess = closest(option, known)
    # The most likely mistake first: a field of the limits, a name of LangGraph, then a misspelling.
    if option in Limits.fields:
        fix = f"Pass limits=Limits({option}=...)."
    elif option in _OF_VERBS:
        fix = f"Pass it to a verb of a Runtime: Runtime(graph, store=...).stream(input, {option}=...), say."
    elif option in OPTIONS:
        fix = f"Use {OPTIONS[option]}."
    else:
        fix = f"Did you mean {guess!r}?" if guess else "Remove it."
    raise UNKNOWN_OPTION(name=option, what="option of a runtime", known_names=known, where=where, advice=fix)


class SignatureOf:
    """The `__signature__` of a class that takes its arguments as those of a function: for `help()`, editors and tools.

    Args:
        function: Takes the arguments.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __get__(self, instance: Any, owner: Any) -> Signature:
        import inspect  # not needed to run a graph, and slow to import

        return inspect.signature(self._function).replace(return_annotation=inspect.Signature.empty)
