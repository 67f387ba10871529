"""Installs the operator in a management cluster, checks the cluster before, and removes the operator."""
