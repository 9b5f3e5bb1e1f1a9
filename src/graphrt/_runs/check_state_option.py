"""The `check_state=` option: whether a run compares its state before and after each superstep (R15).

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
    """Return whether a run that begins now checks its state.

    Args:
        given: The option. None turns the check on under pytest, with a MockHarness, or by `GRAPHRT_CHECK_STATE`.
        harness: The harness of the run, or None.
    """
    if given is not None:
        return given
    said = os.environ.get(SWITCH)
    if said:
        return said != "0"
    if "pytest" in sys.modules and _TEST in os.environ:
        return True
    if harness is None:
        return False
    mock: Any = sys.modules.get("graphrt.harness.mock")  # if it is not loaded, the harness is not a MockHarness
    return mock is not None and isinstance(harness, mock.MockHarness)
