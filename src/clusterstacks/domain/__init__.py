"""Values and decisions, without any I/O.

Everything here is a pure function on immutable values: no clock, no files, no network, no logging. The rest of the
program fetches what these functions need and acts on what they answer.
"""
