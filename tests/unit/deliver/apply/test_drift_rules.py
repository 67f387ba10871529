from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clusterstacks.deliver.apply.drift_rules import (
    CHANGED,
    DELETED,
    MAX_FIELDS,
    NOT_COMPARED,
    ChangedField,
    DriftedObject,
    changed_fields,
    reported_fields,
)
from clusterstacks.deliver.apply.field_paths import managers_of, with_field_of, written
from clusterstacks.deliver.apply.foreign_fields import foreign_fields
from clusterstacks.model.objects import ObjectId

Manifest = dict[str, Any]
DNS = ObjectId("apps", "Deployment", "kube-system", "dns")


def spec(**fields: Any) -> Manifest:
    return {"spec": fields}


def containers(*items: Manifest) -> Manifest:
    return spec(containers=list(items))


APP, SIDE = {"name": "app", "image": "a"}, {"name": "side", "image": "s"}

DIFFERENCES: dict[str, tuple[Manifest, Manifest, Manifest, list[str]]] = {
    "equal": (spec(a=1), spec(a=1, b=2), spec(a=1, b=2), []),
    "a value": (spec(a=1), spec(a=2), spec(a=1), [".spec.a"]),
    "another type": (spec(a=1), spec(a=True), spec(a=1), [".spec.a"]),
    "a removed field": (spec(a=1), spec(), spec(a=1), [".spec.a"]),
    "a field that a webhook adds": (spec(a=1), spec(a=1), spec(a=1, b=1), []),
    "a field that a webhook changes": (spec(a=1), spec(a=1, b=1), spec(a=1, b=2), []),
    "a key that is removed from a mapping of ours": (
        spec(a={"b": 1}),
        spec(a={"b": 1, "c": 1}),
        spec(a={"b": 1}),
        [".spec.a.c"],
    ),
    "an element that is removed from a list of ours": (
        containers(APP),
        containers(APP, SIDE),
        containers(APP),
        ['.spec.containers[name="side"]'],
    ),
    "an element that a webhook adds": (containers(APP), containers(APP), containers(APP, SIDE), []),
    "a field of an element": (
        containers(APP),
        containers({**APP, "image": "b"}, SIDE),
        containers(APP, SIDE),
        ['.spec.containers[name="app"].image'],
    ),
    "another order of elements": (containers(APP, SIDE), containers(SIDE, APP), containers(APP, SIDE), []),
    "a list without names": (spec(args=["a"]), spec(args=["b"]), spec(args=["a"]), [".spec.args"]),
    "a list with a name twice": (containers(APP, APP), containers(APP), containers(APP, APP), [".spec.containers"]),
    "status": ({"status": {"a": 1}}, {"status": {"a": 2}}, {"status": {"a": 1}}, []),
    "a label": (
        {"metadata": {"labels": {"a.b/c": "1"}}},
        {"metadata": {"labels": {}}},
        {"metadata": {"labels": {"a.b/c": "1"}}},
        ['.metadata.labels["a.b/c"]'],
    ),
    "metadata of the server": (
        {"metadata": {"uid": "1"}},
        {"metadata": {"uid": "1"}},
        {"metadata": {"uid": "2", "generation": 3, "resourceVersion": "9"}},
        [],
    ),
    "a certificate that is injected": (
        {"webhooks": [{"name": "w", "clientConfig": {"caBundle": ""}}]},
        {"webhooks": [{"name": "w", "clientConfig": {"caBundle": "x"}}]},
        {"webhooks": [{"name": "w", "clientConfig": {}}]},
        [],
    ),
    "a certificate of the chart": (spec(caBundle="x"), spec(caBundle="y"), spec(caBundle="x"), [".spec.caBundle"]),
    "a certificate that the chart lets cert-manager inject": (
        {"metadata": {"annotations": {"cert-manager.io/inject-ca-from": "a/b"}}, "spec": {"caBundle": "x"}},
        spec(caBundle="y"),
        spec(caBundle="x"),
        [],
    ),
}


@pytest.mark.parametrize("case", DIFFERENCES)
def test_fields_of_the_manifest_that_an_apply_would_change_are_found(case: str) -> None:
    sent, live, applied, expected = DIFFERENCES[case]

    foreign = foreign_fields({"apiVersion": "v1", "kind": "Thing", **sent}, live)
    assert [written(path) for path in changed_fields(sent, live, applied, foreign)] == expected


IGNORED: list[tuple[tuple[Any, ...], Manifest, Manifest, Manifest]] = [
    (("spec", "a"), spec(a=1), spec(a=2), spec(a=1)),
    (("spec", "a"), spec(a=1), spec(), spec(a=1)),
    (("spec", "containers", "0", "image"), containers(APP), containers({**APP, "image": "b"}), containers(APP)),
    (("spec",), spec(a=1), spec(a=2), spec(a=1)),
]


