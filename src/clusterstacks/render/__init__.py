"""Helm charts, Go templates and CEL, evaluated in worker processes that can be killed.

``renderer`` is what the rest of the program calls; ``queue`` decides who gets a worker next; ``failures`` remembers
what hung; ``processes`` and ``frames`` are the way to the workers. The law:
``helm``, ``cel`` and what imports them (``charts``, ``gotemplate``) are loaded by ``worker`` only, in its functions,
never by the operator or the command line. A worker has no credentials, no network and no files to write.
"""
