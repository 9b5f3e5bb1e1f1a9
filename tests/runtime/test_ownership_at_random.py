"""Rule R15 at random: nodes keep states, lists and updates, and change some of them later; a model predicts the state."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Annotated, Any

from hypothesis import given
from hypothesis import strategies as st

from graphrt import Overwrite, Runtime, UpdateError
from graphrt.reducers import append, merge, union

from .support import Face, as_kind, get, only_mutated, sequence, state_class

Model = dict[str, Any]
WRITES: dict[str, Callable[[int], Model]] = {
    "nothing": lambda n: {},
    "append": lambda n: {"notes": [n]},
    "append nested": lambda n: {"notes": [n, [n]], "table": {str(n): n}},
    "merge": lambda n: {"table": {"k": [n]}},
    "union": lambda n: {"seen": [n % 3]},
    "last": lambda n: {"x": [n]},
    "overwrite": lambda n: {"notes": Overwrite([n])},
}
MISCHIEFS = ["none", "keep state", "keep list", "spoil update", "spoil state", "spoil input"]


def folded(model: Model, name: str, n: int) -> Model:
    """The model after the write *name* of node *n*."""
    update = copy.deepcopy(WRITES[name](n)) if name != "overwrite" else {}
    after = {
        "notes": model["notes"] + update.get("notes", []),
        "table": {**model["table"], **update.get("table", {})},
        "seen": list(dict.fromkeys([*model["seen"], *update.get("seen", [])])),
        "x": update.get("x", model["x"]),
    }
    return {**after, "notes": [n]} if name == "overwrite" else after


class Play:
    """One run: the actions of its nodes, and the values that they keep and change."""

    def __init__(self) -> None:
        self.model: Model = {"notes": ["in"], "table": {}, "seen": [], "x": None}
        self.input: Model = {"notes": ["in"], "table": {}, "seen": []}
        self.kept: list[tuple[Any, Any]] = []
        """(a state or a list that a node kept, its expected content)."""
        self.updates: list[Model] = []
        self.spoilt = False

    def node(self, n: int, write: str, mischief: str) -> Callable[[Any], Any]:
        def run(state: Any) -> Any:
            assert fields(state) == self.model, "a node saw a wrong state"
            self.do(mischief, state)
            self.model = folded(self.model, write, n)
            self.updates.append(WRITES[write](n))
            return self.updates[-1]

        return run

    def do(self, mischief: str, state: Any) -> None:
        if mischief == "keep state":
            self.kept.append((state, copy.deepcopy(self.model)))
        elif mischief == "keep list":
            self.kept.append((get(state, "notes"), copy.deepcopy(self.model["notes"])))
        elif mischief == "spoil update" and self.updates:
            for value in self.updates[-1].values():
                if isinstance(value, list):
                    value.append("spoilt")
                    self.spoilt = True
        elif mischief == "spoil state" and self.kept:
            thing = self.kept[-1][0]
            (thing if isinstance(thing, list) else get(thing, "notes")).append("spoilt")
            self.kept.clear()  # older ones may share that list
            self.spoilt = True
        elif mischief == "spoil input":
            self.input["notes"].append("spoilt")


def fields(state: Any) -> Model:
    return {name: get(state, name) for name in ("notes", "table", "seen", "x")}


@given(
    actions=st.lists(st.tuples(st.sampled_from(list(WRITES)), st.sampled_from(MISCHIEFS)), min_size=1, max_size=12),
    kind=st.sampled_from(["typeddict", "pydantic", "dataclass"]),
    how=st.sampled_from(["sync", "async"]),
    face=st.sampled_from(["sync", "async"]),
    store=st.sampled_from([None, "memory:"]),
)
def test_state_is_correct_or_the_change_is_detected_for_any_retained_and_changed_values(
    actions: Any, kind: str, how: str, face: str, store: Any
) -> None:
    state = state_class(
        kind,
        notes=(Annotated[list[Any], append], []),
        table=(Annotated[dict[str, Any], merge], {}),
        seen=(Annotated[list[int], union], []),
        x=(Any, None),
    )
    play = Play()
    nodes = [(f"n{n}", as_kind(how, play.node(n, *action))) for n, action in enumerate(actions)]
    runtime = Runtime(sequence(*nodes, state=state), store=store)
    try:
        result = Face(face).run(runtime, play.input)
    except UpdateError as error:
        only_mutated(error)
        assert play.spoilt
        return

    assert fields(result.state) == play.model
    for thing, right in play.kept:
        assert (thing if isinstance(thing, list) else fields(thing)) == right
