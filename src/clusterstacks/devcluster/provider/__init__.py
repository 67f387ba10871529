"""The local Cluster API provider: one real kube-apiserver per Cluster, as infrastructure and control plane at once.

Contract v1beta2, group ``local.clusterstack.x-k8s.io``. It runs as a process of its own and owns the API servers it
starts: they end with it and come back with it, with the same keys, port and objects.
"""
