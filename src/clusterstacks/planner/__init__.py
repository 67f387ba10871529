"""The upgrade planner: the cheapest order of single changes that takes a cluster to its target, or why there is none.

Pure values and functions. A :class:`~clusterstacks.compat.world.World` says what releases there are,
:mod:`clusterstacks.compat.constraints` what they allow; :mod:`.compiling` numbers what is not interchangeable
(:mod:`.quotient`) for :mod:`.search`; :mod:`.explaining` turns a search that found nothing into the facts that stand
in the way. :mod:`.planner` is the entry, :mod:`.effort` what it may spend.

The law: every state a plan passes through is allowed by every fact, Kubernetes never goes down and never more than one
minor up at a time, and the same question always gets the same answer.
"""
