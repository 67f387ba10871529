"""The Kubernetes client: connection, credentials, discovery, requests, server-side apply, watches.

Its law: nothing here knows our own kinds. Every call has a deadline and a bound on what it reads, every failure is one
of the types in ``errors``, and no credential ever stands in a message, a log line or a ``repr``.

``kubeconfig`` reads a ``connection``; ``credentials`` (with ``tls``, ``freshfile``, ``execplugin``) turns it into
headers and TLS contexts and renews them; ``transport`` sends ``calls`` with deadline, retries and budget; ``discovery``
finds kinds; ``watching`` cuts a stream into events; ``status`` names failures; ``client`` offers the verbs.
"""
