"""The chart of the operator renders to what the operator needs, and to nothing that an API server refuses."""

from __future__ import annotations

import re
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.api import yaml
from clusterstacks.api.crd_manifests import all_crds
from clusterstacks.domain.objects import ObjectKey
from clusterstacks.operator.rbac import RIGHTS, Feature, RightScope
from clusterstacks.operator.settings import parse_settings
from clusterstacks.render.errors import RenderFailed
from clusterstacks.runtime.metrics import Metrics
from deploy.manifests import CHART, INSTALL, NAMESPACE, chart_files, install_yaml, rendered
from tests.support.builders.manifests import crd
from tests.support.builders.operator_chart import PLAIN, container, everything, granted, of_kind
from tests.support.running.kubectl import Kubectl
from tests.support.running.world import install

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.domain.objects import Manifest
    from clusterstacks.render.renderer import Renderer
    from tests.support.running.world import World

NAME = "cluster-stack-operator"


async def test_the_generated_manifests_are_up_to_date() -> None:
    for path, text in chart_files().items():
        assert path.read_text() == text, f"{path}: run `make manifests`"
    assert {one.name for one in (CHART / "files/crds").iterdir()} == {
        path.name for path in chart_files() if path.parent.name == "crds"
    }
    assert INSTALL.read_text() == await install_yaml(), "run `make manifests`"


async def test_the_alerts_are_those_of_the_page(renderer: Renderer) -> None:
    alerts = (CHART / "files/alerts.yaml").read_text()
    page = (CHART.parents[1] / "docs/how-to/run-the-operator.md").read_text()
    assert f"```yaml\n{alerts}```" in page
    objects = await rendered(renderer, everything())
    assert of_kind(objects, "PrometheusRule")["spec"] == yaml.load(alerts, name="alerts")


def test_the_chart_has_the_version_of_the_program() -> None:
    chart = yaml.load((CHART / "Chart.yaml").read_text(), name="Chart.yaml")
    assert (chart["version"], chart["appVersion"]) == (version("cluster-stacks"), version("cluster-stacks"))


def test_every_metric_of_the_alerts_exists() -> None:
    series = {sample.name for metric in Metrics().registry.collect() for sample in metric.samples}
    families = {metric.name for metric in Metrics().registry.collect()}
    named = set(re.findall(r"\bclusterstacks_\w+", (CHART / "files/alerts.yaml").read_text()))
    assert {one for one in named if re.sub(r"_(bucket|count|total)$", "", one) not in families | series} == set()


