"""ClusterStackRelease: one release, from its files to an accepted cluster class, and to its end."""
