"""Rules for every upgrade; those for bundles are those of the Go operator's webhook."""

from __future__ import annotations

import pytest

from clusterstacks.model.names import parse_class
from clusterstacks.plan.compat.rules.upgrades import (
    between_bundles_refusal,
    bundle_refusal,
    change_refusal,
    upgrade_refusal,
)

BUNDLE = parse_class("openstack-scs-1-35-v1")


@pytest.mark.parametrize(
    ("version", "refused"),
    [("v1.35.4", False), ("v1.35.5", True), ("v1.35.3", True), ("v1.36.0", True), ("1.35.4", True), ("", True)],
)
def test_a_bundle_needs_its_exact_kubernetes_version(version: str, *, refused: bool) -> None:
    refusal = bundle_refusal(BUNDLE, version, "v1.35.4", ())

    assert bool(refusal) is refused
    assert ("set it to v1.35.4" in refusal) is refused


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("openstack-scs-1-35-v1", "openstack-scs-1-35-v2", ""),
        ("openstack-scs-1-35-v2", "openstack-scs-1-35-v1", ""),
        ("openstack-scs-1-35-v1", "openstack-scs-1-36-v1", ""),
        ("openstack-scs-1-35-v1", "openstack-scs-1-35-v0-sha.abc", ""),
        ("openstack-scs-1-35-v1", "openstack-scs-2-35-v1", ""),
        ("openstack-scs-1-35-v1", "openstack-scs-1-37-v1", "skips a minor"),
        ("openstack-scs-1-35-v1", "openstack-scs-1-34-v1", "goes back"),
        ("openstack-scs-1-35-v1", "docker-scs-1-35-v1", "stays with its provider and stack"),
        ("openstack-scs-1-35-v1", "openstack-other-1-35-v1", "stays with its provider and stack"),
    ],
)
def test_minor_between_bundles_stays_or_increases_by_one(old: str, new: str, word: str) -> None:
    refusal = between_bundles_refusal(parse_class(old), parse_class(new))

    assert bool(refusal) is bool(word)
    assert word in refusal


@pytest.mark.parametrize("key", ["clusterstack.x-k8s.io/addon-release", "clusterstack.x-k8s.io/addon.cilium"])
def test_addon_annotations_are_refused_with_the_class_of_a_bundle(key: str) -> None:
    refusal = bundle_refusal(BUNDLE, "v1.35.4", "v1.35.4", [key, "example.org/other"])

    assert refusal.startswith(f"annotation {key} cannot be used here")


@pytest.mark.parametrize(
    ("before", "version", "word"),
    [
        ("v1.34.1", "v1.35.4", ""),
        ("v1.35.4", "v1.35.4", ""),
        ("v1.35.4+k3s2", "v1.35.4", ""),
        ("v1.36.0", "v1.35.4", "never goes down"),
        ("v1.33.0", "v1.35.4", "go to a version of 1.34 first"),
    ],
)
def test_move_into_a_bundle_follows_the_upgrade_rules_of_kubernetes_versions(
    before: str, version: str, word: str
) -> None:
    refusal = change_refusal(parse_class("openstack-scs-1-30-v1"), BUNDLE, before, version)

    assert bool(refusal) is bool(word)
    assert word in refusal


@pytest.mark.parametrize(("before", "after"), [("latest", "v1.36.1"), ("v1.35.4", "latest"), ("", "")])
def test_text_that_is_no_version_is_left_to_cluster_api(before: str, after: str) -> None:
    assert upgrade_refusal(before, after) == ""
