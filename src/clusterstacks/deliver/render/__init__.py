"""Renders Helm charts and Go templates and evaluates CEL, in worker processes that can be killed.

::

    renderer          the interface for the rest of the program; deadlines and repeated tries
    render_queue      the order in which requests get a worker
    failure_cache     inputs whose render was slow or failed
    worker_pool       worker processes: start, memory limit, kill, end
    protocol          messages between the program and a worker
    worker            the main program of a worker
    helm, helm_output Helm's engine, and the objects it renders
    gotemplate        single Go templates
    values_document   values of an addon
    cel               CEL expressions

``helm``, ``cel`` and ``gotemplate`` are imported only inside the functions of ``worker``, never by the operator or
csctl. A worker has no credentials, no network and no files to write.
"""
