from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.apply.record_store import (
    KINDS_ANNOTATION,
    NAMESPACES_ANNOTATION,
    TOOLING_ANNOTATION,
    applyset_id,
    parent_annotations,
    record_name,
)
from clusterstacks.domain.objects import ObjectId

SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


def test_the_id_is_the_one_kubectl_computes() -> None:
    """From kubectl's own tests: the parent ``secrets/my-set`` in namespace ``test``."""
    assert applyset_id("my-set", "test") == "applyset-0eFHV8ySqp7XoShsGvyWFQD3s96yqwHmzc4e0HR1dsY-v1"


@given(st.text(max_size=300))
def test_any_addon_has_a_record_name_and_an_id_that_kubernetes_accepts(addon: str) -> None:
    name = record_name(addon)

    assert len(name) <= 253
    assert SUBDOMAIN.fullmatch(name)
    label = applyset_id(name, "kube-system")
    assert len(label) <= 63
    assert LABEL_VALUE.fullmatch(label)


@given(st.text(max_size=20), st.text(max_size=20))
def test_two_addons_never_share_a_record(one: str, other: str) -> None:
    assert (record_name(one) == record_name(other)) == (one == other)


def test_the_parent_lists_kinds_and_other_namespaces_in_order() -> None:
    members = [
        ObjectId("apps", "Deployment", "kube-system", "a"),
        ObjectId("", "Secret", "zeta", "b"),
        ObjectId("", "Secret", "alpha", "c"),
        ObjectId("", "Namespace", "", "zeta"),
    ]

    assert parent_annotations(members, "kube-system") == {
        TOOLING_ANNOTATION: "cluster-stack-operator/v1",
        KINDS_ANNOTATION: "Deployment.apps,Namespace,Secret",
        NAMESPACES_ANNOTATION: "alpha,zeta",
    }


@pytest.mark.parametrize(("addon", "name"), [("cilium", "cluster-stack-addon-cilium")])
def test_people_recognise_the_record_of_an_addon(addon: str, name: str) -> None:
    assert record_name(addon) == name
