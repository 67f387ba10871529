"""Values that all packages share, without any I/O.

Everything here is an immutable value or a pure function: no clock, no files, no network, no logging.
"""
