"""``---`` before ``{{- if ... -}}``, which renders to ``---apiVersion: v1``: no object is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.model import yaml
from tests.support.builders.manifests import crd
from tests.support.builders.tiny_stack import tiny, write
from tests.support.running.csctl import call_csctl

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.running.world import World

pytestmark = pytest.mark.regression("CASE-01")

AGENT = """\
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: kube-system}
spec:
  selector: {matchLabels: {app: agent}}
  template: {metadata: {labels: {app: agent}}, spec: {containers: [{name: a, image: "example.org/agent:1"}]}}
---
{{- if true -}}
apiVersion: apps/v1
kind: Deployment
metadata: {name: server, namespace: kube-system}
spec:
  selector: {matchLabels: {app: server}}
  template: {metadata: {labels: {app: server}}, spec: {containers: [{name: a, image: "example.org/server:1"}]}}
{{- end }}
"""
MORE = "cluster-addon/net/templates/more.yaml"
POOLS = """\
apiVersion: {group}/v1
kind: Pool
metadata: {{name: one}}
spec: {{cidr: 10.0.0.0/8}}
---
{{{{- if true -}}}}
apiVersion: {group}/v1
kind: Pool
metadata: {{name: two}}
spec: {{cidr: 10.0.0.0/8}}
{{{{- end }}}}
"""


@pytest.fixture
def stack(tmp_path: Path) -> Path:
    return write(tmp_path / "stack", tiny({MORE: AGENT}))


@pytest.mark.regression("CASE-01")
def test_every_object_and_image_is_printed(stack: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call_csctl("template", stack, "--addon", "net", "--offline") == 0
    kinds = [line.removeprefix("kind: ") for line in capsys.readouterr().out.splitlines() if line.startswith("kind: ")]
    assert kinds == ["DaemonSet", "Deployment", "Deployment"]

    assert call_csctl("template", stack, "--images", "--offline") == 0
    assert {"example.org/agent:1", "example.org/server:1"} <= {*capsys.readouterr().out.splitlines()}


@pytest.mark.regression("CASE-01")
def test_lint_accepts_documents_beside_each_other(stack: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call_csctl("lint", stack) == 0
    assert "duplicate" not in capsys.readouterr().out


@pytest.mark.regression("CASE-01")
def test_change_of_the_first_object_is_a_difference(
    stack: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = write(tmp_path / "other", tiny({MORE: AGENT.replace("agent:1", "agent:2")}))

    call_csctl("diff", stack, other)

    assert "DaemonSet" in capsys.readouterr().out


@pytest.mark.regression("CASE-01")
async def test_every_object_is_delivered(world: World) -> None:
    group = f"{world.namespace}.example.org"
    name = world.stack.release("v1")
    files = {"crds/pools.yaml": yaml.dump(crd("Pool", group)), "templates/pools.yaml": POOLS.format(group=group)}
    world.publish(name, world.stack.files("v1", {world.namespace: files}))
    async with world.operator():
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)
        await world.cluster("one", name.class_name)
        await world.addons_ready("one", name.class_name)

        pools = await world.workload.list(await world.workload.resource(group, "Pool"))
        assert [one["metadata"]["name"] for one in pools.items] == ["one", "two"]
