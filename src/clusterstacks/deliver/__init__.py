"""Renders the manifests of a release, brings them to a cluster and keeps them there."""
