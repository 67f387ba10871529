"""The local environment: a management cluster and its workload clusters made of processes, without containers.

Part of the product (``csctl dev``), also used by the integration tests. It finds or builds the binaries, creates keys,
starts and watches processes, prepares Cluster API and runs a local infrastructure and control plane provider.
It knows our API only through its CRDs and starts our operator as a process; it never imports it.
"""
