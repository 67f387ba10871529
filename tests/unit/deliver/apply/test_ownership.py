from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.deliver.apply.ownership import (
    FIELD_MANAGER,
    OWNED_LABEL,
    OWNED_VALUE,
    PART_OF_LABEL,
    PREDECESSOR,
    Owner,
    authors_of,
    has_other_managers,
    held_by_predecessor,
    holds_string_data,
    inherited_fields,
    is_marked,
    overridden_authors,
    owner_of,
)
from clusterstacks.deliver.apply.policy import ineffective_annotation, reason_to_keep, wants_recreation
from clusterstacks.net.kube.errors import FieldConflict
from tests.support.builders.documents import JSON

LABELLED: dict[str, Any] = {"f:metadata": {"f:labels": {f"f:{OWNED_LABEL}": {}}}}
TRIES: st.SearchStrategy[dict[str, Any]] = st.recursive(
    st.just({}), lambda below: st.dictionaries(st.sampled_from("abc"), below, max_size=3), max_leaves=6
)


def entry(manager: str, fields: dict[str, Any] | None = None, **other: Any) -> dict[str, Any]:
    return {
        "manager": manager,
        "operation": "Apply",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": LABELLED if fields is None else fields,
        **other,
    }


def live(*entries: Any, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x", "uid": "u1", "managedFields": list(entries), **metadata}}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (live(), Owner.FOREIGN),
        (live(entry(FIELD_MANAGER)), Owner.OURS),
        (live(entry(FIELD_MANAGER, {"f:data": {}})), Owner.FOREIGN),
        (live(entry(PREDECESSOR)), Owner.PREDECESSOR),
        (live(entry(PREDECESSOR, {"f:data": {}})), Owner.FOREIGN),
        (live(entry(PREDECESSOR, operation="Update")), Owner.FOREIGN),
        (live(entry(PREDECESSOR, subresource="status")), Owner.FOREIGN),
        (live(entry(PREDECESSOR), labels={PART_OF_LABEL: "set"}), Owner.OURS),
        (live(entry(PREDECESSOR), labels={PART_OF_LABEL: "another set"}), Owner.PREDECESSOR),
        (live(labels=None, managedFields=None), Owner.FOREIGN),
    ],
)
def test_ownership_follows_from_managed_fields_and_labels(found: Any, expected: Owner) -> None:
    assert owner_of(found, sets={"set"}) is expected


def test_recorded_uid_makes_an_object_ours() -> None:
    assert owner_of(live(), sets=(), uid="u1") is Owner.OURS
    assert owner_of(live(), sets=(), uid="u2") is Owner.FOREIGN


@given(st.lists(JSON, max_size=3))
def test_malformed_managed_fields_count_as_foreign(entries: list[Any]) -> None:
    assert owner_of(live(*entries), sets=()) is Owner.FOREIGN
    assert inherited_fields(live(*entries)) == entries


def test_managed_fields_of_the_go_operator_become_ours() -> None:
    other = entry("somebody", {"f:spec": {}})

    fields = inherited_fields(live(entry(PREDECESSOR), other))

    assert fields == [other, entry(FIELD_MANAGER)]
    assert not held_by_predecessor(live(*fields))


def test_managed_fields_of_the_go_operator_are_merged_with_ours() -> None:
    ours = entry(FIELD_MANAGER, {"f:data": {"f:new": {}}})
    theirs = entry(PREDECESSOR, {**LABELLED, "f:data": {"f:old": {}}})

    assert inherited_fields(live(ours, theirs)) == [
        entry(FIELD_MANAGER, {"f:data": {"f:new": {}, "f:old": {}}, **LABELLED})
    ]


@pytest.mark.parametrize(
    ("writer", "inherited"),
    [
        (entry("csctl", {"f:spec": {"f:a": {}}}), True),
        (entry("helm", {"f:spec": {"f:a": {}}}, operation="Update"), True),
        (entry("csctl", {"f:spec": {"f:a": {}}}, operation="Update"), False),
        (entry("helm", {"f:spec": {"f:a": {}}}, operation="Update", subresource="scale"), False),
        (entry("people", {"f:spec": {"f:a": {}}}), False),
    ],
)
def test_fields_of_a_writer_that_is_inherited_become_ours(writer: dict[str, Any], *, inherited: bool) -> None:
    inherits = {("csctl", "Apply"), ("helm", "Update")}
    ours = entry(FIELD_MANAGER, {"f:spec": {"f:b": {}}})

    assert held_by_predecessor(live(writer), inherits) == inherited
    assert not held_by_predecessor(live(writer))
    joined = [entry(FIELD_MANAGER, {"f:spec": {"f:b": {}, "f:a": {}}})]
    assert inherited_fields(live(ours, writer), inherits) == (joined if inherited else [ours, writer])
    if inherited:
        assert inherited_fields(live(writer), inherits) == [entry(FIELD_MANAGER, {"f:spec": {"f:a": {}}})]


