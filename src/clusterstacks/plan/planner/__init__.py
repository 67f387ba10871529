"""Upgrade planner: finds the cheapest sequence of single changes that takes a cluster to its target.

Pure values and functions. :mod:`.planner` is the entry. A :class:`~clusterstacks.plan.compat.world.World` lists the
releases, and :mod:`clusterstacks.plan.compat.constraints` evaluates their constraints, which documents and messages
call facts. :mod:`.model_builder` numbers what is not interchangeable (:mod:`.equivalence`) for :mod:`.search`, and
:mod:`.conflicts` explains why no plan exists. :mod:`.budget` bounds both.

Invariants: every state that a plan passes through satisfies every fact; Kubernetes never goes down and never more than
one minor up at a time; the same question always gets the same answer.
"""
