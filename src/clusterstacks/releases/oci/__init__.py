"""A client of OCI registries (distribution-spec 1.1), and releases as artifacts in them (FORMATS sections 9 and 16).

::

    reference       where something is: host/repository:tag@digest
    dockerconfig    credentials as docker, podman and Kubernetes keep them
    helpers         programs that keep credentials
    credentials     which of them are for a registry
    challenges      how a registry asks who is there
    authorization   answers to that: Basic, or tokens per repository and action
    session         requests to one repository
    descriptors     what a manifest says of a blob
    manifests       manifests, read and verified
    pages           lists that come in pages
    tagging         manifests under tags and digests
    transfers       moving many bytes: progress, and when to give up
    downloads       blobs to disk, resumed and verified
    uploads         blobs to a registry, resumed
    referrers       what belongs to a manifest, with and without the registry's help
    signatures      envelopes as referrers, and where cosign keeps its own
    registry        one repository: all of the above together
    artifact        a release directory as a manifest, and back
    source          a repository as a source of releases
    publishing      a release directory into a repository
    copying         a release with its signatures into another repository
"""
