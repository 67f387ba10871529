"""Applying the class chart of a release."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import AsyncMock

import pytest

from clusterstacks.model.errors import SpecError
from clusterstacks.model.names import parse_release
from clusterstacks.operator.controllers.clusterstackrelease.class_objects import apply_class_chart
from clusterstacks.operator.controllers.status_reconciler import StatusPatch
from tests.support.fakes.api_server import FakeApi

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

NAME = "openstack-scs-1-35-v0-beta-2"


class ChartOf:
    """Renders these objects for any chart."""

    def __init__(self, *manifests: Manifest) -> None:
        self.manifests = list(manifests)

    async def chart(self, _: object) -> list[Manifest]:
        return self.manifests


def cluster_class(name: str) -> Manifest:
    return {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass", "metadata": {"name": name}}


@pytest.mark.parametrize("classes", [(), (NAME,)])
async def test_class_chart_without_its_class_is_rejected_before_anything_is_applied(
    classes: tuple[str, ...],
) -> None:
    api = FakeApi()
    release = SimpleNamespace(
        name=parse_release(NAME),
        class_chart=lambda: b"",
        node_images=lambda: None,
        metadata=SimpleNamespace(kubernetes=SimpleNamespace(text="v1.35.4")),
    )
    patch = StatusPatch({"metadata": {"name": NAME, "namespace": "stacks"}})
    renderer = ChartOf(*map(cluster_class, classes))

    with pytest.raises(SpecError, match=r"renders no ClusterClass openstack-scs-1-35-v0-beta\.2"):
        await apply_class_chart(patch, cast("Any", release), cast("Any", renderer), api, (), AsyncMock())

    assert {verb for verb, _ in api.calls} <= {"resource"}
    assert "resources" not in patch.status
