"""The operator: controllers, webhooks, and the process that connects them (settings, probes, rights, orderly stop)."""
