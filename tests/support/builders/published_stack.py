"""A cluster stack made of the built-in facts: every upstream series is in a release."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from clusterstacks.model.semver import SemVer
from clusterstacks.model.versions import KubernetesVersion
from clusterstacks.plan.compat.library import facts
from clusterstacks.plan.compat.verdicts import Verdict
from clusterstacks.plan.compat.world import World
from tests.support.planner_oracle import candidate

if TYPE_CHECKING:
    from clusterstacks.plan.compat.world import Candidate

MINORS = range(28, 37)
COMPONENTS = (
    "aws-ebs-csi-driver",
    "azuredisk-csi-driver",
    "calico",
    "cert-manager",
    "cilium",
    "coredns",
    "hcloud-cloud-controller-manager",
    "hcloud-csi-driver",
    "ingress-nginx",
    "local-path-provisioner",
    "longhorn",
    "metrics-server",
    "openstack-cinder-csi",
    "openstack-cloud-controller-manager",
    "rook-ceph",
)


def published_world() -> World:
    """Return a world whose releases state nothing but versions: upstream says what they work with.

    A series appears with the first Kubernetes minor it works with. A minor has as many releases as one component has
    series that appear with it.
    """
    upstream = facts()
    appearing = {name: _appearing(name) for name in COMPONENTS}
    candidates: list[Candidate] = []
    having = {name: min(versions for versions in appearing[name].values())[0] for name in COMPONENTS}
    for minor in MINORS:
        count = max(len(appearing[name].get(minor, ())) for name in COMPONENTS)
        for number in range(max(count, 1)):
            for name in COMPONENTS:
                versions = appearing[name].get(minor, ())
                if versions:
                    having[name] = versions[min(number, len(versions) - 1)]
            candidates.append(_release(minor, number + 1, having))
    return World(tuple(candidates), upstream=upstream)


def _release(minor: int, number: int, having: dict[str, SemVer]) -> Candidate:
    components: list[dict[str, Any]] = [
        {"name": name, "addon": name, "version": str(version)} for name, version in having.items()
    ]
    stated = {"kubernetes": f">=1.{minor - 1} <1.{minor + 2}", "components": components}
    return candidate(f"example-published-1-{minor}-v{number}", f"v1.{minor}.0", stated)


def _appearing(name: str) -> dict[int, list[SemVer]]:
    """Return the series of a component by the first minor each works with."""
    known = facts()
    bounds = {
        (int(major), int(minor), int(patch or 0))
        for statement in known.components[name].statements
        for major, minor, patch in re.findall(r"^>?=([0-9]+)\.([0-9]+)(?:\.([0-9]+))?", statement.versions.text)
    }
    found: dict[int, list[SemVer]] = {}
    for bound in sorted(bounds):
        version = SemVer(*bound)
        works = [
            minor
            for minor in MINORS
            if known.judge(name, version, KubernetesVersion(1, minor, 0)).verdict is not Verdict.INCOMPATIBLE
        ]
        if works:
            found.setdefault(works[0], []).append(version)
    return found
