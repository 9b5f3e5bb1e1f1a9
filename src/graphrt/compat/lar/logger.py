"""The log of runs, under the name of Lár's module."""

from __future__ import annotations

from graphrt.compat.lar._log import AuditLogger, WeakSecretWarning

__all__ = ["AuditLogger", "WeakSecretWarning"]
