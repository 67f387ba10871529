"""Keeps the objects of ConfigMaps and Secrets in place on many clusters."""
