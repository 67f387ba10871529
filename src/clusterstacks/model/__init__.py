"""Values that all rooms share: versions, names, ranges, conditions, errors; our kinds and files; YAML and JSON.

Everything here is an immutable value or a pure function: no clock, no files, no network, no logging.
"""
