"""Releases as values and on disk: contents, verification on opening, the store.

Bytes from outside are bounded and verified before they are parsed. A release on disk is complete or does not exist, and
a caller gets exactly the content of the digest it asks for. Kubernetes objects, templates and clusters are out of
scope.
"""