@pytest.mark.regression("CASE-08")
@pytest.mark.parametrize(
    ("writer", "is_author"),
    [
        (entry("anybody", {"f:data": {"f:a": {}, "f:b": {}}}, operation="Update"), True),
        (entry("kubectl", {"f:data": {"f:a": {}}}), True),
        (entry("helm", {"f:data": {"f:a": {}}}), True),
        # Another program that applies the same value may want it for ever.
        (entry("anybody", {"f:data": {"f:a": {}}}), False),
        (entry("anybody", {"f:data": {".": {}, "f:b": {}}}, operation="Update"), False),
        (entry("anybody", {"f:data": {"f:a": {}}}, operation="Update", subresource="status"), False),
        (entry("cainjector", {"f:spec": {"f:caBundle": {}}}, operation="Update"), False),
        (entry("autoscaler", {"f:spec": {"f:replicas": {}}}, operation="Update"), False),
        (entry("anybody", {"f:spec": {}}, operation="Update"), True),
        (entry("anybody", operation="Update", fieldsV1=[]), False),
    ],
)
def test_authors_of_an_object_have_set_a_field_of_ours(writer: dict[str, Any], *, is_author: bool) -> None:
    ours: dict[str, Any] = {".": {}, "f:data": {".": {}, "f:a": {}}, "f:spec": {"f:caBundle": {}, "f:replicas": {}}}

    found = authors_of(live(entry(FIELD_MANAGER, ours), writer))

    assert found == ({(writer["manager"], writer["operation"])} if is_author else set())
    assert authors_of(live(writer)) == set()


@pytest.mark.regression("CASE-08")
def test_managers_that_a_hand_over_names_are_authors_unless_the_object_was_ours() -> None:
    conflicts = [FieldConflict("anybody", ".data.a")]

    assert overridden_authors(live(entry("anybody")), conflicts) == {("anybody", "Apply"), ("anybody", "Update")}
    assert overridden_authors(live(entry(FIELD_MANAGER)), conflicts) == set()


@pytest.mark.regression("CASE-04")
@pytest.mark.parametrize("manager", [FIELD_MANAGER, PREDECESSOR])
def test_keys_that_were_applied_as_string_data_become_ours(manager: str) -> None:
    applied = entry(manager, {**LABELLED, "f:stringData": {"f:a": {}}, "f:data": {"f:b": {}}})
    edited = entry("editor", {"f:data": {"f:theirs": {}}}, operation="Update")
    secret = {"apiVersion": "v1", "kind": "Secret", "data": dict.fromkeys(["a", "b", "earlier", "theirs"], "")}

    fields = inherited_fields({**live(applied, edited), **secret})

    data: dict[str, Any] = {"f:a": {}, "f:b": {}, "f:earlier": {}}
    assert fields == [edited, entry(FIELD_MANAGER, {**LABELLED, "f:data": data})]
    assert inherited_fields({**live(*fields), **secret}) == fields


@pytest.mark.parametrize(
    ("found", "kind", "expected"),
    [
        (entry(FIELD_MANAGER, {"f:stringData": {}}), "Secret", True),
        (entry(FIELD_MANAGER, {"f:stringData": {}}), "Words", False),
        (entry(FIELD_MANAGER, {"f:data": {}}), "Secret", False),
        (entry("editor", {"f:stringData": {}}), "Secret", False),
        (entry(FIELD_MANAGER, fieldsV1=[]), "Secret", False),
        (None, "Secret", False),
    ],
)
def test_string_data_of_our_manager_is_found_in_secrets_only(found: Any, kind: str, *, expected: bool) -> None:
    assert holds_string_data({"apiVersion": "v1", "kind": kind, **live(found)}) is expected


def paths(trie: dict[str, Any]) -> set[tuple[str, ...]]:
    return {(key, *rest) for key, below in trie.items() for rest in [(), *paths(below)]}


