"""The chart of the operator renders to what the operator needs, and to nothing that an API server refuses."""

from __future__ import annotations

import base64
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.csctl.install.operator_chart import KUBERNETES, NAMESPACE, packed_chart, rendered
from clusterstacks.deliver.render.errors import RenderFailed
from clusterstacks.deliver.render.renderer import ChartRequest
from clusterstacks.model import yaml
from clusterstacks.model.kinds.crd_manifests import all_crds
from clusterstacks.model.kinds.names import OpenStackKind
from clusterstacks.model.objects import ObjectKey, object_id
from clusterstacks.operator.rbac import RIGHTS, Feature, RightScope
from clusterstacks.operator.settings import parse_settings
from clusterstacks.release.sources.source_kinds import KINDS
from deploy.manifests import CHART, INSTALL, chart_files, clusterctl_files, install_yaml
from tests.support.builders.manifests import crd
from tests.support.builders.operator_chart import IMAGE, PLAIN, container, everything, granted, of_kind
from tests.support.running.kubectl import Kubectl
from tests.support.running.world import install

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.deliver.render.renderer import Renderer
    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World

NAME = "cluster-stack-operator"
LIST = {"apiVersion": "v1", "kind": "List"}
IGNORED = ("hookServerSvc", "webhookService", "kubernetesClusterDomain")
"""Values of the Go operator's chart that are accepted and not used."""


async def test_the_generated_manifests_are_up_to_date() -> None:
    assert INSTALL.read_text() == await install_yaml(), "run `make manifests`"
    for path, text in {**chart_files(), **await clusterctl_files()}.items():
        assert path.read_text() == text, f"{path}: run `make manifests`"


async def test_the_chart_installs_alerts_and_dashboard(renderer: Renderer) -> None:
    objects = await rendered(renderer, everything())
    alerts, dashboard = ((CHART / "files" / name).read_text() for name in ("alerts.yaml", "dashboard.json"))
    assert of_kind(objects, "PrometheusRule")["spec"] == yaml.load(alerts, name="alerts")
    config = of_kind(objects, "ConfigMap", "stacks-dashboard")
    assert config["data"] == {"cluster-stack-operator.json": dashboard}
    assert config["metadata"]["labels"]["folder"] == "kaas"


def test_the_chart_has_the_version_of_the_program() -> None:
    chart = yaml.load((CHART / "Chart.yaml").read_text(), name="Chart.yaml")
    assert (chart["version"], chart["appVersion"]) == (version("cluster-stacks"), version("cluster-stacks"))


