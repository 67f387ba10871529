"""What upstream projects state about versions, as package data: one YAML file per component below ``facts/``.

The law: every fact names its source and the day it was read; what was not found is absent, never guessed.
"""
