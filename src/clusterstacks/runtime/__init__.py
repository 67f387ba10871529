"""Controller runtime: everything reconcilers need that does not depend on our own kinds.

Level-triggered, like client-go: an informer keeps a cache equal to the server and notifies its subscribers, which add
keys to a work queue; a controller reconciles the keys, one worker per key at a time. Informers do not know controllers,
so the caches stay current while controllers stop and start (e.g. with a lease). A failure in one handler, reconciler or
object does not stop the others.
"""
