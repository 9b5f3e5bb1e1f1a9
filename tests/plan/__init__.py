"""Tests of the plan: reading user classes, findings of compile(), and drawings of graphs."""
