"""The validating webhooks: served by every replica of the operator, with a certificate that it rotates itself.

The :mod:`.server` answers the API server; :mod:`.dispatch` sends each object to :mod:`.cluster_validator` or
:mod:`.stack_validators`, which read the inputs of the pure rules in :mod:`.cluster_rules`, :mod:`.stack_rules` and
``plan/compat/rules``. :mod:`.suggestions` says what to do instead of a refused write. :mod:`.certificates` rotates the
serving certificate, :mod:`.configuration` builds the ValidatingWebhookConfiguration, and
:mod:`.unregistration` deletes it once the webhooks are disabled.
"""
