"""Live clusters and what they could become, as domain values: what the CLI, webhooks and reconcilers share.

:mod:`.clusters` reads a Cluster, :mod:`.stacks` the ClusterStacks and rules it lives under, :mod:`.candidates` the
releases there are, wherever they are published. :mod:`.world` brings them together for the planner. Everything is read
live and nothing is written.
"""
