"""Version compatibility: facts, statements, rules, verdicts and matrices.

``facts/`` holds what upstream projects state, as package data: one YAML file per component (``facts/README.md`` is the
schema). Every fact names its source and the day it was read; what was not found is absent, never guessed. Users can
lay newer files over them. :mod:`.library`, :mod:`.kubernetes`, :mod:`.removed_apis` and :mod:`.install` read files;
everything else is pure.
"""
