"""The operator runs with the account, arguments and environment of the installed chart, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.csctl.install.operator_chart import rendered
from clusterstacks.model.kinds.names import Kind
from clusterstacks.model.objects import split_api_version
from tests.support.builders.operator_chart import PLAIN
from tests.support.builders.stacks import config_map, templates
from tests.support.running.admission import forget, refusal
from tests.support.running.installed_operator import account_kubeconfig, running, said
from tests.support.running.kubectl import Kubectl
from tests.support.running.world import condition_of
from tests.support.servers.garbage_collector import garbage_collector
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.deliver.render.renderer import Renderer
    from clusterstacks.dev.apiserver import ApiServer
    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World

WEBHOOKS = ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration")

BUSY_MACHINE = "The webhooks are not registered after"
"""Beginning of the warning that a busy machine causes."""


async def installed(world: World, renderer: Renderer) -> Manifest:
    """Install the chart for the world's namespace in another one, and give its Deployment as the server has it."""
    home = await world.other_namespace({"pod-security.kubernetes.io/enforce": "restricted"})
    values = {
        **PLAIN,
        "watchNamespace": world.namespace,
        "source": {"type": "directory"},
        "crds": {"install": False},  # those of the other tests are there
    }
    for one in await rendered(renderer, values, home):
        group, version = split_api_version(one["apiVersion"])
        applied = await world.client.apply(
            await world.client.resource(group, one["kind"], version), one, manager="helm", force=True
        )
        if one["kind"] == "Deployment":
            deployment = applied
    return deployment


async def test_the_operator_works_with_the_account_arguments_and_environment_of_the_chart(
    world: World, renderer: Renderer, api_server: ApiServer, tmp_path: Path
) -> None:
    name = world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {"cni": templates(config_map(world.namespace, done="yes"))}))
    deployment = await installed(world, renderer)
    kubeconfig = account_kubeconfig(world.management_kubeconfig, deployment, tmp_path)
    log = tmp_path / "operator.log"
    configurations = await world.client.resource(*WEBHOOKS)
    configuration = f"cluster-stack-operator-{world.namespace}"

    try:
        async with running(world.client, deployment, kubeconfig, log, world.releases):

            async def registered() -> Manifest | None:
                found = await world.client.find(configurations, configuration)
                assert found, said(log)
                return found

            found = await eventually(registered, about="the webhooks")
            stack = await world.create(world.stack.manifest(world.namespace, "v1"))
            await world.release_ready(name)
            await world.until(
                Kind.CLUSTER_STACK, world.namespace, lambda one: condition_of(one, "Ready").get("status") == "True"
            )
            cluster = await world.cluster("one", name.class_name)
            await world.addons_ready("one", name.class_name)
            await world.shows(world.namespace, {"done": "yes"})
            refused = await refusal(world.delete(stack))
            assert "denied the request" in refused, refused
            await world.delete(cluster)

        text = said(log)
        complaints = [line for line in text.splitlines() if '"level":"info"' not in line]
        assert not [line for line in complaints if BUSY_MACHINE not in line], text

        account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
        user = f"--as=system:serviceaccount:{deployment['metadata']['namespace']}:{account}"
        for namespace, answer in ((world.namespace, "yes"), ("default", "no")):
            kubectl = Kubectl(world.management_kubeconfig, namespace)
            for kind in ("clusterclasses.cluster.x-k8s.io", "clusterstackreleases.clusterstack.x-k8s.io"):
                assert kubectl.tried("auth", "can-i", "delete", kind, user).stdout.strip() == answer

        role = await world.find("ClusterRole", configuration, group="rbac.authorization.k8s.io")
        assert role is not None
        (owner,) = found["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["uid"]) == ("ClusterRole", configuration, role["metadata"]["uid"])
        with garbage_collector(api_server, tmp_path):
            await world.delete(role)

            async def gone() -> bool:
                return await world.client.find(configurations, configuration) is None

            await eventually(gone, about="the end of the webhooks")
    finally:
        await forget(world)
