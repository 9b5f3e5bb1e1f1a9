"""Budgets of model calls: limits on tokens, dollars, calls and seconds, and the ledgers that enforce them."""

from graphrt.harness.budget._budget import Budget, BudgetWarning

__all__ = ["Budget", "BudgetWarning"]
