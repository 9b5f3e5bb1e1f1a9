"""Workers: they drive the threads of a store that are due, whichever process began them (R21).

They stand on the public face alone: `Runtime.threads` finds what is due, `Runtime.drive` drives it,
`Runtime.hand_over` gives it back, and `Runtime.sweep` deletes what is old. `import graphrt` does not import them.
"""

from __future__ import annotations

from graphrt.workers._health import WorkerHealth
from graphrt.workers._host import Host
from graphrt.workers._retention import Retention
from graphrt.workers._worker import Worker

__all__ = ["Host", "Retention", "Worker", "WorkerHealth"]
