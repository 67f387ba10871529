"""What may be written: the decisions of the validating webhooks, without any I/O.

:mod:`.own` decides on our own kinds. Of Clusters, :mod:`.bundles` decides where the class belongs to a bundle, as the
Go operator does, and :mod:`.clusters` where the class states ranges. :mod:`.wayout` words what to do instead.
"""