@given(TRIES, TRIES)
def test_merged_managed_fields_are_the_union_of_both(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    theirs = {**theirs, **LABELLED}

    (heir,) = inherited_fields(live(entry(FIELD_MANAGER, ours), entry(PREDECESSOR, theirs)))

    assert paths(heir["fieldsV1"]) == paths(ours) | paths(theirs)


@pytest.mark.parametrize(
    ("value", "expected"), [("allowed", True), ("enabled", True), ("disabled", False), (None, False)]
)
def test_recreation_must_be_allowed(value: str | None, *, expected: bool) -> None:
    assert wants_recreation(live(annotations={"clusterstack.x-k8s.io/recreate": value})) is expected
    assert wants_recreation(live(annotations=None)) is False


@pytest.mark.parametrize(
    ("kind", "annotations", "expected"),
    [
        ("Job", {"helm.sh/hook": "post-install,post-upgrade"}, True),
        ("Pod", {"helm.sh/hook": "test", "helm.sh/hook-delete-policy": "hook-succeeded, before-hook-creation"}, True),
        ("Job", {"helm.sh/hook": "post-install", "helm.sh/hook-delete-policy": "hook-succeeded"}, False),
        ("PersistentVolumeClaim", {"helm.sh/hook": "pre-install"}, False),
        ("Job", {"helm.sh/hook-delete-policy": "before-hook-creation"}, False),
        ("Job", {"helm.sh/hook-delete-policy": "hook-failed", "clusterstack.x-k8s.io/recreate": "enabled"}, True),
    ],
)
def test_hooks_that_run_once_are_recreated_as_helm_does(
    kind: str, annotations: dict[str, str], *, expected: bool
) -> None:
    assert wants_recreation({"kind": kind, **live(annotations=annotations)}) is expected


@pytest.mark.parametrize(
    ("api_version", "kind", "recreated"),
    [
        ("v1", "PersistentVolumeClaim", False),
        ("v1", "PersistentVolume", False),
        ("v1", "Namespace", False),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition", False),
        ("example.org/v1", "Namespace", True),
        ("v1", "Service", True),
    ],
)
def test_objects_that_hold_data_are_never_recreated(api_version: str, kind: str, *, recreated: bool) -> None:
    allowed = live(annotations={"clusterstack.x-k8s.io/recreate": "allowed"})
    assert wants_recreation({"apiVersion": api_version, "kind": kind, **allowed}) is recreated


@pytest.mark.parametrize(
    ("kind", "annotations", "expected"),
    [
        ("ConfigMap", {"recreate": "allowed", "prune": "disabled"}, ("", "")),
        ("ConfigMap", {"recreate": "enabled"}, ("", "")),
        ("ConfigMap", None, ("", "")),
        ("ConfigMap", {"recreate": "true"}, ("recreate", "its only value is allowed")),
        ("ConfigMap", {"prune": "enabled"}, ("prune", "its only value is disabled")),
        ("Pod", {"health": "true", "health-failed": "false"}, ("", "")),
        ("ConfigMap", {"health": "true"}, ("health", "a ConfigMap has no status and is never read")),
        ("Pod", {"health-failed": "true"}, ("health-failed", "it needs the annotation clusterstack.x-k8s.io/health")),
        ("Namespace", {"recreate": "allowed"}, ("recreate", "a Namespace holds data and is never deleted and created")),
    ],
)
def test_an_annotation_without_effect_is_found(
    kind: str, annotations: dict[str, str] | None, expected: tuple[str, str]
) -> None:
    named = annotations and {f"clusterstack.x-k8s.io/{key}": value for key, value in annotations.items()}

    found, why = ineffective_annotation({"apiVersion": "v1", "kind": kind, **live(annotations=named)})

    assert found.removeprefix("clusterstack.x-k8s.io/") == expected[0]
    assert why.startswith(expected[1])


@pytest.mark.regression("CASE-03")
@pytest.mark.parametrize(
    ("annotations", "reason"),
    [
        ({"clusterstack.x-k8s.io/prune": "disabled"}, "its annotation disables pruning"),
        ({"clusterstack.x-k8s.io/prune": "no"}, ""),
        ({"helm.sh/resource-policy": "keep"}, "its annotation helm.sh/resource-policy is keep"),
        ({"helm.sh/resource-policy": " Keep "}, "its annotation helm.sh/resource-policy is keep"),
        ({"helm.sh/resource-policy": "delete"}, ""),
        ({"helm.sh/resource-policy": None}, ""),
        (None, ""),
    ],
)
def test_annotations_forbid_the_deletion_of_an_object(annotations: Any, reason: str) -> None:
    assert reason_to_keep(live(annotations=annotations)) == reason


@pytest.mark.regression("SEC-7")
@pytest.mark.parametrize(
    ("found", "marked"),
    [
        (live(), False),
        (live(entry(FIELD_MANAGER)), True),
        (live(entry(PREDECESSOR)), True),
        (live(entry(FIELD_MANAGER, {"f:data": {}})), False),
        (live(entry("somebody")), False),
        (live(labels={OWNED_LABEL: OWNED_VALUE}), True),
        (live(labels={OWNED_LABEL: OWNED_VALUE}, managedFields=None), True),
        (live(labels={OWNED_LABEL: "other"}), False),
        (live(labels={PART_OF_LABEL: "set"}), False),
        (live(labels=None, managedFields=None), False),
    ],
)
def test_metadata_alone_shows_whether_an_operator_applied_an_object(found: Any, *, marked: bool) -> None:
    assert is_marked(found) is marked


@pytest.mark.parametrize(
    ("entries", "others"),
    [
        ([{"manager": FIELD_MANAGER}], False),
        ([{"manager": FIELD_MANAGER}, {"manager": FIELD_MANAGER, "operation": "Update"}], False),
        ([], False),
        ([{"manager": FIELD_MANAGER}, {"manager": "helm"}], True),
        ([{"manager": PREDECESSOR}], True),
        (["a hostile server"], True),
        ("a hostile server", True),
        (None, True),
    ],
)
def test_an_object_that_an_apply_created_has_no_other_managers(entries: object, *, others: bool) -> None:
    assert has_other_managers({"metadata": {"managedFields": entries}}) is others
