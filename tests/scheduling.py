"""Distributes tests over the processes of pytest-xdist by whole files, which keeps processors busy."""

from __future__ import annotations

from typing import Any, Final

from xdist.scheduler import LoadScopeScheduling

LANES: Final = (
    ("tests/backends/", "tests/workers/"),  # they spend most of their time waiting for leases, timers and processes
    (  # litellm takes seconds to import in each process that needs it
        "tests/harness/",
        "tests/examples/test_audit_model.py",
        "tests/compat/lar/test_offline.py",
        "docs/how-to/call-a-model.md",
    ),
)
"""Folders and files that go to one process at a time: two processes that wait leave processors idle."""


class FileByFile(LoadScopeScheduling):  # type: ignore[misc]  # pytest-xdist has no types
    """Gives a process the next file when it has nearly finished the last one.

    The files of each of `LANES` go to one process at a time, as long as there are others. One process gets the slow
    ones of the rest, which come first, and the others begin at the end: slow tests wait more, and processors would be
    idle if several processes ran them.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._places: dict[str, int] | None = None
        self._slow: set[str] = set()

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.split("::", 1)[0]

    def _assign_work_unit(self, node: Any) -> None:
        if self._places is None:  # all processes have collected the same tests, or xdist would have stopped
            self._places = {nodeid: place for place, nodeid in enumerate(self.collection or ())}
        scope = self._next_of(node)
        unit = self.workqueue.pop(scope)
        self.assigned_work.setdefault(node, {})[scope] = unit
        node.send_runtest_some([self._places[nodeid] for nodeid, is_complete in unit.items() if not is_complete])

    def _next_of(self, node: Any) -> str:
        others = [scope for other in self.nodes if other is not node for scope in self.assigned_work[other]]
        taken = [lane for lane in LANES if any(scope.startswith(lane) for scope in others)]
        in_lanes: list[str] = []
        rest: list[str] = []
        for scope in self.workqueue:
            lane = next((lane for lane in LANES if scope.startswith(lane)), None)
            if lane is None:
                rest.append(scope)
            elif lane not in taken:
                return scope
            else:
                in_lanes.append(scope)
        if not rest:
            return in_lanes[0]
        if not self._slow.isdisjoint(others):
            return rest[-1]
        self._slow.add(rest[0])
        return rest[0]

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        # xdist keeps finished tests, and counts them after each test: over 17,000 tests that takes 11 s.
        super().mark_test_complete(node, item_index, duration)
        scope = self._split_scope(self.registered_collections[node][item_index])
        if all(self.assigned_work[node][scope].values()):
            del self.assigned_work[node][scope]

    def _reschedule(self, node: Any) -> None:
        # A process runs a test once it has the next one, or knows that there is none. xdist gives it one file at a
        # time: a process that replaced a dead one, and got a file with one test, would wait forever.
        if node.shutting_down:
            return
        while self.workqueue and self._pending_of(self.assigned_work[node]) <= 2:
            self._assign_work_unit(node)
        if not self.workqueue:
            node.shutdown()

    def remove_node(self, node: Any) -> str | None:
        # xdist would give the test at which a process died to the next process, and so on.
        died_at: str | None = None
        for scope, unit in list(self.assigned_work[node].items()):
            if died_at is None:
                died_at = next((nodeid for nodeid, is_complete in unit.items() if not is_complete), None)
                if died_at is not None:
                    unit[died_at] = True
            if all(unit.values()):
                del self.assigned_work[node][scope]
        super().remove_node(node)  # gives the rest to other processes
        return died_at
