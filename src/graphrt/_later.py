"""Modules that are loaded when something of them is used: what only threads or nested agents need costs others nothing."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

__all__ = ["Later"]


class Later:
    """Stands for a module; type checkers see the module itself (import it under TYPE_CHECKING).

    Args:
        name: Of the module, in full.
    """

    __slots__ = ("_module", "_name")

    def __init__(self, name: str) -> None:
        self._name = name
        self._module: ModuleType | None = None

    def __getattr__(self, attribute: str) -> Any:
        module = self._module
        if module is None:
            module = self._module = import_module(self._name)
        return getattr(module, attribute)
