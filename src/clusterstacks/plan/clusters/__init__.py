"""Live clusters and their upgrade targets as values, for the CLI, the webhooks and the controllers.

:mod:`.live_cluster` reads a Cluster, :mod:`.offered_stacks` the ClusterStacks and rules that apply to it,
:mod:`.candidates` the published releases. :mod:`.context` brings them together for the planner. :mod:`.cluster_summary`
and :mod:`.cluster_tree` describe the state of Clusters for people, :mod:`.release_groups` groups Clusters by release.
Everything is read live and nothing is written.
"""
