"""Reads and writes Helm charts: archives, dependencies, lock files and chart repositories.

::

    errors        errors of archives, dependencies and repositories
    tar           strict reader of tar streams
    archive       archives (``.tgz``): bounded reading, reproducible writing
    helmignore    the files of a directory that belong to a chart
    chart         the charts of a release
    helm_hooks    the hooks of a chart's objects
    requirements  the dependencies of a chart, and those missing from its ``charts/``
    lockfile      resolved dependencies and their digests
    repository    HTTP and OCI chart repositories
    chart_cache   chart archives on disk, by digest
    resolve       resolution of one dependency
    vendor        download of all missing dependencies into ``charts/``
"""
