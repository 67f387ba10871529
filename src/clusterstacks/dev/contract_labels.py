"""Cluster API's contract labels on CRDs: they name the API version of a kind for each contract version.

Without them Cluster API finds no version of a kind that a ClusterClass or Cluster names, and reports InternalError.
Source: https://cluster-api.sigs.k8s.io/developer/providers/contracts/overview.html#api-version-labels
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

PREFIX = "cluster.x-k8s.io/"
CONTRACTS = ("v1beta2", "v1beta1")
"""Contract versions that Cluster API 1.11 and newer accept, the preferred one first."""
_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_RANKS = {"alpha": 0, "beta": 1, None: 2}


def stated_labels(kustomization: Any) -> dict[str, str]:  # noqa: ANN401 - foreign YAML
    """Return the labels that a kustomization sets on its resources; empty for any other document.

    Providers state their contracts in ``config/crd/kustomization.yaml``, not in the generated CRDs.
    """
    if not isinstance(kustomization, Mapping):
        return {}
    groups = [kustomization.get("commonLabels")]
    entries = kustomization.get("labels")
    groups += (
        [entry.get("pairs") for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []
    )
    return {str(key): str(value) for group in groups if isinstance(group, Mapping) for key, value in group.items()}


def version_for_cluster_api(labels: Mapping[str, str]) -> str:
    """Return the API version that Cluster API selects from the labels; empty when they name none.

    It takes the newest contract and its newest version; a label separates versions by ``_``.
    """
    for contract in CONTRACTS:
        if stated := labels.get(f"{PREFIX}{contract}"):
            return max(stated.split("_"), key=_age)
    return ""


def _age(version: str) -> tuple[int, int, int]:
    """Sort key in the order of Kubernetes: v2, v1, v1beta2, v1beta1, v1alpha1, then everything else."""
    found = _VERSION.fullmatch(version)
    return (_RANKS[found[2]], int(found[1]), int(found[3] or 0)) if found else (-1, 0, 0)
