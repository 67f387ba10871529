"""The kinds of cluster-stack-provider-openstack, carried out by the OpenStack Resource Controller (ORC)."""
