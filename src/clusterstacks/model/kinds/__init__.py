"""Our kinds as pydantic models, their CRDs, and read-only views of Cluster API's objects.

This package reads and writes documents: it talks to no server and decides
nothing about clusters.
"""
