"""The demo of the main job: a release becomes a cluster class, a Cluster becomes an API server with addons, an upgrade.

``scenario`` and ``ranges_scenario`` hold the steps, ``await_state`` reads the clusters, ``view`` draws the tree.
"""
