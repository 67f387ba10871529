"""One package per kind: ``reconciler.py`` holds the sequence, a module per phase holds the work.

A controller reads a snapshot, lets ``domain`` decide, acts through the packages below, and writes status once. It
holds no state of its own that matters: what must survive lies in the objects and in the clusters.
"""
