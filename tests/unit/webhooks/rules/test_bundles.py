"""Bundles: exactly what the Go operator's webhook refuses (INCUMBENT 1.5)."""

from __future__ import annotations

import pytest

from clusterstacks.domain.names import parse_class
from clusterstacks.webhooks.rules.bundles import judge_bundle, judge_entry, judge_move_between

BUNDLE = parse_class("openstack-scs-1-35-v1")


@pytest.mark.parametrize(
    ("version", "refused"),
    [("v1.35.4", False), ("v1.35.5", True), ("v1.35.3", True), ("v1.36.0", True), ("1.35.4", True), ("", True)],
)
def test_incumbent_1_5_a_bundle_wants_its_exact_version(version: str, *, refused: bool) -> None:
    answer = judge_bundle(BUNDLE, version, "v1.35.4", ())

    assert answer.allowed is not refused
    assert ("set it to v1.35.4" in answer.refusal) is refused


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
def test_incumbent_1_5_the_minor_in_the_name_stays_or_grows_by_one(old: str, new: str, word: str) -> None:
    answer = judge_move_between(parse_class(old), parse_class(new))

    assert answer.allowed is not bool(word)
    assert word in answer.refusal


@pytest.mark.parametrize("key", ["clusterstack.x-k8s.io/addon-release", "clusterstack.x-k8s.io/addon.cilium"])
def test_a_bundle_takes_no_addon_of_another_release(key: str) -> None:
    answer = judge_bundle(BUNDLE, "v1.35.4", "v1.35.4", [key, "example.org/other"])

    assert answer.refusal.startswith(f"annotation {key} has no place here")


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
def test_a_bundle_is_entered_under_the_laws_whatever_the_names_say(before: str, version: str, word: str) -> None:
    answer = judge_entry(parse_class("openstack-scs-1-30-v1"), BUNDLE, before, version)

    assert answer.allowed is not bool(word)
    assert word in answer.refusal
