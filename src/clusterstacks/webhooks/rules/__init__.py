"""Decisions of the validating webhooks, without any I/O.

:mod:`.own_kinds` decides on our own kinds. Of Clusters, :mod:`.bundles` decides where the class belongs to a bundle,
and :mod:`.cluster_versions` where the class states ranges. :mod:`.suggestions` words what to do instead.
"""
