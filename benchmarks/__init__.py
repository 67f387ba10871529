"""Repeatable measurements. ``make bench`` runs them all; docs/benchmarks.md holds the results and the method."""
