"""Kubernetes API client: connections, credentials, discovery, requests, server-side apply and watches.

This package does not know our own kinds. Every call has a deadline and a limit on what it reads, and every failure is
one of the types in ``errors``. No credential appears in a message, a log line or a ``repr``.

``kubeconfig`` reads a ``connection``. ``auth`` (with ``tls`` and ``exec_plugin``) provides its headers and TLS contexts
and renews them. ``transport`` sends ``requests`` with a deadline, retries and a budget. ``discovery`` finds resources.
``paged_list`` and ``watch`` read lists and streams. ``failure_status`` returns ``errors`` for failures. ``client``
has the verbs.
"""
