"""Manifests into a cluster and out again: order, server-side apply, field ownership, delivery records, prune.

Law: decisions are taken in ``domain`` (delivery, pruning, ownership, waves); this package asks the cluster, does what
was decided and reports per object what the server said. Nothing here keeps state between two calls that the cluster's
delivery records do not hold.
"""
