"""Applies manifests to clusters and prunes them: order, server-side apply, field ownership, delivery records.

The modules that decide are pure; ``pyproject.toml`` lists them. The others send the requests and report the result of
each object. All state is in the delivery records of the cluster.
"""
