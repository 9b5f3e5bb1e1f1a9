"""An operations runbook: parallel evidence, a summary, a designed plan, a person who decides, and a report."""

from __future__ import annotations
