"""Which versions work together, the state of live clusters, and the order of an upgrade."""
