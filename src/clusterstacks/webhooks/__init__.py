"""The validating webhooks: served by every replica of the operator, with certificates it makes and renews itself.

:mod:`.server` answers the API server, :mod:`.dispatch` sends each object to its validator, :mod:`.cluster_validator`
gathers what a decision on a Cluster needs. :mod:`.certificates` and :mod:`.certificate_rotation` are the certificates
in a Secret, :mod:`.configuration` is the ValidatingWebhookConfiguration. The decisions are in :mod:`.rules`.
"""
