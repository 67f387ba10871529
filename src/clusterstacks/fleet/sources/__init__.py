"""Where the releases of a ClusterStack are published, and how they are asked for there."""
