"""ClusterAddon: the addons of one cluster, stage by stage."""
