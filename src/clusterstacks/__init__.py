"""Cluster stacks for Cluster API: the operator, and the tool of their authors."""
