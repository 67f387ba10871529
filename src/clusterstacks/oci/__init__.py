"""Client of OCI registries (distribution-spec 1.1).

::

    reference           host/repository:tag@digest
    docker_config       credentials as docker, podman and Kubernetes keep them
    credential_helpers  programs that keep credentials
    credentials         the credentials for a registry
    challenge           ``WWW-Authenticate``
    authorization       Basic, or tokens per repository and action
    session             requests to one repository
    descriptor          descriptors of blobs and manifests
    manifests           manifests, read and verified
    pagination          lists in pages
    tags                manifests by tag and digest
    transfers           progress and retries of large transfers
    blob_download       blobs to disk, resumed and verified
    blob_upload         blobs to a registry, resumed
    referrers           referrers of a manifest, with and without the registry's API
    registry            one repository: all of the above together
"""
