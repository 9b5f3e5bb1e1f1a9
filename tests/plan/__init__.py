"""Tests of the plan: what is read off user classes, what compile() finds, how a graph is drawn."""
