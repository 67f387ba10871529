"""What ``csctl`` does for the authors of cluster stacks beyond building them: init, lint, template, diff.

Law: everything here reads a stack or a release and tells its author about it; only ``beginning`` writes, and only files
that do not exist. What the operator does with a release is not written down a second time: charts, values and
conditions go through ``render`` and ``releases`` as the operator's do. A wrong stack is a list of findings, never an
exception. Values of Secrets are shown to nobody, except by ``template``, which prints what the author wrote.
"""
