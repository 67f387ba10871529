"""``csctl generate``: print new objects, complete and with comments."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from clusterstacks.csctl.authoring.example_objects import default_of
from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.cluster_options import ManagementCluster, ObjectName, cluster_options
from clusterstacks.csctl.shared.management_objects import served
from clusterstacks.csctl.shared.release_ref import sorted_releases
from clusterstacks.model.documents import at, mapping, mappings, text
from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_CLASS_KIND, CLUSTER_KIND, GROUP, Kind
from clusterstacks.model.names import parse_class, parse_release
from clusterstacks.release.sources.owners import is_stack

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.model.objects import Manifest, ObjectKey

NETWORK = {"pods": {"cidrBlocks": ["10.244.0.0/16"]}, "services": {"cidrBlocks": ["10.96.0.0/16"]}}
"""Networks of a new Cluster: those of the documentation of Cluster API."""


@click.group(short_help="Print a new Cluster with the variables of its class.")
def generate() -> None:
    """Print new objects, to be edited and applied."""


@generate.command(name="cluster", short_help="Print a new Cluster with the variables of its class.")
@click.argument("cluster", metavar="CLUSTER", type=ObjectName())
@click.option("--stack", required=True, type=ObjectName(), metavar="CLUSTERSTACK", help="ClusterStack of its release.")
@click.option("--release", default="", help="Release of the class.  [default: the newest that is ready]")
@cluster_options
def generate_cluster(cluster: ObjectKey, stack: ObjectKey, release: str, management: ManagementCluster) -> None:
    """Print a Cluster of the class of a release, for 'kubectl apply -f -'.

    Every variable of the class has its default, and its description and type as comments. Variables without a default
    are commented out, unless the class requires them: fill these in.
    """
    output.print_text(asyncio.run(_read(management, cluster, stack, release)))


async def _read(management: ManagementCluster, cluster: ObjectKey, stack: ObjectKey, wanted: str) -> str:
    async with management.connected() as client:
        releases = (await client.list(await served(client, GROUP, Kind.CLUSTER_STACK_RELEASE), stack.namespace)).items
        release = choose_release(releases, stack, wanted)
        name = parse_release(text(release, "metadata", "name")).class_name
        classes = await served(client, CLUSTER_API_GROUP, CLUSTER_CLASS_KIND)
        cluster_class = await client.get(classes, name, stack.namespace)
        api_version = (await served(client, CLUSTER_API_GROUP, CLUSTER_KIND)).api_version
    return cluster_text(cluster, cluster_class, text(release, "status", "kubernetesVersion"), api_version)


def choose_release(releases: list[Manifest], stack: ObjectKey, wanted: str) -> Manifest:
    """Return a ready ClusterStackRelease of a ClusterStack: the one that is wanted, otherwise the newest.

    Raises:
        SpecError: There is none; the message lists those that are ready.
    """
    ready = {
        text(release, "metadata", "name"): release
        for release in releases
        if at(release, "status", "ready") is True
        and any(is_stack(owner, stack.name) for owner in mappings(release, "metadata", "ownerReferences"))
    }
    sorted_names = [name.release for name in sorted_releases(ready)[0]]
    if not sorted_names:
        remedy = f"'kubectl get clusterstacks -n {stack.namespace}' lists the ClusterStacks and what they wait for"
        raise SpecError("ReleaseUnknown", f"ClusterStack {stack} has no ready release, or does not exist: {remedy}")
    if wanted and wanted not in ready:
        raise SpecError(
            "ReleaseUnknown", f"{wanted} is not a ready release of ClusterStack {stack}: use {', '.join(sorted_names)}"
        )
    return ready[wanted or sorted_names[-1]]


def cluster_text(cluster: ObjectKey, cluster_class: Manifest, version: str, api_version: str) -> str:
    """Return a Cluster as YAML with comments; ``api_version`` is that of Cluster."""
    from clusterstacks.model import yaml

    name, place = text(cluster_class, "metadata", "name"), text(cluster_class, "metadata", "namespace")
    elsewhere = {} if place == cluster.namespace else {"namespace": place}
    reference: Manifest = {"classRef": {"name": name, **elsewhere}}
    if api_version.endswith("/v1beta1"):
        reference = {"class": name, **({"classNamespace": place} if elsewhere else {})}
    topology = {**reference, "version": version, "controlPlane": {"replicas": 1}, **_workers(cluster_class)}
    manifest = {
        "apiVersion": api_version,
        "kind": CLUSTER_KIND,
        "metadata": {"name": cluster.name, "namespace": cluster.namespace},
        "spec": {"clusterNetwork": NETWORK, "topology": topology},
    }
    variables = [line for variable in mappings(cluster_class, "spec", "variables") for line in _variable(variable)]
    lines = ["    variables:", *(f"    {line}" for line in variables)] if variables else []
    return "\n".join([f"# A Cluster of release {parse_class(name)}.", yaml.dump(manifest).rstrip(), *lines, ""])


def _workers(cluster_class: Manifest) -> Manifest:
    """Return one pool of each worker class."""
    pools = {
        kind: [
            {"class": text(pool, "class"), "name": text(pool, "class"), "replicas": 1}
            for pool in mappings(cluster_class, "spec", "workers", kind)
        ]
        for kind in ("machineDeployments", "machinePools")
    }
    present = {kind: listed for kind, listed in pools.items() if listed}
    return {"workers": present} if present else {}


def _variable(variable: Manifest) -> Iterator[str]:
    """Yield the lines of a variable: its description, and its default value."""
    from clusterstacks.model import yaml

    schema = mapping(variable, "schema", "openAPIV3Schema")
    required, default = at(variable, "required") is True, default_of(schema)
    yield from (f"# {line}" for line in _description(schema))
    if default is None and required:
        yield "# Required: fill it in."
    written = yaml.dump([{"name": text(variable, "name"), "value": default}]).splitlines()
    yield from written if required or default is not None else (f"# {line}" for line in written)


def _description(schema: Manifest, title: str = "") -> Iterator[str]:
    """Yield the description and type of a value, and those of the fields of an object below it."""
    choices = at(schema, "enum")
    kind = f"one of {', '.join(map(str, choices))}" if isinstance(choices, list) else text(schema, "type")
    told: list[Any] = [title, " ".join(text(schema, "description").split()), kind and f"({kind})"]
    if line := " ".join(filter(None, told)):
        yield line
    for name, below in mapping(schema, "properties").items():
        if isinstance(below, dict):
            yield from (f"  {line}" for line in _description(below, f"{name}:"))
