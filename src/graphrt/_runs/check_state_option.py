"""Whether a run compares its state before and after each superstep: asked of the caller, the environment, the harness.

How states are compared is the engine's.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Final

SWITCH: Final = "GRAPHRT_CHECK_STATE"
"""Environment variable: `0` switches the comparing off, any other text on, where the caller did not say."""
_TEST: Final = "PYTEST_CURRENT_TEST"
"""What pytest sets while a test runs."""


def checks_state(*, given: bool | None, harness: Any) -> bool:
    """What `check_state=` comes to: None means under pytest, with a MockHarness, or where `GRAPHRT_CHECK_STATE` says so."""
    if given is not None:
        return given
    said = os.environ.get(SWITCH)
    if said:
        return said != "0"
    if "pytest" in sys.modules and _TEST in os.environ:
        return True
    if harness is None:
        return False
    mock: Any = sys.modules.get("graphrt.harness.mock")  # not loaded: then the harness is none
    return mock is not None and isinstance(harness, mock.MockHarness)