async def test_the_crds_are_those_of_the_code_and_stay_after_an_uninstallation(renderer: Renderer) -> None:
    objects = await rendered(renderer, PLAIN)
    for wanted in all_crds():
        found = of_kind(objects, "CustomResourceDefinition", wanted["metadata"]["name"])
        assert found["spec"] == wanted["spec"]
        assert found["metadata"]["labels"].items() >= wanted["metadata"]["labels"].items()
        assert found["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    without = await rendered(renderer, {**PLAIN, "crds": {"install": False}})
    assert "CustomResourceDefinition" not in {one["kind"] for one in without}


async def test_definitions_of_a_provider_are_installed_where_it_is_named(renderer: Renderer) -> None:
    ours = [
        one["metadata"]["name"] for one in await rendered(renderer, PLAIN) if one["kind"] == "CustomResourceDefinition"
    ]
    objects = await rendered(renderer, {**PLAIN, "providers": ["openstack"]})
    found = [one["metadata"]["name"] for one in objects if one["kind"] == "CustomResourceDefinition"]
    assert {*found} - {*ours} == {f"{kind.lower()}s.{kind.group}" for kind in OpenStackKind}
    (container,) = of_kind(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert "--providers=openstack" in container["args"]
    with pytest.raises(RenderFailed, match="providers"):
        await rendered(renderer, {**PLAIN, "providers": ["other"]})


@pytest.mark.parametrize("webhooks", [True, False])
@pytest.mark.parametrize("namespace", ["", "team-a"])
async def test_the_roles_grant_exactly_the_documented_rights(
    renderer: Renderer, namespace: str, *, webhooks: bool
) -> None:
    of_images = {"nodeImages": {"enabled": not webhooks}}
    values = {**PLAIN, "watchNamespace": namespace, "webhook": {"enabled": webhooks}, **of_images}
    objects = await rendered(renderer, values)
    cluster = f"{NAME}-{namespace}" if namespace else NAME

    on = {Feature.ELECTION, *([Feature.WEBHOOKS] if webhooks else [Feature.NO_WEBHOOKS, Feature.NODE_IMAGES])}

    def wanted(*scopes: RightScope) -> set[tuple[str, str, str, str]]:
        needed = [right for right in RIGHTS if not right.only_with or on & {*right.only_with}]
        rules = [right.rule() for right in needed if right.scope in scopes]
        named = {NAME: cluster}
        return {(group, what, verb, named.get(name, name)) for group, what, verb, name in granted(rules)}

    bound = {one["metadata"]["name"] for one in objects if one["kind"] == "ClusterRoleBinding"}
    in_all = {*granted(of_kind(objects, "ClusterRole", cluster)["rules"])}
    if namespace:
        everywhere = [{**right.rule(), "verbs": right.everywhere} for right in RIGHTS if right.everywhere]
        assert bound == {cluster}
        assert in_all == {*wanted(RightScope.CLUSTER), *granted(everywhere)}
        there = of_kind(objects, "Role", cluster)
        assert there["metadata"]["namespace"] == namespace
        assert {*granted(there["rules"])} == wanted(RightScope.WATCHED)
    else:
        assert bound == {cluster, f"{cluster}-class-kinds"}
        assert in_all == wanted(RightScope.CLUSTER, RightScope.WATCHED)
    secrets = of_kind(objects, "ClusterRole", f"{cluster}-secrets")
    assert {*granted(secrets["rules"])} == wanted(RightScope.CLUSTERS, RightScope.STACKS)
    assert {*granted(of_kind(objects, "Role", NAME)["rules"])} == wanted(RightScope.OWN)


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
    assert {resource for _, resource, _, _ in granted(roles["view"]["rules"])} == {
        crd["spec"]["names"]["plural"] for crd in all_crds()
    }
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


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"secrets": {"namespaces": ["123"]}}, "123"),
        ({"watchNamespace": "no"}, "--namespace=no"),
        ({"watchNamespace": "123"}, "123"),
        ({"fullnameOverride": "no"}, "no"),
        ({"serviceAccount": {"create": False, "name": "no"}}, "no"),
        ({"serviceAccount": {"create": False, "name": "1e3"}}, "1e3"),
        ({"priorityClassName": "true"}, "true"),
        ({"source": {"type": "oci", "location": "a: b"}}, "--source-location=a: b"),
        ({"source": {"existingSecret": "123"}}, "123"),
        ({"watchFilter": "yes: #1"}, "--watch-filter=yes: #1"),
        ({"cache": {"sizeLimit": "1000000"}}, "1000000"),
        ({"metrics": {"serviceMonitor": {"enabled": True, "interval": "60"}}}, "60"),
    ],
)
async def test_text_that_looks_like_another_type_stays_text(renderer: Renderer, values: Manifest, text: str) -> None:
    objects = await rendered(renderer, {**PLAIN, **values})

    assert text in {one for _, one in _scalars(objects)}
    assert {type(one) for key, one in _scalars(objects) if key in {"name", "namespace", "args"}} == {str}


