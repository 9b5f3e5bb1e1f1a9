"""Memory shared by threads: items by namespace and key, kept by the store of the runtime.

A node reaches it as `ctx.memory`, a program as `Runtime.memory`, and an agent by the tools that `memory_tools` makes. See
the how-to page "Remember across threads".
"""

from __future__ import annotations

from graphrt._drivers.embedding import Embed
from graphrt._drivers.task_memory import Memory, MemoryItem, TaskMemory
from graphrt._runs.shared_memory import SharedMemory
from graphrt.memory._tools import memory_tools

__all__ = ["Embed", "Memory", "MemoryItem", "SharedMemory", "TaskMemory", "memory_tools"]
