"""Drift of class objects, and the back-off of repairs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from clusterstacks.deliver.apply.delivery_plan import Mark
from clusterstacks.deliver.apply.results import ObjectResult
from clusterstacks.model.kinds.clusterapi import MAX_REFERENCES, template_references
from clusterstacks.model.kinds.names import DELETE_FOR_MOVE_ANNOTATION, PAUSED_ANNOTATION
from clusterstacks.model.objects import ObjectId, ObjectKey
from clusterstacks.net.kube.resources import Resource
from clusterstacks.operator.controllers.clusterstackrelease.drift import (
    OBJECT_INDEX,
    DriftDetector,
    class_metadata,
    difference_of,
    listed_objects,
    writers_of,
)
from clusterstacks.operator.controllers.repair_pauses import REPAIRS, RepairPauses
from clusterstacks.operator.controllers.status_reconciler import StatusPatch
from clusterstacks.runtime.cache import CacheChange, ObjectCache, key_of
from tests.support.fakes.api_server import FakeApi
from tests.support.virtual_time import VirtualClock, in_virtual_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client

KEY = ObjectKey("stacks", "local-demo-1-35-v1")
INFRASTRUCTURE = "infrastructure.cluster.x-k8s.io/v1beta2"


def live(uid: str, generation: int) -> Manifest:
    return {"metadata": {"name": "x", "uid": uid, "generation": generation}}


@pytest.mark.regression("LIVE-H3")
@pytest.mark.parametrize(
    ("uid", "generation", "found", "difference"),
    [
        ("a", 1, live("a", 1), ""),
        ("a", 2, live("a", 1), ""),  # the store lags behind our own apply
        ("a", 1, live("a", 2), "was changed"),
        ("a", 0, live("a", 2), ""),  # applied by an operator that did not note it
        ("", 1, live("b", 1), ""),  # applied by the Go operator
        ("a", 1, live("b", 1), "was deleted and created again by another writer"),
        ("a", 1, None, "was deleted"),
    ],
)
def test_deleted_recreated_and_changed_objects_are_drift(
    uid: str, generation: int, found: Manifest | None, difference: str
) -> None:
    assert difference_of(uid, generation, found) == difference


def managed(*entries: Any) -> Manifest:
    return {"metadata": {"managedFields": list(entries)}}


def entry(manager: str, *fields: str, **more: str) -> Any:
    return {"manager": manager, "fieldsV1": {f"f:{field}": {} for field in fields}, **more}


@pytest.mark.regression("LIVE-H3")
@pytest.mark.parametrize(
    ("found", "writers"),
    [
        (None, ""),
        ({"metadata": {}}, ""),
        (managed(entry("cluster-stack-operator", "spec"), entry("capi", "metadata"), 7, {"manager": 7}), ""),
        (managed(entry("capi", "status", subresource="status")), ""),
        (managed(entry("b", "spec"), entry("a", "data", "metadata")), " (fields of field manager 'a', 'b')"),
        (managed(entry("a\nb", "spec")), " (fields of field manager 'a\\nb')"),
        (managed(*(entry(f"m{number}", "spec") for number in range(9))), "'m0', 'm1', 'm2' and 6 more)"),
    ],
)
def test_other_field_managers_are_named(found: Manifest | None, writers: str) -> None:
    assert writers_of(found).endswith(writers)
    assert bool(writers_of(found)) == bool(writers)


@pytest.mark.regression("LIVE-H3")
@in_virtual_time
async def test_repair_of_a_repeatedly_changed_release_backs_off() -> None:
    repairs = RepairPauses[ObjectKey](VirtualClock())
    pauses = []
    for _ in range(15):
        repairs.repaired(KEY)
        pauses.append(repairs.pause(KEY).total_seconds())
    assert pauses[0] == 0
    assert 10 <= pauses[1] <= 12.5
    assert pauses[-1] >= 2000
    assert max(pauses) <= REPAIRS.limit.total_seconds()
    repairs.forget(KEY)
    assert not repairs.pause(KEY)


IDENTITY = ObjectId("cluster.x-k8s.io", "ClusterClass", KEY.namespace, "x")


def release_with(name: str, *identities: ObjectId) -> Manifest:
    """Return a release whose status lists objects as they are after the apply; the first has no namespace."""
    entries = [
        {
            "group": one.group,
            "version": "v1beta2",
            "kind": one.kind,
            **({"namespace": one.namespace} if number else {}),
            "name": one.name,
            "status": "synced",
            "uid": "a",
        }
        for number, one in enumerate(identities)
    ]
    return {"metadata": {"namespace": KEY.namespace, "name": name}, "status": {"resources": entries}}


class Watched:
    """A detector with an informer of ClusterClasses, whose changes the test makes."""

    def __init__(self, *releases: Manifest, client: Client | None = None, follows: bool = True) -> None:
        self.enqueued: list[ObjectKey] = []
        self.handlers: list[Callable[[CacheChange], None]] = []
        self.cached: dict[ObjectKey, Manifest] = {}
        cache = ObjectCache({OBJECT_INDEX: listed_objects})
        for release in releases:
            cache.put(key_of(release), release)
        informer = SimpleNamespace(
            cache=self.cached, follows=lambda _: follows, is_synced=True, subscribe=self.handlers.append
        )
        self.detector = DriftDetector(
            client=cast("Any", client),
            classes=cast("Any", informer),
            releases=cache,
            watch_kind=cast("Any", None),
            enqueue=self.enqueued.append,
            repairs=RepairPauses(VirtualClock()),
        )

    def change(self, identity: ObjectId, old: Manifest | None, new: Manifest | None) -> None:
        of_kind = {"apiVersion": f"{identity.group}/v1beta2", "kind": identity.kind}
        metadata = {"namespace": identity.namespace, "name": identity.name}
        old, new = (one and {**of_kind, **one, "metadata": {**one["metadata"], **metadata}} for one in (old, new))
        for handler in self.handlers:
            handler(CacheChange(ObjectKey(identity.namespace, identity.name), old, new))


@pytest.mark.parametrize(
    ("old", "new", "enqueued"),
    [
        (None, live("a", 1), []),
        (live("a", 1), live("a", 1), []),
        (live("a", 1), live("a", 2), ["first", "second"]),
        (live("a", 1), None, ["first", "second"]),
    ],
)
def test_change_of_an_object_enqueues_the_releases_that_list_it(
    old: Manifest | None, new: Manifest | None, enqueued: list[str]
) -> None:
    other = IDENTITY._replace(name="y")
    watched = Watched(
        release_with("first", IDENTITY), release_with("second", other, IDENTITY), release_with("third", other)
    )

    watched.change(IDENTITY, old, new)

    assert [key.name for key in watched.enqueued] == enqueued


MOVED = {"metadata": {**live("a", 1)["metadata"], "annotations": {DELETE_FOR_MOVE_ANNOTATION: ""}}}
CLASSES = Resource(IDENTITY.group, "v1beta2", IDENTITY.kind, "clusterclasses", namespaced=True)


@pytest.mark.parametrize(
    ("deleted", "found"),
    [(MOVED, None), (live("a", 1), ["ClusterClass.cluster.x-k8s.io stacks/x was deleted"])],
)
async def test_objects_that_clusterctl_move_deleted_are_not_drift(deleted: Manifest, found: list[str] | None) -> None:
    release = release_with(KEY.name, IDENTITY)
    watched = Watched(release, client=FakeApi(CLASSES))
    watched.change(IDENTITY, deleted, None)

    assert await watched.detector.find_changed(StatusPatch(release)) == found

    watched.change(IDENTITY, None, live("a", 1))
    watched.change(IDENTITY, live("a", 1), None)
    assert await watched.detector.find_changed(StatusPatch(release)) is not None


@pytest.mark.parametrize(
    ("annotations", "found"),
    [({PAUSED_ANNOTATION: ""}, None), ({}, ["ClusterClass.cluster.x-k8s.io stacks/x was deleted"])],
)
async def test_class_that_clusterctl_move_deletes_while_the_cache_still_has_it_is_not_drift(
    annotations: dict[str, str], found: list[str] | None
) -> None:
    release = release_with(KEY.name, IDENTITY)
    watched = Watched(release, client=FakeApi(CLASSES))
    watched.cached[ObjectKey(KEY.namespace, "x")] = {
        "metadata": {**live("b", 1)["metadata"], "annotations": annotations}
    }

    assert await watched.detector.find_changed(StatusPatch(release)) == found


@pytest.mark.parametrize(
    ("found", "follows", "is_used"),
    [
        (live("a", 5), True, True),
        (live("a", 6), True, True),
        (live("a", 4), True, False),  # the cache lags behind our apply
        (live("b", 7), True, False),  # it was deleted and created again
        (live("a", 5), False, False),  # its watch fails
        (None, True, False),
    ],
)
def test_the_class_is_read_live_unless_the_cache_has_it_as_it_was_applied(
    found: Manifest | None, *, follows: bool, is_used: bool
) -> None:
    release = release_with(KEY.name, IDENTITY)
    watched = Watched(release, follows=follows)
    if found is not None:
        watched.cached[ObjectKey(KEY.namespace, "x")] = found
    detector = watched.detector
    detector.applied(KEY, [ObjectResult(IDENTITY, "v1beta2", synced=True, uid="a", mark=Mark(5, "", ""))])

    assert detector.cached_class(StatusPatch(release), "x") is (found if is_used else None)


@pytest.mark.regression("LIVE-H3")
def test_only_metadata_needed_for_drift_is_cached() -> None:
    states = {PAUSED_ANNOTATION: "", DELETE_FOR_MOVE_ANNOTATION: ""}
    metadata = {"name": "x", "namespace": "stacks", "uid": "a", "resourceVersion": "7", "generation": 2}
    manifest: Manifest = {"apiVersion": "v1", "kind": "X", "spec": {}}
    manifest["metadata"] = {**metadata, "annotations": {**states, "example.org/long": "x" * 1000}}
    assert class_metadata(manifest)["metadata"] == {**metadata, "annotations": states}


@pytest.mark.regression("LIVE-H3")
def test_templates_of_a_class_are_found_in_both_api_versions() -> None:
    new = {"templateRef": {"apiVersion": INFRASTRUCTURE, "kind": "ATemplate", "name": "a"}}
    old = {"ref": {"apiVersion": INFRASTRUCTURE, "kind": "BTemplate", "name": "b", "namespace": "stacks"}}
    worker = {"class": "w", "template": {"bootstrap": old, "infrastructure": {}}}
    spec = {"infrastructure": new, "controlPlane": {"machineInfrastructure": old}}
    manifest = {"metadata": {"namespace": "stacks"}, "spec": {**spec, "workers": {"machineDeployments": [worker]}}}
    assert [(one.kind, one.namespace, one.name) for one in template_references(manifest)] == [
        ("ATemplate", "stacks", "a"),
        ("BTemplate", "stacks", "b"),
    ]
    many = [{"templateRef": {"kind": "T", "name": f"n{number}"}} for number in range(1000)]
    assert len(template_references({"spec": {"workers": {"machineDeployments": many}}})) == MAX_REFERENCES
