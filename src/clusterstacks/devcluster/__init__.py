"""The local environment: a management cluster and its workload clusters made of processes, without containers.

Part of the product (``csctl dev``) and the ground the integration tests stand on. It finds or builds the binaries,
makes keys, starts and watches processes, prepares Cluster API and plays its infrastructure and control plane provider.
Law: it knows our API only through its CRDs and starts our operator as a process like any other; it never imports it.
"""
