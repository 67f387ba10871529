"""Applies manifests to clusters and prunes them: order, server-side apply, field ownership, delivery records.

``delivery_plan``, ``ownership``, ``policy``, ``waves`` and ``class_object_rules`` decide and are pure; the other
modules send the requests and report the result of each object. All state is in the delivery records of the cluster.
"""
