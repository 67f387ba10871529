"""``csctl version``: print the versions of csctl and of the management cluster, and what is supported."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.cluster_options import ManagementCluster, connection_options
from clusterstacks.csctl.shared.options import TEXT, form_option

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

DISTRIBUTION = "cluster-stacks"
UNKNOWN = "unknown"
"""Commit of an installation without this information, as csctl written in Go prints it."""

PATIENCE_SECONDS: Final = 10.0
"""Time limit of the requests to the management cluster (arbitrary: the version of csctl does not need them)."""


@click.command(short_help="Print the versions of csctl, operator and management cluster.")
@connection_options
@form_option()
@click.option("--client", is_flag=True, help="Print only the version of csctl.")
def version(management: ManagementCluster, form: str, *, client: bool) -> None:
    """Print the version of csctl, and the commit if it was installed from a git repository.

    If a kubeconfig is found, the versions of the operator, Kubernetes and Cluster API in the management cluster follow,
    as far as you may read them, and the versions that csctl and the operator support. An unreachable management
    cluster is a warning.
    """
    from importlib.metadata import distribution

    installed = distribution(DISTRIBUTION)
    document = {"version": installed.version, "commit": commit_of(installed.read_text("direct_url.json"))}
    versions = None if client else _management_versions(management)
    if form != TEXT:
        output.print_document(
            {**document, **({"management": versions, "supported": supported()} if versions else {})}, form
        )
        return
    output.say(f"csctl version: {document['version']}")
    output.say(f"commit: {document['commit']}")
    if versions is None:
        return
    for title, text in (*versions.items(), *((f"supported {name}", value) for name, value in supported().items())):
        output.say(f"{title}: {text or f'{UNKNOWN}: no Deployment of it exists, or you may not list Deployments'}")


def commit_of(direct_url: str | None) -> str:
    """Return the commit that the installer recorded (PEP 610), otherwise ``unknown``."""
    import json

    noted = json.loads(direct_url or "{}")
    return str(noted.get("vcs_info", {}).get("commit_id", UNKNOWN))


def supported() -> dict[str, str]:
    """Return the supported versions in the management cluster."""
    from clusterstacks.csctl.install import preflight

    tested = f"{preflight.TESTED_CLUSTER_API} ({preflight.CONTRACT})"
    return {
        "Kubernetes": f"{preflight.OLDEST_KUBERNETES} to {preflight.NEWEST_KUBERNETES}",
        "Cluster API": f"{tested}, or older with {preflight.OLDER_CONTRACT}",
    }


def operator_text(deployments: list[Manifest]) -> str:
    """Describe the Deployments of the operator: version by the tag of the image, namespace and replicas."""
    from clusterstacks.model.documents import at, mappings, text

    described = []
    for deployment in deployments:
        images = [
            text(container, "image") for container in mappings(deployment, "spec", "template", "spec", "containers")
        ]
        tags = [image.partition("@")[0].rpartition("/")[2].partition(":")[2] for image in images]
        version = next(filter(None, tags), UNKNOWN)
        available, wanted = at(deployment, "status", "availableReplicas") or 0, at(deployment, "spec", "replicas") or 0
        namespace = text(deployment, "metadata", "namespace")
        described.append(f"{version} in namespace {namespace}, {available} of {wanted} replicas available")
    return "; ".join(described)


def _management_versions(management: ManagementCluster) -> dict[str, str] | None:
    """Return the versions in the management cluster; None without a kubeconfig, or if it is not reachable."""
    from clusterstacks.model.errors import DependencyError, SpecError

    try:
        management.connection()
    except SpecError as error:
        if management.kubeconfig or management.context or error.code != "KubeconfigMissing":
            raise
        return None
    try:
        return asyncio.run(_read(management))
    except DependencyError as error:
        problem = error.message
    except TimeoutError:
        problem = f"no answer within {PATIENCE_SECONDS:g} s"
    output.warn(f"the management cluster is not reachable: {problem}")
    return None


async def _read(management: ManagementCluster) -> dict[str, str]:
    from clusterstacks.csctl.install.cluster_facts import cluster_api_version
    from clusterstacks.csctl.install.installations import OPERATOR_LABEL
    from clusterstacks.csctl.install.installed_objects import operator_deployments

    async with asyncio.timeout(PATIENCE_SECONDS), management.connected() as client:
        server, cluster_api, operators = await asyncio.gather(
            client.version(), cluster_api_version(client), operator_deployments(client, OPERATOR_LABEL)
        )
    return {"operator": operator_text(operators), "Kubernetes": server.git_version, "Cluster API": cluster_api}
