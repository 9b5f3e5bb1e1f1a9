"""Workers drive the due threads of a store, whichever process began them (R21).

They use only the public API: `Runtime.threads` finds due threads, `Runtime.drive` drives them,
`Runtime.hand_over` gives them back, and `Runtime.sweep` deletes old ones. `import graphrt` does not import them.
"""

from __future__ import annotations

from graphrt.workers._health import WorkerHealth
from graphrt.workers._host import Host
from graphrt.workers._retention import Retention
from graphrt.workers._worker import Worker

__all__ = ["Host", "Retention", "Worker", "WorkerHealth"]
