"""``csctl``, the command line: a module per verb, which parses, calls and prints.

Law: :mod:`output` is the only place that knows tables, JSON, colours and exit codes; whatever is slow to import is
imported inside the command that needs it, so that ``csctl --help`` answers at once.
"""
