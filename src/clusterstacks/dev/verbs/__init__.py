"""The verbs of the local environment; ``csctl`` finds them by name."""
