"""Facts of releases in the status of their ClusterStackReleases."""

from __future__ import annotations

from typing import Any

import pytest

from clusterstacks.model.files.compatibility import API_VERSION, Compatibility, parse_compatibility
from clusterstacks.model.files.metadata import Metadata
from clusterstacks.model.kinds.clusterstackrelease import MAX_FACTS_BYTES
from clusterstacks.model.kinds.names import DIGEST_ANNOTATION
from clusterstacks.model.versions import KubernetesVersion, StackVersion
from clusterstacks.plan.compat.release_facts import FactsNotKept, ReleaseFacts, read_facts

DIGEST = "sha256:" + "a" * 64
METADATA = Metadata(StackVersion(1), KubernetesVersion.parse("v1.35.4"), StackVersion(2))


def stated(count: int = 1, **rule: Any) -> Compatibility:
    components = [
        {"name": f"cni-{number}", "addon": "cni", "version": "1.18.2", "kubernetes": ">=1.30 <1.36", "source": "x" * 60}
        for number in range(count)
    ]
    rules = [{"id": "one", "severity": "Deny", "message": "no", "when": {"variables": rule}}] if rule else []
    document = {"apiVersion": API_VERSION, "kubernetes": ">=1.34 <1.37", "components": components, "rules": rules}
    return parse_compatibility(document)


def release(facts: object, *, digest: str = DIGEST, pinned: str = DIGEST) -> dict[str, Any]:
    return {
        "metadata": {"name": "p-s-1-35-v1", "annotations": {DIGEST_ANNOTATION: pinned}},
        "status": {"digest": digest, "facts": facts},
    }


@pytest.mark.parametrize("compatibility", [None, stated(), stated(12, mode="native", replicas=3)])
def test_written_facts_are_read_back_unchanged(compatibility: Compatibility | None) -> None:
    written = ReleaseFacts(METADATA, compatibility).write()

    found = read_facts(release(written))

    assert found is not None
    assert (found.name.release, found.kubernetes) == ("p-s-1-35-v1", METADATA.kubernetes)
    assert found.compatibility == compatibility
    assert len(written) < 4096


@pytest.mark.parametrize(
    "facts",
    [None, 7, "", "{", "[]", "{}", '{"metadata": {}}', '{"metadata": 3}', "[" * 5000, "x" * (MAX_FACTS_BYTES + 1)],
)
def test_unreadable_facts_are_unknown(facts: object) -> None:
    assert read_facts(release(facts)) is None


@pytest.mark.parametrize("how", [{"digest": "sha256:other"}, {"pinned": ""}, {"digest": "", "pinned": ""}])
def test_facts_of_another_digest_than_the_pinned_one_are_ignored(how: dict[str, str]) -> None:
    assert read_facts(release(ReleaseFacts(METADATA).write(), **how)) is None


@pytest.mark.parametrize("compatibility", [stated(2000), stated(replicas=1 << 80)])
def test_facts_too_large_for_the_status_are_rejected_with_the_reason(compatibility: Compatibility) -> None:
    with pytest.raises(FactsNotKept, match=r"status.facts cannot hold compatibility.yaml, which"):
        ReleaseFacts(METADATA, compatibility).write()
