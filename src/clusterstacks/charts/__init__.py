"""Helm charts as files: archives, requirements, lock, repositories and the resolution of chart dependencies.

::

    errors            errors of archives, requirements and repositories
    tar, safe_paths   strict reading of tar streams, and the member names that are accepted
    archive           archives (``.tgz``), read within bounds and written reproducibly
    helmignore        the files of a directory that belong to a chart
    chart             the charts of a release
    kube_version      ``kubeVersion`` of a chart as a range
    helm_hooks        the hooks of a chart's objects
    requirements      the dependencies of a chart, and those missing from its ``charts/``
    lockfile          resolved dependencies and their digests
    chart_version     selection of a version
    chart_download    requests to chart repositories
    repository_index  index.yaml of a repository
    repository        HTTP and OCI chart repositories
    packages          verification and packing of chart archives
    chart_cache       archives on disk, by digest
    resolve           resolution of a dependency
    vendor            download of all missing dependencies into ``charts/``
"""
