"""The `check_state=` option: whether a run compares its state before and after each superstep.

Nodes must not change values of the state in place (rule R15). Some changes are always found. The others are found only
by a comparison of the stored form of every value. It costs as much as storing the whole state in each superstep, so it
is on in tests and off in production.

Only the decision: by the caller, the environment, pytest and the harness. The engine compares.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Final

SWITCH: Final = "GRAPHRT_CHECK_STATE"
"""Environment variable that decides if the caller passed None: "0" turns the check off, any other text on."""
_TEST: Final = "PYTEST_CURRENT_TEST"
"""Environment variable that pytest sets while a test runs."""


def checks_state(*, given: bool | None, harness: Any) -> bool:
    """Return whether a run that begins now checks its state. Asked whenever an engine is made for a thread or a run.

    Args:
        given: The option. None turns the check on under pytest, with a MockHarness, or by `GRAPHRT_CHECK_STATE`.
        harness: What the run reaches models and tools through, or None. A `MockHarness` is used in tests only.
    """
    if given is not None:
        return given
    said = os.environ.get(SWITCH)
    if said:
        return said != "0"
    # The variable alone may be inherited: a program that a test starts is not under pytest itself.
    if "pytest" in sys.modules and _TEST in os.environ:
        return True
    if harness is None:
        return False
    # Not imported here, to keep it out of production. If it is not loaded, the harness is not a MockHarness.
    mock: Any = sys.modules.get("graphrt.harness.mock")
    return mock is not None and isinstance(harness, mock.MockHarness)
