"""The demo of the main job: a release becomes a cluster class, a Cluster becomes an API server with addons, an upgrade.

``scenario``, ``ranges_scenario`` and ``upgrade_scenario`` hold the steps, ``await_state`` reads the clusters, and
``plan.clusters.cluster_tree`` draws the tree.
"""
