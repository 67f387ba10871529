from __future__ import annotations

import copy
import cProfile
import pstats
from typing import Any

import pytest

from clusterstacks.deliver.apply.applied_state import is_applied
from clusterstacks.deliver.apply.ownership import FIELD_MANAGER
from tests.support.builders.manifests import deployment

SENT = deployment("app", "kube-system")
SENT["metadata"]["labels"] = {"clusterstack.x-k8s.io/instance": "owned"}
CONTAINER = SENT["spec"]["template"]["spec"]["containers"][0]
CONTAINER["ports"] = [{"containerPort": 80}]
CONTAINER["args"] = ["--verbose"]

FIELDS: dict[str, Any] = {
    "f:metadata": {"f:labels": {"f:clusterstack.x-k8s.io/instance": {}}},
    "f:spec": {
        "f:replicas": {},
        "f:selector": {},
        "f:template": {
            "f:metadata": {"f:labels": {"f:app": {}}},
            "f:spec": {
                "f:containers": {
                    'k:{"name":"app"}': {
                        ".": {},
                        "f:args": {},
                        "f:image": {},
                        "f:name": {},
                        "f:ports": {'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}},
                    }
                }
            },
        },
    },
}
"""The field set that kube-apiserver 1.36 keeps of ``SENT``."""


def live(**changes: Any) -> dict[str, Any]:
    """What the server returns: the manifest with defaults, a status and managed fields."""
    found = copy.deepcopy(SENT)
    entry = {"manager": FIELD_MANAGER, "operation": "Apply", "apiVersion": "apps/v1", "fieldsV1": copy.deepcopy(FIELDS)}
    found["metadata"].update(uid="1", generation=1, managedFields=[{**entry, **changes}])
    found["spec"]["template"]["spec"]["dnsPolicy"] = "ClusterFirst"
    found["spec"]["template"]["spec"]["containers"][0]["ports"][0]["protocol"] = "TCP"
    found["status"] = {"replicas": 1}
    return found


def container(manifest: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = manifest["spec"]["template"]["spec"]["containers"][0]
    return found


def test_an_object_as_the_server_returned_it_is_applied() -> None:
    assert is_applied(SENT, live())


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "replicas"), 2),
        (("spec", "replicas"), True),
        (("spec", "template", "spec", "containers", 0, "image"), "example.org/app:2"),
        (("spec", "template", "spec", "containers", 0, "args"), ["--verbose", "--more"]),
        (("spec", "template", "spec", "containers"), []),
        (("metadata", "labels"), {}),
        (("metadata", "labels"), None),
        (("metadata", "deletionTimestamp"), "2026-01-01T00:00:00Z"),
    ],
)
def test_an_object_with_another_value_is_not_applied(path: tuple[str | int, ...], value: object) -> None:
    found = live()
    changed: Any = found
    for step in path[:-1]:
        changed = changed[step]
    changed[path[-1]] = value

    assert not is_applied(SENT, found)


@pytest.mark.parametrize(
    "changes",
    [
        {"manager": "kubectl"},
        {"operation": "Update"},
        {"subresource": "status"},
        {"apiVersion": "apps/v1beta1"},
        {"fieldsV1": None},
        {"fieldsV1": {}},
        {"fieldsV1": "f:spec"},
        {"fieldsV1": {**FIELDS, "f:data": {"f:of-an-earlier-revision": {}}}},
        {"fieldsV1": {"f:spec": FIELDS["f:spec"]}},
    ],
)
def test_an_object_whose_fields_are_not_exactly_ours_is_not_applied(changes: dict[str, Any]) -> None:
    assert not is_applied(SENT, live(**changes))


def test_an_element_of_an_earlier_revision_is_noticed_even_if_the_list_has_it_no_longer() -> None:
    found = live()
    fields = found["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:template"]["f:spec"]["f:containers"]
    fields['k:{"name":"sidecar"}'] = {".": {}}

    assert not is_applied(SENT, found)


@pytest.mark.parametrize("key", ["k:{", "k:[]", "v:1", "i:0", 'k:{"containerPort":81}'])
def test_an_unknown_key_of_an_element_is_a_difference(key: str) -> None:
    found = live()
    fields = found["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:template"]["f:spec"]["f:containers"]
    fields['k:{"name":"app"}']["f:ports"] = {key: {".": {}}}

    assert not is_applied(SENT, found)


