"""The main job, shown: a release becomes a cluster class, a Cluster becomes an API server with its addons, an upgrade.

``scenario`` is the story, ``observing`` reads what a user could read with kubectl, ``tree`` makes the picture of it.
"""
