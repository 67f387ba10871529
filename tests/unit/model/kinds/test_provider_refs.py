"""References to provider objects: own namespace and allowed kinds only."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.provider_refs import (
    DEFAULT_KINDS,
    KindPattern,
    ProviderReference,
    release_refusal,
    template_refusal,
)

GROUP = "infrastructure.clusterstack.x-k8s.io"
OPENSTACK = "OpenStackClusterStackRelease"
OTHER = KindPattern("example.org", "Bundle")


@pytest.mark.parametrize(
    ("pattern", "group", "kind", "matches"),
    [
        ("Bundle.example.org", "example.org", "Bundle", True),
        ("Bundle.example.org", "example.org", "BundleTemplate", False),
        ("Bundle.example.org", "sub.example.org", "Bundle", False),
        ("Bundle.example.org", "", "Bundle", False),
        ("*Bundle.example.org", "example.org", "Bundle", True),
        ("*Bundle.example.org", "example.org", "MyBundle", True),
        ("*Bundle.example.org", "example.org", "BundleOf", False),
        ("*.example.org", "example.org", "Anything", True),
        ("*.example.org", "example.org", "", False),
        ("*.example.org", "", "Secret", False),
    ],
)
def test_pattern_matches_kinds_of_its_group(pattern: str, group: str, kind: str, *, matches: bool) -> None:
    assert KindPattern.parse(pattern).matches(group, kind) is matches


@pytest.mark.parametrize("text", ["", "Secret", "Secret.", ".group", "A*B.group", "A*.group", "**.group", "A.*"])
def test_invalid_kind_is_rejected(text: str) -> None:
    with pytest.raises(SpecError, match=r"write Kind\.group"):
        KindPattern.parse(text)


@pytest.mark.parametrize("pattern", [*DEFAULT_KINDS, OTHER])
def test_pattern_is_written_as_it_is_read(pattern: KindPattern) -> None:
    assert KindPattern.parse(str(pattern)) == pattern


@pytest.mark.parametrize("provider", ["OpenStack", "Docker", "Local", ""])
def test_provider_kinds_of_the_go_operator_are_allowed(provider: str) -> None:
    kind = f"{provider}ClusterStackRelease"

    assert not release_refusal(ProviderReference(GROUP, kind, "here"), "here", DEFAULT_KINDS)
    assert not template_refusal(ProviderReference(GROUP, f"{kind}Template"), "here", DEFAULT_KINDS)


@pytest.mark.parametrize(
    ("group", "kind", "namespace", "words"),
    [
        (GROUP, OPENSTACK, "there", "spec.providerRef.namespace is there"),
        ("", "Secret", "", "needs kind Secret of the core group"),
        ("", "Secret", "here", "name an object of such a kind"),
        ("apps", "Deployment", "", "--provider-kinds Deployment.apps"),
        ("clusterstack.x-k8s.io", "ClusterStackRelease", "", "--provider-kinds"),
        (f"{GROUP}.evil.org", OPENSTACK, "", "--provider-kinds"),
        (GROUP, "", "", "--provider-kinds"),
        (GROUP, f"{OPENSTACK}Template", "", "ends in Template"),
    ],
)
def test_other_kinds_are_rejected_for_a_release(group: str, kind: str, namespace: str, words: str) -> None:
    refusal = release_refusal(ProviderReference(group, kind, namespace), "here", DEFAULT_KINDS)

    assert words in refusal
    assert ("start the operator" in refusal) is (bool(group) and words.startswith("--"))


@pytest.mark.parametrize(
    ("group", "kind", "namespace", "words"),
    [
        (GROUP, f"{OPENSTACK}Template", "there", "spec.providerRef.namespace is there"),
        (GROUP, OPENSTACK, "", "name one that ends in Template"),
        ("", "PodTemplate", "", "needs kind PodTemplate of the core group"),
        ("example.org", "BoxTemplate", "", "--provider-kinds BoxTemplate.example.org,Box.example.org"),
        (GROUP, "Template", "", "needs kind Template"),
    ],
)
def test_other_kinds_are_rejected_for_a_stack(group: str, kind: str, namespace: str, words: str) -> None:
    assert words in template_refusal(ProviderReference(group, kind, namespace), "here", DEFAULT_KINDS)


def test_kind_created_from_a_template_must_be_allowed() -> None:
    reference = ProviderReference("example.org", "BundleTemplate")
    template = KindPattern("example.org", "BundleTemplate")

    assert "--provider-kinds Bundle.example.org" in template_refusal(reference, "here", [template])
    assert not template_refusal(reference, "here", [template, OTHER])


@given(namespace=st.text(), group=st.text(), kind=st.text())
def test_reference_to_another_namespace_or_the_core_group_is_rejected(namespace: str, group: str, kind: str) -> None:
    kinds = [*DEFAULT_KINDS, OTHER, KindPattern("example.org", "*")]
    for refusal in (release_refusal, template_refusal):
        if not refusal(ProviderReference(group, kind, namespace), "here", kinds):
            assert namespace in ("", "here")
            assert group
