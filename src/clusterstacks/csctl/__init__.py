"""``csctl``: what authors, providers and users run. ``main`` lists the verbs.

Law: ``shared.output`` is the only place that knows tables, JSON, colours and exit codes; whatever is slow to import is
imported inside the command that needs it, so that ``csctl --help`` answers at once.
"""