def _scalars(part: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Give all scalars of a document with the key of each, or of the list that contains it."""
    if isinstance(part, dict):
        for name, value in part.items():
            yield from _scalars(value, name)
    elif isinstance(part, list):
        for one in part:
            yield from _scalars(one, key)
    else:
        yield key, part


async def test_null_is_the_default(renderer: Renderer) -> None:
    defaults = yaml.load((CHART / "values.yaml").read_text(), name="values.yaml")
    plain = await rendered(renderer, PLAIN)
    without: Manifest = {"resources": {}, "podSecurityContext": {}, "securityContext": {}}

    for name in defaults.keys() - {"image", *without}:
        assert await rendered(renderer, {**PLAIN, name: None}) == plain, name
    sections = {name: one for name, one in defaults.items() if isinstance(one, dict) and name not in without}
    for name, section in sections.items():
        nulls = dict.fromkeys(section.keys() - {"repository"})
        assert await rendered(renderer, {**PLAIN, name: {**PLAIN.get(name, {}), **nulls}}) == plain, name
    pod = of_kind(await rendered(renderer, {**PLAIN, "podSecurityContext": {"runAsUser": None}}), "Deployment")
    assert "runAsUser" not in pod["spec"]["template"]["spec"]["securityContext"]
    signed = await rendered(renderer, {**PLAIN, "verification": {"keys": "any", "policy": None}})
    assert "--verification-policy=Require" in container(signed)["args"]


@pytest.mark.parametrize(
    "values",
    [
        {"image": {"repository": "registry.example.org/operator:1.0"}},
        {"image": {"repository": "https://registry.example.org/operator"}},
        {"image": {"repository": "operator:1.0"}},
        {"fullnameOverride": "123"},
        {"watchNamespace": "team a"},
        {"podLabels": {"app.kubernetes.io/name": "other"}},
        {"commonLabels": {"app.kubernetes.io/instance": "other"}},
    ],
)
async def test_values_that_would_break_the_installation_are_refused(renderer: Renderer, values: Manifest) -> None:
    with pytest.raises(RenderFailed, match="don't meet the specifications of the schema"):
        await rendered(renderer, {**PLAIN, **values})


async def test_every_value_is_in_the_schema_and_used_by_the_chart() -> None:
    values = yaml.load((CHART / "values.yaml").read_text(), name="values.yaml")
    schema = yaml.load((CHART / "values.schema.json").read_text(), name="schema")
    assert _leaves(values, schema) == []
    assert {*schema["properties"]} - {*values} == {"global", *IGNORED}
    templates = "".join(path.read_text() for path in (CHART / "templates").iterdir())
    assert [name for name in values if f".Values.{name}" not in templates] == []


def test_schema_of_the_values_knows_every_kind_of_source() -> None:
    schema = yaml.load((CHART / "values.schema.json").read_text(), name="schema")
    assert {*schema["properties"]["source"]["properties"]["type"]["enum"]} == {"", *KINDS}


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


async def test_each_shard_is_a_deployment_that_no_service_of_the_main_instance_selects(renderer: Renderer) -> None:
    values = {**everything(), "shards": ["emea", {"name": "canary", "image": {"tag": "new"}}]}
    objects = await rendered(renderer, values)
    found = {one["metadata"]["name"]: one["spec"]["template"] for one in objects if one["kind"] == "Deployment"}
    assert found.keys() == {"stacks", "stacks-emea", "stacks-canary"}
    images, leases = {}, set()
    for name, pod in found.items():
        (one,) = pod["spec"]["containers"]
        images[name] = one["image"].removeprefix(IMAGE["repository"])
        kept = [argument for argument in one["args"] if "/etc/cluster-stack-operator" not in argument]
        settings = parse_settings(
            [argument for argument in kept if not argument.startswith("--verification")], {"POD_NAMESPACE": NAMESPACE}
        )
        assert settings.election is not None
        leases.add(settings.election.lease)
        assert settings.shards == (set() if settings.shard else {"emea", "canary"})
        assert bool(settings.webhook_port) == (name == "stacks")
    assert images == {
        "stacks": f"@sha256:{'0' * 64}",
        "stacks-emea": f"@sha256:{'0' * 64}",
        "stacks-canary": ":new",
    }
    role = of_kind(objects, "Role", "stacks")
    assert leases == {name for _, resource, _, name in granted(role["rules"]) if resource == "leases" and name}
    selectors = {one["metadata"]["name"]: one["spec"]["selector"] for one in objects if one["kind"] == "Service"}
    selected = {
        service: {name for name, pod in found.items() if selector.items() <= pod["metadata"]["labels"].items()}
        for service, selector in selectors.items()
    }
    assert selected.pop("stacks-shards-metrics") == {"stacks-emea", "stacks-canary"}
    assert selected.keys() == {"stacks-webhook", "stacks-metrics", "stacks-node-images"}
    assert set(map(frozenset, selected.values())) == {frozenset({"stacks"})}


async def test_the_operator_understands_the_arguments_of_the_chart(renderer: Renderer, tmp_path: Path) -> None:
    settings = parse_settings(container(await rendered(renderer, PLAIN))["args"], {"POD_NAMESPACE": NAMESPACE})
    assert settings.webhook_service == ObjectKey(NAMESPACE, f"{NAME}-webhook")
    assert settings.election is not None
    assert settings.election.namespace == NAMESPACE
    assert settings.probe_address == ("", 9440)
    assert settings.node_image_address == ("", 0)
    assert not settings.notices

    objects = await rendered(renderer, everything())
    for name, text in of_kind(objects, "ConfigMap", "stacks")["data"].items():
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
    service = of_kind(objects, "Service", "stacks-node-images")
    assert settings.node_image_url == f"https://{service['metadata']['name']}.{NAMESPACE}.svc:9444"
    assert settings.node_image_address == ("", service["spec"]["ports"][0]["port"])
    (mount,) = (one["mountPath"] for one in found["volumeMounts"] if one["name"] == "node-images")
    assert settings.node_image_cert_dir == Path(mount)
    peers = {one["ports"][0]["port"]: one["from"] for one in of_kind(objects, "NetworkPolicy")["spec"]["ingress"]}
    assert peers[9444] == everything()["networkPolicy"]["nodeImagesFrom"]
    assert settings.namespace == "team-a"
    assert settings.class_kinds == {"Bundle.example.org"}
    assert [str(one) for one in settings.provider_kinds] == ["Bundle.example.org"]
    assert settings.workers["clusteraddon"] == 128
    assert settings.log_format == "text"
    assert not settings.notices


async def test_the_values_of_the_go_operator_are_read_with_take_over(renderer: Renderer) -> None:
    manager = {"source": "github", "args": ["--log-level=debug"], "extraEnv": [{"name": "HTTPS_PROXY", "value": "x"}]}
    rules = [{"apiGroups": ["example.org"], "resources": ["things"], "verbs": ["get"]}]
    values: Manifest = {
        **PLAIN,
        **{one: {} for one in IGNORED[:2]},
        "takeOver": True,
        "clusterStackVariables": {"gitOrgName": "example-org"},
        "controllerManager": {
            "replicas": 1,
            "manager": manager,
            "rbac": {"additionalRules": rules},
            "serviceAccount": {"annotations": {"example.org/role": "one"}},
        },
    }
    objects = await rendered(renderer, values)
    found = container(objects)
    assert found["args"][:2] == ["--log-level=debug", "--source=github"]
    variables = {one["name"]: one for one in found["env"]}
    assert variables["GIT_ORG_NAME"]["valueFrom"]["secretKeyRef"]["key"] == "git-org-name"
    assert variables["HTTPS_PROXY"]["value"] == "x"
    secret = of_kind(objects, "Secret")["data"]
    assert {key: base64.b64decode(value).decode() for key, value in secret.items()} == {
        "git-provider": "github",
        "git-org-name": "example-org",
        "git-repo-name": "cluster-stacks",
        "git-access-token": "",
    }
    assert rules[0] in of_kind(objects, "ClusterRole", NAME)["rules"]
    assert of_kind(objects, "ServiceAccount")["metadata"]["annotations"] == {"example.org/role": "one"}
    assert of_kind(objects, "ClusterRoleBinding", f"{NAME}-secrets")

    rotated = {"gitOrgName": "example-org", "gitAccessToken": "another"}
    pods = of_kind(await rendered(renderer, {**values, "clusterStackVariables": rotated}), "Deployment")["spec"][
        "template"
    ]
    assert pods != of_kind(objects, "Deployment")["spec"]["template"]  # so they are replaced, and read the new token

    own = await rendered(renderer, {**values, "source": {"type": "oci", "location": "registry.example.org/stacks"}})
    assert "Secret" not in {one["kind"] for one in own}
    with pytest.raises(RenderFailed, match=r"takeOver needs crds.install"):
        await rendered(renderer, {**PLAIN, "takeOver": True, "crds": {"install": False}})
    with pytest.raises(RenderFailed, match="are values of the Go operator's chart"):
        await rendered(renderer, {**values, "takeOver": False})


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


async def hook_objects(renderer: Renderer, values: Manifest, home: str, directory: Path) -> list[Manifest]:
    """Return the objects that Helm creates after an uninstallation; csctl and clusterctl leave them out."""
    chart = directory / NAME
    shutil.copytree(CHART, chart)
    template = chart / "templates/uninstall.yaml"
    written = template.read_text()
    template.write_text(written.replace('"helm.sh/hook" "post-delete" ', ""))
    assert template.read_text() != written
    request = ChartRequest(
        chart=packed_chart(chart),
        label="the chart with its hooks",
        release_name=NAME,
        namespace=home,
        values=yaml.dump(values),
        kube_version=KUBERNETES,
    )
    usual = {object_id(one) for one in await rendered(renderer, values, home)}
    return [one for one in await renderer.chart(request) if object_id(one) not in usual]


@pytest.mark.parametrize("full", [False, True])
async def test_an_uninstallation_by_helm_releases_the_clusters_in_a_restricted_job_with_its_own_rights(
    world: World, renderer: Renderer, tmp_path: Path, *, full: bool
) -> None:
    home = await world.other_namespace({"pod-security.kubernetes.io/enforce": "restricted"})
    values = everything(world.namespace) if full else PLAIN
    objects = await hook_objects(renderer, values, home, tmp_path)
    assert sorted(one["kind"].removeprefix("Cluster") for one in objects) == [
        "Job",
        "Role",
        "RoleBinding",
        "ServiceAccount",
    ]
    kubectl = Kubectl(world.management_kubeconfig, "")
    kubectl("apply", "--server-side", "--dry-run=server", "-f-", manifest={**LIST, "items": objects})

    job = of_kind(objects, "Job")
    template = job["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", **template}
    pod["metadata"] = {**template["metadata"], "name": "one", "namespace": home}
    kubectl("apply", "--server-side", "-f-", manifest=of_kind(objects, "ServiceAccount"))
    kubectl("create", "--dry-run=server", "-f-", manifest=pod)
    (ran,) = template["spec"]["containers"]
    assert "command" not in ran
    settings = parse_settings(ran["args"])
    assert settings.release_upgrades
    scope = (world.namespace, "ours") if full else ("", "")
    assert (settings.namespace, settings.watch_filter) == scope
    role = of_kind(objects, "Role" if full else "ClusterRole")
    assert role["metadata"].get("namespace", "") == scope[0]
    assert set(granted(role["rules"])) == {("cluster.x-k8s.io", "clusters", verb, "") for verb in ("list", "patch")}


async def test_without_roles_of_the_chart_no_job_runs_after_an_uninstallation(
    renderer: Renderer, tmp_path: Path
) -> None:
    assert await hook_objects(renderer, {**PLAIN, "rbac": {"create": False}}, NAMESPACE, tmp_path) == []
