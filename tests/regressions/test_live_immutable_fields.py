"""Changes of immutable fields are reported with the cause first, and without values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.model.kinds.names import Kind
from tests.support.builders.manifests import pod_template
from tests.support.builders.stacks import config_map, templates
from tests.support.running.world import condition_of

if TYPE_CHECKING:
    from tests.support.running.world import World

READABLE_CHARACTERS = 500
"""What fits into an event and a few lines of kubectl (arbitrary)."""


def job(name: str, image: str) -> dict[str, Any]:
    pod = pod_template(name, image)
    pod["spec"]["restartPolicy"] = "Never"
    metadata = {"name": name, "namespace": "kube-system"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": pod}}


@pytest.mark.regression("LIVE-M2")
async def test_immutable_job_is_reported_first_with_field_and_remedy(world: World) -> None:
    word = world.namespace
    for version in ("v1", "v2"):
        chart = templates(config_map(word, number=version), job(word, f"example.org/app:{version}"))
        world.publish(world.stack.release(version), world.stack.files(version, {word: chart}))
    first, second = (world.stack.release(version).class_name for version in ("v1", "v2"))
    async with world.operator():
        await world.create(world.stack.manifest(word, "v1", "v2"))
        for version in ("v1", "v2"):
            await world.release_ready(world.stack.release(version))
        await world.cluster("one", first)
        await world.addons_ready("one", first)
        await world.set_class("one", second)
        told = (await world.says(Kind.CLUSTER_ADDON, "cluster-addon-one", "HelmChartApplied", words=["Job"]))["message"]

        assert f"spec.template: field is immutable; delete Job.batch kube-system/{word}" in told
        assert "PodTemplateSpec" not in told
        assert "example.org/app" not in told
        assert len(told) < READABLE_CHARACTERS
        addon = await world.addon("one")
        assert condition_of(addon, "Ready")["message"] == told
        assert any(told in event["message"] for event in await world.events(addon))
        errors = [one["error"] for one in addon["status"]["resources"] if one.get("error")]
        assert errors
        assert all(len(error) < READABLE_CHARACTERS for error in errors)
