"""The controller runtime: what every reconciler stands on, and nothing a reconciler decides.

Level-triggered, in the shape of client-go. An informer keeps a store equal to the server and tells its subscribers
what changed; a subscriber puts keys into a queue; a reconciler host takes them out, one worker a key. Informers know
nothing of hosts, so a host may come and go (a lease lost, a shard moved) while the stores stay warm. A failing handler,
reconciler or object never stops the others. This package knows the Kubernetes client and the domain, no kind of ours.
"""
