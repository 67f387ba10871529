"""Controllers, one package per kind: ``reconciler`` holds the sequence, the other modules the steps.

A controller reads a snapshot, decides in a pure module, acts, and writes status once. State that must survive a restart
is in the objects and in the clusters.
"""
