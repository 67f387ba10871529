"""Lint rules, one module per theme; each module ends with its ``RULES``.

A rule is a pure function of the loaded stack. It never raises, whatever the files contain, and never prints content
that may be secret.
"""
