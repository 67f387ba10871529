"""Charts that other charts depend on: found, verified, and put where Helm looks for them.

::

    errors        what can be wrong
    choosing      which of the published versions is taken
    downloading   requests to chart repositories
    chartindex    index.yaml of a repository, which may be large
    repositories  where charts are published: HTTP repositories and OCI registries
    packages      checking an archive, packing a chart that lies beside the one that needs it
    shelf         the archives on this machine's disk, by digest
    searching     looking for charts in all these places
    vendoring     all of the above together
"""