def test_a_field_of_an_earlier_manifest_that_a_backup_brought_back_is_found() -> None:
    fields: Manifest = {"f:spec": {"f:strategy": {"f:max": {}}}}
    entry = {"manager": "cluster-stack-operator", "operation": "Apply", "fieldsV1": fields}
    live = {**spec(strategy={"max": 5, "other": 1}), "metadata": {"managedFields": [entry]}}

    assert changed_fields(spec(a=1), live, spec(strategy={"max": 1, "other": 2}), ()) == [("spec", "strategy", "max")]


@pytest.mark.parametrize(("path", "sent", "live", "applied"), IGNORED)
def test_ignored_fields_do_not_count(path: tuple[Any, ...], sent: Manifest, live: Manifest, applied: Manifest) -> None:
    assert changed_fields(sent, live, applied, ()) != []
    assert changed_fields(sent, live, applied, [path]) == []


def test_a_field_is_copied_and_the_document_does_not_change() -> None:
    document = containers(APP, SIDE)

    assert with_field_of(document, spec(replicas=3), ("spec", "replicas")) == {
        "spec": {"containers": [APP, SIDE], "replicas": 3}
    }
    assert with_field_of(document, containers({"name": "app"}), ("spec", "containers", ("name", "app"), "image")) == (
        containers({"name": "app"}, SIDE)
    )
    assert with_field_of(document, containers(APP), ("spec", "containers", ("name", "side"))) == containers(APP)
    for absent in (("spec", "x", "y"), ("spec", "containers", "7"), ("spec", "containers", "²"), ("a", "b")):
        assert with_field_of(document, {}, absent) == document
    assert document == containers(APP, SIDE)


def owned(manager: str, fields: Any) -> Manifest:
    return {"manager": manager, "operation": "Update", "fieldsV1": fields}


MANAGERS: list[tuple[Any, tuple[Any, ...], bool]] = [
    ({"f:spec": {"f:replicas": {}}}, ("spec", "replicas"), True),
    ({"f:spec": {"f:paused": {}}}, ("spec", "replicas"), False),
    ({"f:spec": {}}, ("spec", "replicas"), True),
    ({"f:spec": {".": {}, "f:a": {"f:b": {}}}}, ("spec", "a"), True),
    (
        {"f:spec": {"f:containers": {'k:{"name":"app"}': {"f:image": {}}}}},
        ("spec", "containers", ("name", "app"), "image"),
        True,
    ),
    (
        {"f:spec": {"f:containers": {'k:{"name":"side"}': {"f:image": {}}}}},
        ("spec", "containers", ("name", "app"), "image"),
        False,
    ),
    ({"f:spec": {"f:containers": {"k:no json": {}}}}, ("spec", "containers", ("name", "app")), False),
    ("no fields", ("spec",), False),
    (None, ("spec",), False),
]


@pytest.mark.parametrize(("fields", "path", "found"), MANAGERS)
def test_the_manager_of_a_field_is_found_in_the_managed_fields(
    fields: Any, path: tuple[Any, ...], *, found: bool
) -> None:
    live = {"metadata": {"managedFields": [owned("kubectl-edit", fields), owned("cluster-stack-operator", fields)]}}

    assert managers_of(live, path) == (("kubectl-edit",) if found else ())


MESSAGES = [
    (DriftedObject(DNS, "dns", DELETED), "Deployment.apps kube-system/dns was deleted"),
    (
        DriftedObject(DNS, "dns", CHANGED, (ChangedField(".spec.replicas", ("kubectl-edit",)),)),
        'Deployment.apps kube-system/dns was changed: .spec.replicas (set by "kubectl-edit")',
    ),
    (
        DriftedObject(DNS, "dns", CHANGED, tuple(ChangedField(f".{n}") for n in range(5))),
        "Deployment.apps kube-system/dns was changed: .0, .1, .2 and 2 more fields",
    ),
    (
        DriftedObject(DNS, "dns", DELETED, error="no\nright"),
        "Deployment.apps kube-system/dns was deleted; it cannot be corrected: no right",
    ),
    (
        DriftedObject(DNS, "dns", NOT_COMPARED, error="a webhook"),
        "Deployment.apps kube-system/dns cannot be compared: a webhook",
    ),
]


@pytest.mark.parametrize(("drifted", "message"), MESSAGES)
def test_a_drifted_object_is_described_in_one_line(drifted: DriftedObject, message: str) -> None:
    assert str(drifted) == message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "app", "side"]),
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "a", "b", "caBundle"]), below, max_size=3)
    ),
    max_leaves=12,
)


@example(None, [{"name": ""}], [])
@given(JSON, JSON, JSON)
def test_any_objects_are_compared_and_an_ignored_field_is_no_difference(sent: Any, live: Any, applied: Any) -> None:
    sent, live, applied = spec(x=sent), spec(x=live), spec(x=applied)

    found = changed_fields(sent, live, applied, ())

    assert changed_fields(sent, live, live, ()) == []
    assert changed_fields(sent, live, applied, [("spec", "x")]) == []
    assert len(reported_fields(live, found)) <= MAX_FIELDS
    for path in found:
        assert path not in changed_fields(sent, live, with_field_of(applied, live, path), ())
