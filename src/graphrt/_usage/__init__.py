"""What a model call may cost: the counts that providers report, the amounts that budgets count, and the limits on them.

Each count and each amount is declared once, in `usage` and `amounts`. Sums, stored forms, limits, texts and reports
follow from these declarations. The code that makes calls or enforces budgets (`harness.budget`, `_agents`) is above
this package, and does not name single amounts.
"""
