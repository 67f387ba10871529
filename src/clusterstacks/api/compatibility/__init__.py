"""What upstream projects state about versions, as package data: one YAML file per component below ``facts/``.

The law: every fact names its source and the day it was read; what was not found is absent, never guessed. Facts are
the state of their day, and users can lay newer files over them. ``facts/README.md`` is the schema; what the facts say
about a pair of versions is decided in :mod:`clusterstacks.domain.upstream` and :mod:`clusterstacks.domain.skew`.
"""
