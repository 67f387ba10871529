"""A class in Cluster API's older version whose addons lack charts, as in releases that were built for the Go operator.

The API server converts such a class at each write, and each write raises its generation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.csctl.building.release_builder import build_release
from clusterstacks.dev.demo.scenario import examples
from clusterstacks.model.documents import at
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_CLASS_KIND, GROUP, Kind
from clusterstacks.net.pool import Pool
from tests.support.builders.e2e_objects import conditions_of, create, namespace, stack
from tests.support.running.kubectl import Kubectl

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from tests.support.running.local_environment import Local

HOME = "old-class"
CLASS = """\
{{ $name := include "class.name" . }}
apiVersion: cluster.x-k8s.io/v1beta1
kind: ClusterClass
metadata:
  name: {{ $name }}
spec:
  infrastructure: {ref: {kind: LocalClusterTemplate, name: {{ $name }}-cluster, apiVersion: &v VERSION}}
  controlPlane: {ref: {kind: LocalControlPlaneTemplate, name: {{ $name }}-control-plane, apiVersion: *v}}
  workers:
    machineDeployments:
      - class: default
        template:
          bootstrap: {ref: {kind: LocalBootstrapConfigTemplate, name: {{ $name }}-worker, apiVersion: *v}}
          infrastructure: {ref: {kind: LocalMachineTemplate, name: {{ $name }}-worker, apiVersion: *v}}
""".replace("VERSION", "local.clusterstack.x-k8s.io/v1alpha1")


def build(local: Local, changes: Path, version: str) -> ReleaseName:
    source = examples() / "stacks/local/demo/1-35"
    chart = (source / "cluster-addon/storage/Chart.yaml").read_text()
    needs = "dependencies: [{name: part, version: 1.0.0, repository: 'https://charts.example.org'}]\n"
    files = {"cluster-class/templates/cluster-class.yaml": CLASS, "cluster-addon/storage/Chart.yaml": chart + needs}
    for path, text in files.items():
        (changes / path).parent.mkdir(parents=True, exist_ok=True)
        (changes / path).write_text(text)
    versions = {"cluster_stack": version, "cluster_addon": version, "node_image": version}
    return build_release(source, local.releases, **versions, changes=changes)


async def find(client: Client, kind: str, name: str, group: str) -> Manifest:
    return await client.get(await client.resource(group, kind), name, HOME)


@pytest.mark.regression("DROP-H6")
async def test_class_of_the_older_version_is_written_once_and_usable_while_charts_are_missing(
    local: Local, tmp_path: Path
) -> None:
    name = build(local, tmp_path, "v7")
    kubectl = Kubectl(local.state.kubeconfig, HOME)
    async with Pool() as pool:
        client = local.management(pool)
        await create(client, namespace(HOME))
        with local.operator(HOME):
            await create(client, stack(HOME, versions=["v7"]))
            kubectl("wait", "--for=condition=Ready", "--timeout=300s", "clusterstack", "--all")
            cluster_class = await find(client, CLUSTER_CLASS_KIND, name.class_name, CLUSTER_API_GROUP)
            release = await find(client, Kind.CLUSTER_STACK_RELEASE, name.release, GROUP)
            kubectl("delete", "clusterstack", "--all", "--timeout=300s")

    assert at(release, "status", "ready") is True
    assert cluster_class["metadata"]["generation"] == cluster_class["status"]["observedGeneration"] == 1
    missing = next(one for one in conditions_of(release) if one["type"] == "ChartDependenciesResolved")
    assert "--chart-repositories" in missing["message"]


@pytest.mark.regression("LIVE-H3")
async def test_templates_that_were_deleted_while_no_operator_ran_are_restored(local: Local, tmp_path: Path) -> None:
    """Cluster API owns them as well, and their release is opened at each start, because it lacks charts."""
    build(local, tmp_path, "v8")
    home = f"{HOME}-restored"
    kubectl = Kubectl(local.state.kubeconfig, home)
    kinds = ("localclustertemplates", "localmachinetemplates")
    async with Pool() as pool:
        client = local.management(pool)
        await create(client, namespace(home))
        with local.operator(home):
            await create(client, stack(home, versions=["v8"]))
            kubectl("wait", "--for=condition=Ready", "--timeout=300s", "clusterstack", "--all")
        names = [kubectl("get", kind, "-o", "name").strip() for kind in kinds]
        kubectl("delete", *names, "--timeout=60s")
        with local.operator(home):
            for name in names:
                kubectl("wait", "--for=create", "--timeout=300s", name)
            kubectl("wait", "--for=condition=Ready", "--timeout=300s", "clusterstackrelease", "--all")
            kubectl("delete", "clusterstack", "--all", "--timeout=300s")
