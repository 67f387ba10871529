"""The reconcilers of the OpenStack kinds without ORC, with a foreign Image, and without cached releases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest.mock import AsyncMock, Mock

import pytest

from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.names import DIGEST_ANNOTATION
from clusterstacks.model.outcomes import Settled
from clusterstacks.net.kube.errors import Invalid, KindNotServed
from clusterstacks.operator.controllers.openstack.reconcilers import NodeImageReconciler, OpenStackReleaseReconciler
from clusterstacks.operator.controllers.status_reconciler import StatusPatch
from clusterstacks.runtime.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

NAME = "openstack-scs-1-27-v1"
IMAGE = {
    "url": "https://images.example.org/u",
    "createOpts": {"name": "ubuntu", "disk_format": "qcow2", "container_format": "bare"},
}


def opened(kind: str, spec: Manifest, *, ready: bool = True, **status: Any) -> StatusPatch:
    return StatusPatch(
        {
            "apiVersion": "infrastructure.clusterstack.x-k8s.io/v1alpha1",
            "kind": kind,
            "metadata": {"name": NAME, "namespace": "stacks", "uid": "4711"},
            "spec": spec,
            "status": {"ready": ready, **status},
        }
    )


def node_image(**image: Any) -> StatusPatch:
    identity = {"kind": "Secret", "name": "openstack"}
    return opened("OpenStackNodeImageRelease", {"identityRef": identity, "image": {**IMAGE, **image}})


def reconciler(live: Manifest | None = None, **reads: Any) -> NodeImageReconciler:
    return NodeImageReconciler(
        client=AsyncMock(),
        reads=Mock(resource=AsyncMock(), find=AsyncMock(return_value=live), **reads),
        clock=SYSTEM_CLOCK,
    )


def owned(*uids: str, **spec: Any) -> Manifest:
    metadata = {"name": NAME, "namespace": "stacks", "uid": "1", "generation": 1}
    return {"metadata": {**metadata, "ownerReferences": [{"uid": uid} for uid in uids]}, "spec": spec}


async def test_without_orc_the_condition_says_so_until_it_is_installed() -> None:
    patch, made = node_image(), reconciler()
    made.reads.resource.side_effect = KindNotServed("no kind Image")  # type: ignore[attr-defined]
    with pytest.raises(KindNotServed):
        await made.work(patch)
    condition = patch.condition("OpenStackImageServiceClientAvailable")
    assert condition is not None
    assert (condition.reason, patch.status["ready"]) == ("OpenStackImageServiceClientNotSet", False)


async def test_image_of_another_owner_is_left_alone() -> None:
    patch, made = node_image(), reconciler(owned("other"))
    with pytest.raises(SpecError, match="belongs to another object"):
        await made.work(patch)
    assert made.client.mock_calls == []  # type: ignore[attr-defined]
    assert patch.status["ready"] is False


async def test_image_without_a_format_names_the_field() -> None:
    patch = node_image(createOpts={"name": "ubuntu"})
    with pytest.raises(SpecError, match=r"spec\.image: createOpts\.disk_format"):
        await reconciler().work(patch)
    condition = patch.condition("OpenStackImageActive")
    assert condition is not None
    assert condition.reason == "IssueWithOpenStackImage"


@pytest.mark.regression("D38")
async def test_change_that_orc_does_not_take_is_reported_and_the_image_is_used_as_before() -> None:
    patch, made = node_image(), reconciler(owned("4711", managementPolicy="managed", resource={"name": "old"}))
    made.client.apply.side_effect = Invalid("content is immutable", status=422, reason="Invalid")  # type: ignore[attr-defined]
    with pytest.raises(Invalid):
        await made.work(patch)
    condition = patch.condition("OpenStackImageActive")
    assert condition is not None
    assert (condition.reason, patch.status["ready"]) == ("IssueWithOpenStackImage", True)
    assert "is immutable" in condition.message


@pytest.mark.parametrize(("started", "policy"), [("True", "unmanaged"), ("False", "managed"), ("", "unmanaged")])
async def test_image_is_looked_for_unless_the_look_has_found_none(started: str, policy: str) -> None:
    """The provider written in Go leaves True behind, and the image that it uploaded."""
    condition = {"type": "OpenStackImageImportStarted", "status": started}
    patch, made = node_image(), reconciler()
    patch.status["conditions"] = [condition] if started else []
    made.client.apply.side_effect = lambda _, wanted, **_how: {**wanted, "metadata": owned("4711")["metadata"]}  # type: ignore[attr-defined]
    await made.work(patch)
    (call,) = made.client.apply.await_args_list  # type: ignore[attr-defined]
    assert call.args[1]["spec"]["managementPolicy"] == policy


async def test_image_that_somebody_deletes_is_looked_for_again() -> None:
    live = owned("4711", managementPolicy="unmanaged", **{"import": {"filter": {"name": "ubuntu"}}})
    live["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    patch, made = node_image(), reconciler(live)
    await made.work(patch)
    assert patch.condition("OpenStackImageImportStarted") is None
    assert made.client.mock_calls == []  # type: ignore[attr-defined]


async def test_restart_without_cached_releases_downloads_nothing() -> None:
    ready = {"type": "ClusterStackReleaseAssetsReady", "status": "True"}
    patch = opened("OpenStackClusterStackRelease", {}, conditions=[ready])
    release = {"metadata": {"annotations": {DIGEST_ANNOTATION: "sha256:1"}}}
    owner = {"kind": "OpenStackClusterStackRelease", "name": NAME, "uid": "4711"}
    image = {
        "metadata": {"name": "image", "namespace": "stacks", "ownerReferences": [owner]},
        "status": {"ready": True},
    }
    reads = Mock(informer=AsyncMock(return_value=Mock(cache=Mock(all=lambda: [image]))))
    fetcher = Mock(stored=AsyncMock(return_value=None), fetch=AsyncMock())
    made = OpenStackReleaseReconciler(
        client=AsyncMock(), reads=reads, fetcher=fetcher, releases=Mock(get=lambda _: release)
    )
    assert isinstance(await made.work(patch), Settled)
    fetcher.fetch.assert_not_awaited()
    assert patch.status["ready"] is True
