"""Reads the facts about the minors of Kubernetes, without what takes long to import: ``csctl status`` needs them."""

from __future__ import annotations

from datetime import date
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from clusterstacks.model import yaml
from clusterstacks.model.versions import KubernetesMinor
from clusterstacks.plan.compat.support import SupportEnd

if TYPE_CHECKING:
    from collections.abc import Mapping

FACTS = "facts/kubernetes.yaml"


@cache
def kubernetes_facts() -> Any:  # noqa: ANN401 - package data, checked by a test
    """Return the built-in facts about Kubernetes itself."""
    return yaml.load(resources.files(__package__).joinpath(FACTS).read_bytes(), name=FACTS)


@cache
def support_ends() -> Mapping[KubernetesMinor, SupportEnd]:
    """Return when the released minors leave support."""
    document = kubernetes_facts()
    sources = {source["id"]: source for source in document["sources"]}
    ends = {}
    for release in document["releases"]:
        source = sources[release["sources"][0]]
        read = source.get("retrieved") or source.get("published") or ""
        minor, day = KubernetesMinor.parse(release["version"]), date.fromisoformat(release["eol"])
        ends[minor] = SupportEnd(day, source["url"], read)
    return ends
