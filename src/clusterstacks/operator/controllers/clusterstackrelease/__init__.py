"""ClusterStackRelease controller: downloads one release, applies its cluster class, and deletes it."""
