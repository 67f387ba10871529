"""Writes the generated files of the chart and of this directory: ``make manifests``.

A test checks that they are current. CustomResourceDefinitions and rights come from the code. ``install.yaml`` and the
components for clusterctl are the chart as Helm renders it, after a Namespace. The alerts are written in the chart.
"""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clusterstacks.csctl.install.installations import INSTALLATION_LABEL
from clusterstacks.csctl.install.operator_chart import NAME, NAMESPACE, installation_objects
from clusterstacks.model.kinds.crd_manifests import all_crds
from clusterstacks.model.yaml import dump, load
from clusterstacks.operator.rbac import RIGHTS, RightScope
from clusterstacks.operator.webhooks.configuration import NAME as CONFIGURATION_NAME
from deploy import krew
from deploy.monitoring import dashboard

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

ROOT = Path(__file__).parents[1]
CHART = ROOT / "charts" / NAME
INSTALL = ROOT / "deploy" / "install.yaml"
MONITORING = ROOT / "deploy" / "monitoring"

INSTALL_VALUES = {"image": {"repository": NAME}, "source": {"existingSecret": f"{NAME}-source"}}
"""Values of ``install.yaml``; users set the image with kustomize, and the source with a Secret."""

CLUSTERCTL = ROOT / "deploy" / "clusterctl"
VARIABLES = tuple(
    f"{kind}_{name}"
    for kind, names in (
        ("OCI", ("REGISTRY", "REPOSITORY", "ACCESS_TOKEN", "USERNAME", "PASSWORD")),
        ("GIT", ("PROVIDER", "ORG_NAME", "REPOSITORY_NAME", "ACCESS_TOKEN")),
    )
    for name in names
)
"""Variables of the source of releases. clusterctl replaces them in base64, as those of the Go operator's components."""
CLUSTERCTL_VALUES = {
    "image": {"repository": "${CLUSTER_STACKS_IMAGE}"},
    "source": {"existingSecret": f"{NAME}-source"},
    "logLevel": "info",
    "secrets": {"allNamespaces": True},
}
"""Values of the clusterctl components. Like the managers of Cluster API, the operator reads Secrets of all namespaces;
clusterctl has no step after which an administrator would grant the rights for each namespace."""
CONTRACT = "v1beta2"
"""Contract of Cluster API that the release series implements."""

NOTE = "# Written by `make manifests`; do not edit.\n"

SCOPES = {
    RightScope.CLUSTER: "cluster",
    RightScope.WATCHED: "watched",
    RightScope.CLUSTERS: "secrets",
    RightScope.STACKS: "secrets",
    RightScope.OWN: "own",
}
"""Names of the chart's roles."""


def chart_files() -> dict[Path, str]:
    """Return the generated files of the chart, and the alerts and the dashboard for those who do not use it."""
    crds = {CHART / "files/crds" / f"{crd['metadata']['name']}.yaml": NOTE + dump(crd) for crd in all_crds()}
    values = load((CHART / "values.yaml").read_text(), name="values.yaml")
    return {
        **crds,
        CHART / "files/rights.yaml": NOTE + dump({"rights": _rights()}),
        CHART / "files/values.yaml": NOTE + dump(values),
        CHART / "files/dashboard.json": dashboard.text(),
        MONITORING / "alerts.yaml": NOTE + (CHART / "files/alerts.yaml").read_text(),
        MONITORING / "dashboard.json": dashboard.text(),
    }


def _rights() -> list[dict[str, Any]]:
    """Describe the rights; equal rights of two scopes of one role become one rule."""
    entries: dict[str, dict[str, Any]] = {}
    for right in RIGHTS:
        feature = {"features": [one.value for one in right.only_with]} if right.only_with else {}
        everywhere = {"everywhere": [*right.everywhere]} if right.everywhere else {}
        entry = {"scope": SCOPES[right.scope], **everywhere, **feature, "why": right.why, "rule": right.rule()}
        first = entries.setdefault(str({**entry, "why": ""}), entry)
        if first is not entry:
            first["why"] += f"; {right.why}"
    return [*entries.values()]


async def install_yaml() -> str:
    """Return the text of ``install.yaml``."""
    objects = await installation_objects(INSTALL_VALUES)
    return NOTE + "---\n".join(dump(one) for one in objects)


async def clusterctl_files() -> dict[Path, str]:
    """Return the components of the AddonProvider and its metadata, for the repositories of clusterctl."""
    objects = [_deletable(one) for one in await installation_objects(CLUSTERCTL_VALUES)]
    (labels,) = (one["metadata"]["labels"] for one in objects if one["kind"] == "Deployment")
    # The operator adds its webhooks to this object, and clusterctl deletes it with the provider.
    registration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": CONFIGURATION_NAME, "labels": labels},
    }
    source = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"{NAME}-source", "namespace": NAMESPACE},
        "type": "Opaque",
        "data": {name: f'${{{name}_B64:=""}}' for name in VARIABLES},
    }
    major, minor, _ = version("cluster-stacks").split(".", 2)
    series = {"major": int(major), "minor": int(minor), "contract": CONTRACT}
    metadata = {"apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3", "kind": "Metadata", "releaseSeries": [series]}
    text = "---\n".join(dump(one) for one in (*objects, registration, source))
    # clusterctl init --target-namespace replaces the namespace of objects, but not in arguments.
    text = text.replace(f"--webhook-service={NAMESPACE}/", "--webhook-service=$(POD_NAMESPACE)/")
    return {CLUSTERCTL / "addon-components.yaml": NOTE + text, CLUSTERCTL / "metadata.yaml": NOTE + dump(metadata)}


def _deletable(component: Manifest) -> Manifest:
    """Return a component; the names of cluster-wide rights begin with the namespace, else clusterctl keeps them.

    It has no label of an installation by csctl, so that 'csctl uninstall' leaves it to clusterctl.
    """
    component["metadata"].get("labels", {}).pop(INSTALLATION_LABEL, None)
    if component["kind"] not in {"ClusterRole", "ClusterRoleBinding"}:
        return component
    renamed = {**component, "metadata": {**component["metadata"], "name": _prefixed(component["metadata"]["name"])}}
    if role := component.get("roleRef"):
        renamed["roleRef"] = {**role, "name": _prefixed(role["name"])}
    return renamed


def _prefixed(name: str) -> str:
    return f"{NAMESPACE}-{name}"


def main() -> None:
    """Write all files."""
    for path, text in chart_files().items():
        path.write_text(text)
    krew.MANIFEST.write_text(NOTE + krew.manifest())
    INSTALL.write_text(asyncio.run(install_yaml()))
    CLUSTERCTL.mkdir(exist_ok=True)
    for path, text in asyncio.run(clusterctl_files()).items():
        path.write_text(text)


if __name__ == "__main__":
    main()
