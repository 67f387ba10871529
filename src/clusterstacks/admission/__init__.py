"""The validating webhooks: served by every replica of the operator, with certificates it makes and renews itself.

:mod:`.server` answers the API server, :mod:`.judging` sends each object to who decides on it, :mod:`.weighing` gathers
what a decision on a Cluster needs. :mod:`.certificates` and :mod:`.keeping` are the certificates in a Secret,
:mod:`.configuration` is what the API server is told. The decisions themselves are in ``domain.admission``.
"""
