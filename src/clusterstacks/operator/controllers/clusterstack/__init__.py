"""ClusterStack controller: creates and deletes the releases of a stack in the management cluster."""
