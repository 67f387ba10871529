"""The ways to the network: Kubernetes API servers, OCI registries and web servers."""
