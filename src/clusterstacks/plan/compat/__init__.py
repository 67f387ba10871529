"""Version compatibility: facts, statements, rules, verdicts and matrices.

``facts/`` holds what upstream projects state, as package data: one YAML file per component (``facts/README.md`` is the
schema). Every fact names its source and the day it was read; what was not found is absent, never guessed. Users can
install newer files over them. :mod:`.library` and :mod:`.kubernetes` read files; everything else is pure. ``rules/``
has one file for each theme of rules about the versions of a cluster.
"""
