"""Budgets of model calls: limits on tokens, dollars, calls and seconds, and the ledgers that enforce them."""

from graphrt._usage.budget import Budget, BudgetWarning

__all__ = ["Budget", "BudgetWarning"]
