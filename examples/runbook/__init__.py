"""An operations runbook: evidence side by side, a summary, a plan that is designed, a person who decides, and a report."""

from __future__ import annotations
