"""Provides the machine with the descriptions of the laws and the server of the stores' tests, under their names there."""

from __future__ import annotations

import sys
from pathlib import Path

_TESTS = str(Path(__file__).parents[1])
if _TESTS not in sys.path:
    sys.path.append(_TESTS)
