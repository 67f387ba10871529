"""ClusterAddon controller: delivers the addons of one cluster, stage by stage."""
