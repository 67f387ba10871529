"""The local Cluster API provider: one real kube-apiserver per Cluster is both infrastructure and control plane.

Contract v1beta2, group ``local.clusterstack.x-k8s.io``. It runs as a separate process and owns the API servers that it
starts: they stop and start with it and keep keys, port and objects.
"""
