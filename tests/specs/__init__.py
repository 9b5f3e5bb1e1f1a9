"""Tests of graphs as data."""
