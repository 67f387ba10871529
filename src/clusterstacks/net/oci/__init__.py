"""Client of OCI registries (distribution-spec 1.1).

::

    reference           host/repository:tag@digest
    credentials         credentials of a registry: variables, configuration files, credential helpers, Secrets
    authorization       ``WWW-Authenticate``: Basic, or tokens per repository and action
    session             requests to one repository, and lists in pages
    descriptor          descriptors of blobs and manifests
    manifests           manifests: read, written, verified, pulled and pushed
    transfers           progress and retries of large transfers
    blob_download       blobs to disk, resumed and verified
    blob_upload         blobs to a registry, resumed
    referrers           referrers of a manifest, with and without the registry's API
    registry            one repository: all of the above together
"""
