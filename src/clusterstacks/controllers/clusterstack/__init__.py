"""ClusterStack: which releases of a stack the management cluster has."""