async def test_the_crds_are_those_of_the_code_and_stay_after_an_uninstallation(renderer: Renderer) -> None:
    objects = await rendered(renderer, PLAIN)
    for wanted in all_crds():
        found = of_kind(objects, "CustomResourceDefinition", wanted["metadata"]["name"])
        assert found["spec"] == wanted["spec"]
        assert found["metadata"]["labels"].items() >= wanted["metadata"]["labels"].items()
        assert found["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    without = await rendered(renderer, {**PLAIN, "crds": {"install": False}})
    assert "CustomResourceDefinition" not in {one["kind"] for one in without}


@pytest.mark.parametrize("webhooks", [True, False])
@pytest.mark.parametrize("namespace", ["", "team-a"])
async def test_the_roles_grant_exactly_the_documented_rights(
    renderer: Renderer, namespace: str, *, webhooks: bool
) -> None:
    values = {**PLAIN, "watchNamespace": namespace, "webhook": {"enabled": webhooks}}
    objects = await rendered(renderer, values)
    cluster = f"{NAME}-{namespace}" if namespace else NAME

    def wanted(*scopes: RightScope) -> set[tuple[str, str, str, str]]:
        rules = [right.rule() for right in RIGHTS if right.scope in scopes and (webhooks or _without(right.only_with))]
        named = {NAME: cluster}
        return {(group, what, verb, named.get(name, name)) for group, what, verb, name in granted(rules)}

    assert {*granted(of_kind(objects, "ClusterRole", cluster)["rules"])} == wanted(RightScope.CLUSTER)
    secrets = of_kind(objects, "ClusterRole", f"{cluster}-secrets")
    assert {*granted(secrets["rules"])} == wanted(RightScope.CLUSTERS, RightScope.STACKS)
    assert {*granted(of_kind(objects, "Role")["rules"])} == wanted(RightScope.OWN)


def _without(feature: Feature | None) -> bool:
    return feature is not Feature.WEBHOOKS


@pytest.mark.parametrize(
    ("values", "bound"),
    [
        ({}, []),
        ({"secrets": {"namespaces": ["team-a", "team-b"]}}, ["team-a", "team-b"]),
        ({"watchNamespace": "team-a", "secrets": {"namespaces": ["team-a"]}}, ["team-a"]),
        ({"watchNamespace": "team-a"}, ["team-a"]),
        ({"secrets": {"allNamespaces": True}}, [""]),
    ],
)
async def test_secrets_are_granted_where_the_values_say(renderer: Renderer, values: Manifest, bound: list[str]) -> None:
    objects = await rendered(renderer, {**PLAIN, **values})
    bindings = [one for one in objects if one.get("roleRef", {}).get("name", "").endswith("-secrets")]
    assert [one["metadata"].get("namespace", "") for one in bindings] == bound
    assert {one["kind"] for one in bindings} <= {"RoleBinding" if bound != [""] else "ClusterRoleBinding"}


async def test_the_users_of_a_namespace_get_our_kinds_without_their_status(renderer: Renderer) -> None:
    objects = await rendered(renderer, PLAIN)
    roles = {one: of_kind(objects, "ClusterRole", f"{NAME}-{one}") for one in ("view", "edit", "admin")}
    for name, role in roles.items():
        assert role["metadata"]["labels"][f"rbac.authorization.k8s.io/aggregate-to-{name}"] == "true"
    verbs = {verb for _, _, verb, _ in granted(roles["view"]["rules"])}
    assert verbs == {"get", "list", "watch"}
    assert not [one for role in roles.values() for one in granted(role["rules"]) if "/" in one[1] or "*" in one[1]]


async def test_a_value_that_is_misspelt_is_refused(renderer: Renderer) -> None:
    with pytest.raises(RenderFailed, match="additional properties 'replicaz' not allowed"):
        await rendered(renderer, {**PLAIN, "replicaz": 3})
    with pytest.raises(RenderFailed, match="additional properties 'repositori' not allowed"):
        await rendered(renderer, {"image": {"repositori": "registry.example.org/operator"}})
    with pytest.raises(RenderFailed, match=r"image\.repository must be set"):
        await rendered(renderer, {})
    with pytest.raises(RenderFailed, match=r"networkPolicy\.apiServers must list"):
        await rendered(renderer, {**PLAIN, "networkPolicy": {"enabled": True}})


async def test_every_value_is_in_the_schema_and_used_by_the_chart() -> None:
    values = yaml.load((CHART / "values.yaml").read_text(), name="values.yaml")
    schema = yaml.load((CHART / "values.schema.json").read_text(), name="schema")
    assert _leaves(values, schema) == []
    assert {*schema["properties"]} - {*values} == {"global"}
    templates = "".join(path.read_text() for path in (CHART / "templates").iterdir())
    assert [name for name in values if f".Values.{name}" not in templates] == []


def _leaves(values: Manifest, schema: dict[str, Any], path: str = "") -> list[str]:
    known = schema.get("properties")
    if known is None:
        return []
    missing = [f"{path}{name}" for name in values if name not in known]
    below = (
        one
        for name, value in values.items()
        if isinstance(value, dict) and name in known
        for one in _leaves(value, known[name], f"{path}{name}.")
    )
    return [*missing, *below]


async def test_the_operator_understands_the_arguments_of_the_chart(renderer: Renderer, tmp_path: Path) -> None:
    settings = parse_settings(container(await rendered(renderer, PLAIN))["args"], {"POD_NAMESPACE": NAMESPACE})
    assert settings.webhook_service == ObjectKey(NAMESPACE, f"{NAME}-webhook")
    assert settings.election is not None
    assert settings.election.namespace == NAMESPACE
    assert settings.probe_address == ("", 9440)
    assert not settings.notices

    objects = await rendered(renderer, everything())
    for name, text in of_kind(objects, "ConfigMap")["data"].items():
        (tmp_path / name).write_text(text)
    found = container(objects)
    arguments = [one.replace("/etc/cluster-stack-operator", str(tmp_path)) for one in found["args"]]
    variables = {one["name"]: one.get("value", NAMESPACE) for one in found["env"]}
    assert variables["OCI_REGISTRY"] == "registry.example.org"
    settings = parse_settings(arguments, variables)
    assert settings.source.oci is not None
    assert settings.source.oci.repository == "registry.example.org/kaas/stacks"
    assert settings.source.verification is not None
    assert settings.source_ca == "any text"
    assert settings.namespace == "team-a"
    assert settings.class_kinds == {"Bundle.example.org"}
    assert [str(one) for one in settings.provider_kinds] == ["Bundle.example.org"]
    assert settings.workers["clusteraddon"] == 128
    assert not settings.notices


@pytest.mark.parametrize("full", [False, True])
async def test_a_real_api_server_accepts_everything_and_the_pod_is_restricted(
    world: World, renderer: Renderer, *, full: bool
) -> None:
    definitions = [crd(kind, "monitoring.coreos.com") for kind in ("ServiceMonitor", "PrometheusRule")]
    await install(world.client, definitions)
    level = "pod-security.kubernetes.io"
    home = await world.other_namespace({f"{level}/enforce": "restricted", f"{level}/warn": "restricted"})
    values = everything(world.namespace) if full else PLAIN
    objects = await rendered(renderer, values, home)
    kubectl = Kubectl(world.management_kubeconfig, "")
    listed = {"apiVersion": "v1", "kind": "List", "items": objects}
    done = kubectl.tried("apply", "--server-side", "--dry-run=server", "--force-conflicts", "-f-", manifest=listed)
    assert done.returncode == 0, done.stderr
    assert not done.stderr

    template = of_kind(objects, "Deployment")["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", **template}
    pod["metadata"] = {**template["metadata"], "name": "one", "namespace": home}
    kubectl("create", "--dry-run=server", "-f-", manifest=pod)
    pod["spec"] = {**template["spec"], "securityContext": {}}
    refused = kubectl.tried("create", "--dry-run=server", "-f-", manifest=pod)
    assert "violates PodSecurity" in refused.stderr
