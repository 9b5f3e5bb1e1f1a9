"""Budgets of model calls: how much may be spent, the ledger that holds calls to it, and the count of what was used."""

from graphrt.harness.budget._budget import Budget, BudgetWarning

__all__ = ["Budget", "BudgetWarning"]
