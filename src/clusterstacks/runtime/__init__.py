"""Controller runtime: everything reconcilers need that does not depend on our own kinds.

The design is level-triggered and follows client-go. An informer keeps a cache equal to the server and notifies its
subscribers of changes; a subscriber adds keys to a work queue; a controller reconciles them, one worker per key at a
time. Informers do not know controllers, so controllers may stop and start (e.g. with a lease) while the caches stay
current. A failure in one handler, reconciler or object does not stop the others.
"""
