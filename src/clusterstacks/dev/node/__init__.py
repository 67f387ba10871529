"""A real Kubernetes node: kubelet, kube-proxy and containerd in namespaces of their own, beside the host's processes.

The control plane stays on the host. It reaches pods and Services through a pair of network interfaces.
"""
