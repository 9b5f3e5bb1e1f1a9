"""Agents and budgets in a run: their services for a task, recorded calls, ledgers and grants. See README.md."""
