"""The command of "use GitOps": the script for Argo CD is added to a ConfigMap with other settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.model.kinds.names import GROUP
from tests.support.running.doc_pages import CHECKOUT, Page, environ_of_reader
from tests.support.running.kubectl import Kubectl

if TYPE_CHECKING:
    from tests.support.running.world import World


async def test_health_of_our_kinds_is_added_to_the_settings_of_argo_cd(world: World) -> None:
    kubectl = Kubectl(world.management_kubeconfig, world.namespace)
    kubectl("create", "configmap", "argocd-cm", "--from-literal=url=https://argocd.example.org")
    page = Page.read("how-to/use-gitops.md", {"-n argocd": f"-n {world.namespace}"})

    page.run(CHECKOUT, environ_of_reader(world.management_kubeconfig))

    settings = kubectl.get("configmap", "argocd-cm")["data"]
    assert settings["url"] == "https://argocd.example.org"
    assert f"resource.customizations.health.{GROUP}_ClusterAddon" in settings
