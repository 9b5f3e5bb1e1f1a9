"""The switch that allows or forbids real model requests in this process, mainly for tests.

Only adapters that reach a provider check it. Requests to doubles, replaying cassettes and servers on this machine are
not real. The switch is global and not a context variable, because litellm's loop and worker threads of the user must
obey it too (decision 0041).
"""

from __future__ import annotations

import os
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final, final
from urllib.parse import urlsplit

from graphrt._ambient import running_context, surroundings
from graphrt.errors import names
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.models import MODEL_REQUEST_FORBIDDEN

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["allow_model_requests"]

_VARIABLE: Final = "GRAPHRT_ALLOW_MODEL_REQUESTS"
_YES: Final = ("", "1", "true", "yes", "on")
_NO: Final = ("0", "false", "no", "off")


@final
class _Switch:
    """The setting of the program; `said` is None while the environment variable decides."""

    __slots__ = ("said",)

    def __init__(self) -> None:
        self.said: bool | None = None


_switch: Final = _Switch()


@final
class _Allowing:
    """The result of `allow_model_requests`: leaving its `with` block restores the setting from before the call."""

    __slots__ = ("_before",)

    def __init__(self, previous: bool | None) -> None:  # noqa: FBT001 - the setting before the call
        self._before = previous

    def __enter__(self) -> None:
        """Do nothing: the setting has applied since the call."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _switch.said = self._before


def allow_model_requests(allowed: bool | None, /) -> _Allowing:  # noqa: FBT001 - its name says what True means
    """Allow or forbid real model requests in this process, from now on or inside a `with` block.

    The setting holds for all worker threads and event loops, and overrides the environment variable
    `GRAPHRT_ALLOW_MODEL_REQUESTS`. A forbidden request raises ModelRequestForbiddenError before litellm is imported.
    Requests to a loopback address (`api_base="http://127.0.0.1:..."`) and replaying cassettes stay allowed.

    Args:
        allowed: True or False; None lets the environment variable decide again.

    Raises:
        InputError: *allowed* is none of these (`input`).
    """
    value: Any = allowed
    if value is not None and value is not True and value is not False:
        raise INVALID_ARGUMENT(
            argument="The argument of allow_model_requests()",
            value=value,
            wanted="False to forbid real requests, True to allow them, or None",
        )
    previous, _switch.said = _switch.said, allowed
    return _Allowing(previous)


def forbidden(api_base: str | None) -> bool:
    """Return whether a request to *api_base* is real and forbidden; None is the provider's own address.

    Raises:
        InputError: The value of the environment variable means neither yes nor no (`input`).
    """
    return not _allowed() and not _is_loopback(api_base)


def refuse_if_forbidden(model: str, api_base: str | None) -> None:
    """Raise if a request to *model* at *api_base* is real and forbidden.

    Raises:
        ModelRequestForbiddenError: It is. The error names the agent, node, graph and thread, as far as known.
    """
    if not forbidden(api_base):
        return
    agent, node = surroundings().agent, running_context()
    agents: tuple[str, ...] = agent.names if agent is not None else ()
    replaced = [name for layer in surroundings().doubles for name in getattr(layer, "models", ())]
    place: dict[str, Any] = {} if node is None else {**node._task.engine.where(node._task).known, "boundary": True}
    raise MODEL_REQUEST_FORBIDDEN(
        sender=f" of agent {agents[-1]!r}" if agents else "",
        inside=f" in node {place['node']!r}" if place else "",
        model=model,
        name=repr(agents[-1] if agents else "writer"),
        where=" > ".join(f"agent {name!r}" for name in agents),
        known=(
            "allow_model_requests(False) was called"
            if _switch.said is False
            else f"the environment variable {_VARIABLE} is {os.environ.get(_VARIABLE)!r}"
        )
        + (f"; models= has {names(replaced)}" if replaced else ""),
        **place,
    )


def _allowed() -> bool:
    if _switch.said is not None:
        return _switch.said
    value = os.environ.get(_VARIABLE, "")  # read at each request: a test may set it
    word = value.strip().lower()
    if word not in _YES and word not in _NO:  # not guessed: the switch is there for safety (decision 0041)
        raise INVALID_ARGUMENT(
            argument=f"The environment variable {_VARIABLE}",
            value=value,
            wanted="0 to forbid real model requests, or 1",
            known=names([*_YES[1:], *_NO]),
        )
    return word in _YES


def _is_loopback(api_base: str | None) -> bool:
    """Return whether *api_base* is an address of this machine."""
    # URL parsers may disagree about the host of an address with one of these characters, so it counts as real.
    if api_base is None or not api_base.isprintable() or any(sign in api_base for sign in "\\ @"):
        return False
    try:
        host = urlsplit(api_base).hostname or ""
        if host == "localhost" or host.endswith(".localhost"):
            return True
        return ip_address(host).is_loopback
    except ValueError:
        return False
