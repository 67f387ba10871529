from __future__ import annotations

from typing import Any

import pytest

from clusterstacks.deliver.apply.field_paths import written
from clusterstacks.deliver.apply.foreign_fields import (
    foreign_fields,
    may_be_foreign,
    with_foreign_fields,
    without_aggregated_rules,
)
from tests.support.builders.manifests import named

Manifest = dict[str, Any]
RBAC = "rbac.authorization.k8s.io/v1"
SELECTED: Manifest = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
RULE: Manifest = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}


def thing(**fields: Any) -> Manifest:
    return named("example.org/v1", "Thing", "x", **fields)


def injected_by_cert_manager(**fields: Any) -> Manifest:
    sent = thing(**fields)
    sent["metadata"]["annotations"] = {"cert-manager.io/inject-ca-from": "a/b"}
    return sent


def hooks(*hooks: tuple[str, Manifest]) -> Manifest:
    return thing(webhooks=[{"name": name, "clientConfig": client} for name, client in hooks])


LISTS: dict[str, tuple[Manifest, Manifest, list[str]]] = {
    "nothing": (thing(spec={"a": 1}), thing(spec={"a": 2}), []),
    "an empty certificate": (thing(spec={"caBundle": ""}), thing(spec={"caBundle": "x"}), [".spec.caBundle"]),
    "a certificate of the chart": (thing(spec={"caBundle": "a"}), thing(spec={"caBundle": "b"}), []),
    "a placeholder": (
        injected_by_cert_manager(spec={"caBundle": "a"}),
        thing(spec={"caBundle": "b"}),
        [".spec.caBundle"],
    ),
    "the certificate of one of two webhooks": (
        hooks(("own", {"caBundle": "a"}), ("left", {"caBundle": ""})),
        hooks(("own", {"caBundle": "b"}), ("left", {"caBundle": "b"})),
        ['.webhooks[name="left"].clientConfig.caBundle'],
    ),
    "rules of an aggregated role": (
        named(RBAC, "ClusterRole", "x", aggregationRule=SELECTED),
        named(RBAC, "ClusterRole", "x", aggregationRule=SELECTED, rules=[RULE]),
        [".rules"],
    ),
    "rules of a role": (
        named(RBAC, "ClusterRole", "x", rules=[]),
        named(RBAC, "ClusterRole", "x", rules=[RULE]),
        [],
    ),
}


@pytest.mark.regression("LIVE-LV-2", "CASE-05")
@pytest.mark.parametrize("case", LISTS)
def test_fields_that_belong_to_others_are_listed(case: str) -> None:
    sent, live, expected = LISTS[case]

    assert [written(path) for path in foreign_fields(sent, live)] == expected


@pytest.mark.regression("CASE-07")
def test_settings_and_autoscalers_add_fields() -> None:
    ignored = [("data", "free")]

    assert foreign_fields(thing(), thing(), ignored=ignored) == ignored
    assert foreign_fields(thing(), thing(), ignored=ignored, scaled=True) == [*ignored, ("spec", "replicas")]


CONTAINERS = ("spec", "containers", "1", "resources")
LIVE: list[tuple[tuple[Any, ...], Manifest, Manifest, Manifest]] = [
    (("spec", "replicas"), {"replicas": 2}, {"replicas": 6}, {"replicas": 6}),
    (("spec", "replicas"), {"replicas": 2}, {}, {}),
    (("spec", "replicas"), {}, {"replicas": 6}, {}),
    # Keys of others do not become ours, and those that they removed do not return.
    (("spec", "map"), {"map": {"a": 1, "b": 1}}, {"map": {"a": 2, "c": 3}}, {"map": {"a": 2}}),
    (("spec", "args"), {"args": ["a"]}, {"args": ["b", "c"]}, {"args": ["b", "c"]}),
    # A new container gets what the chart says.
    (
        CONTAINERS,
        {"containers": [{"name": "a"}, {"name": "b", "resources": {"cpu": 1}}]},
        {"containers": [{"name": "a"}]},
        {"containers": [{"name": "a"}, {"name": "b", "resources": {"cpu": 1}}]},
    ),
    (
        CONTAINERS,
        {"containers": [{"name": "a"}, {"name": "b", "resources": {"cpu": 1}}]},
        {"containers": [{"name": "a"}, {"name": "b", "resources": {"cpu": 2}}]},
        {"containers": [{"name": "a"}, {"name": "b", "resources": {"cpu": 2}}]},
    ),
]


@pytest.mark.regression("CASE-07")
@pytest.mark.parametrize(("path", "sent", "live", "expected"), LIVE)
def test_fields_of_others_are_sent_with_their_live_values(
    path: tuple[Any, ...], sent: Manifest, live: Manifest, expected: Manifest
) -> None:
    assert with_foreign_fields(thing(spec=sent), thing(spec=live), [path]) == thing(spec=expected)


@pytest.mark.regression("CASE-05")
def test_rules_of_an_aggregated_role_are_never_sent() -> None:
    role = named(RBAC, "ClusterRole", "x", rules=[])

    assert without_aggregated_rules(role) == role
    assert without_aggregated_rules({**role, "aggregationRule": SELECTED}) == named(
        RBAC, "ClusterRole", "x", aggregationRule=SELECTED
    )


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        (".spec.replicas", True),
        ('.webhooks[name="a.example.org"].clientConfig.caBundle', True),
        (".spec.template.spec.replicas", False),
        (".data.caBundle.pem", False),
    ],
)
def test_conflicts_about_fields_that_may_belong_to_others_are_known(field: str, *, expected: bool) -> None:
    assert may_be_foreign(field) is expected
