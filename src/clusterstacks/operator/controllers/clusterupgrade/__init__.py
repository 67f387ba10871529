"""Carries out the plan of an upgrade step by step."""