def test_an_object_that_the_go_operator_holds_as_well_is_not_applied() -> None:
    found = live()
    ours = found["metadata"]["managedFields"][0]
    found["metadata"]["managedFields"].append({**ours, "manager": "kubectl"})

    assert not is_applied(SENT, found)


def with_environment(manifest: dict[str, Any], count: int) -> dict[str, Any]:
    container(manifest)["env"] = [{"name": f"V{number}", "value": "x"} for number in range(count)]
    for entry in manifest["metadata"].get("managedFields", ()):
        fields = entry["fieldsV1"]["f:spec"]["f:template"]["f:spec"]["f:containers"]['k:{"name":"app"}']
        fields["f:env"] = {
            f'k:{{"name":"V{number}"}}': {".": {}, "f:name": {}, "f:value": {}} for number in range(count)
        }
    return manifest


def test_the_time_grows_with_the_length_of_a_list_and_not_with_its_square() -> None:
    def calls(count: int) -> int:
        sent, found = with_environment(copy.deepcopy(SENT), count), with_environment(live(), count)
        profile = cProfile.Profile()
        assert profile.runcall(is_applied, sent, found)
        return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]

    assert calls(1000) < 11 * calls(100)


@pytest.mark.parametrize("dropped", ["", [], {}, None, 0, False])
def test_an_empty_value_that_the_server_lacks_may_never_have_been_sent(dropped: object) -> None:
    sent = copy.deepcopy(SENT)
    container(sent)["workingDir"] = dropped

    assert not is_applied(sent, live())


@pytest.mark.parametrize("fields", [{"f:name": {}}, {"f:name": {}, "f:value": {}}], ids=["dropped", "kept"])
@pytest.mark.parametrize(
    ("variable", "found", "is_the_same"),
    [
        ({"value": ""}, {}, True),
        ({"value": "x"}, {}, False),
        ({"value": ""}, {"value": "x"}, False),
        ({"value": ""}, {"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, False),
    ],
)
def test_a_variable_with_an_empty_value_is_one_without_a_value(
    variable: dict[str, str], found: dict[str, object], fields: dict[str, object], *, is_the_same: bool
) -> None:
    sent, there = with_environment(copy.deepcopy(SENT), 1), with_environment(live(), 1)
    container(sent)["env"] = [{"name": "V0", **variable}]
    container(there)["env"] = [{"name": "V0", **found}]
    containers = there["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:template"]["f:spec"]["f:containers"]
    containers['k:{"name":"app"}']["f:env"] = {'k:{"name":"V0"}': {".": {}, **fields}}

    assert is_applied(sent, there) == is_the_same


@pytest.mark.parametrize("path", [("matchLabels", "track"), ("matchExpressions",)])
def test_a_key_that_was_removed_from_a_value_that_is_replaced_as_a_whole_is_a_difference(path: tuple[str, ...]) -> None:
    found = live()
    selector = found["spec"]["selector"]
    for step in path[:-1]:
        selector = selector[step]
    selector[path[-1]] = "of-an-earlier-revision"

    assert not is_applied(SENT, found)


def test_a_key_that_was_removed_from_an_element_of_a_list_that_is_replaced_as_a_whole_is_a_difference() -> None:
    sent, found = copy.deepcopy(SENT), live()
    for manifest in (sent, found):
        manifest["spec"]["template"]["spec"]["tolerations"] = [{"key": "k", "operator": "Exists"}]
    pod = found["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:template"]["f:spec"]
    pod["f:tolerations"] = {}
    assert is_applied(sent, found)

    found["spec"]["template"]["spec"]["tolerations"][0]["effect"] = "NoSchedule"

    assert not is_applied(sent, found)


def test_finalizers_are_compared_as_a_set_of_values() -> None:
    sent, found = copy.deepcopy(SENT), live()
    for manifest in (sent, found):
        manifest["metadata"]["finalizers"] = ["example.org/a", "example.org/b"]
    fields = found["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"]
    fields["f:finalizers"] = {".": {}, 'v:"example.org/a"': {}, 'v:"example.org/b"': {}}
    assert is_applied(sent, found)

    fields["f:finalizers"] = {".": {}, 'v:"example.org/a"': {}, 'v:"example.org/c"': {}}

    assert not is_applied(sent, found)
