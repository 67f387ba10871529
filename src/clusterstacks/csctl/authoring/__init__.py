"""Tools for authors of cluster stacks: ``csctl`` init, lint, template, diff and compat infer.

The modules read a stack or a release and report on it. Only ``scaffold`` and ``infer_compat`` write files. Charts,
values and conditions go through ``deliver.render`` and ``release``, as in the operator. A broken stack is a list
of findings, never an exception. Values of Secrets are never printed, except by ``template``, which prints what the
author wrote.
"""
