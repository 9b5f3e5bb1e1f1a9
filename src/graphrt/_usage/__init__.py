"""Costs of model calls: the counts that providers report, the amounts that budgets count, and the limits on them.

Each count and each amount is declared once, in `usage` and `amounts`. Sums, stored forms, limits, texts and reports
follow from these declarations. The code that makes calls or enforces budgets (`harness.budget`, `_agents`) is in layers
above, and does not name individual amounts.
"""
