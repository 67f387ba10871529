"""A module per verb, which parses, calls and prints; those of the local environment are in ``dev.verbs``."""
