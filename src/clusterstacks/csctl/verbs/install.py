"""``csctl install``: install or upgrade the operator, print its objects, or check a management cluster."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.cluster_options import ManagementCluster, complete_namespaces, connection_options
from clusterstacks.csctl.shared.options import FILE, TEXT, Seconds, form_option
from clusterstacks.model.documents import listed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from clusterstacks.csctl.install.preflight import Check
    from clusterstacks.model.objects import Manifest

_UNKNOWN_IMAGE = "registry.invalid/cluster-stack-operator"
"""Image of the objects that --check tries without an image."""

namespace_option = click.option(
    "--namespace",
    "-n",
    default="cluster-stack-system",
    show_default=True,
    help="Namespace of the operator.",
    shell_complete=complete_namespaces,
)
timeout_option = click.option(
    "--timeout",
    type=Seconds(),
    default="5m",
    show_default=True,
    metavar="DURATION",
    help="Maximum time to wait.",
)


@click.command(short_help="Install the operator, or check a management cluster.")
@click.option(
    "--image",
    default="",
    metavar="REPOSITORY[:TAG][@DIGEST]",
    help="Image of the operator (values image.*). Without a tag: the version of csctl. No image is published yet.",
)
@click.option(
    "--values",
    "-f",
    "files",
    type=FILE,
    multiple=True,
    help="Values file of the chart; repeatable, later files take precedence.",
)
@namespace_option
@click.option("--wait", is_flag=True, help="Wait until all replicas are available and the webhooks are registered.")
@timeout_option
@click.option("--export", is_flag=True, help="Print the objects as YAML; no cluster is needed.")
@click.option("--check", is_flag=True, help="Check the management cluster and an installation in it; write nothing.")
@click.option("--observe", is_flag=True, help="Run this version beside the installed one: print what it would write.")
@connection_options
@form_option()
def install(  # noqa: PLR0913 - one for each option
    *,
    image: str,
    files: tuple[Path, ...],
    namespace: str,
    wait: bool,
    timeout: float,
    export: bool,
    check: bool,
    observe: bool,
    management: ManagementCluster,
    form: str,
) -> int:
    """Install or upgrade the operator with its CustomResourceDefinitions and rights.

    The objects are those of the Helm chart cluster-stack-operator, with the values of --values; Helm is not needed.
    Nothing is applied if a check finds a problem. Run the command again to upgrade the operator or change values: it
    also deletes the objects that the chart no longer contains.

    --check shows the versions of Kubernetes and Cluster API, feature gates, whether the API server accepts all objects
    from you, leftovers of the Go operator, and whether the API server reaches the webhooks. It exits with 3 if a
    problem prevents an installation.

    --observe runs the operator of --image and --values as a Job beside the installed one, before an upgrade. It writes
    nothing, and reports each object that it would write to. It exits with 0 if there is none and every cluster could be
    compared, else with 3.

    No image is published yet: build one with 'make image', push it to your registry, and name it with --image.
    """
    from clusterstacks.csctl.install.operator_chart import installation_objects, read_values

    if export and (check or wait):
        raise click.UsageError("--export cannot be combined with --check and --wait")
    if observe and (export or check or wait):
        raise click.UsageError("--observe cannot be combined with --export, --check and --wait")
    values = read_values(files, image)
    if check and not _repository(values):
        values = read_values(files, _UNKNOWN_IMAGE)
    if not _repository(values):
        raise click.UsageError("--image is missing, or image.repository in a values file: no image is published yet")
    if values.get("takeOver") and not (export or check):
        raise click.UsageError(
            "takeOver is for 'helm upgrade' of the Go operator's release; csctl does not take it over"
        )
    objects = asyncio.run(installation_objects(values, namespace))
    if export:
        output.print_text(_yaml(objects))
        return 0
    if check:
        return asyncio.run(_check(management, objects, namespace, form))
    if observe:
        return asyncio.run(_observe(management, objects, timedelta(seconds=timeout), form))
    asyncio.run(_install(management, objects, namespace, timedelta(seconds=timeout) if wait else None))
    _advise(values, namespace, management)
    return 0


def _repository(values: Mapping[str, Any]) -> str:
    image = values.get("image")
    return str(image.get("repository") or "") if isinstance(image, dict) else ""


def _yaml(objects: Sequence[Manifest]) -> str:
    from clusterstacks.model import yaml

    return "---\n".join(yaml.dump(one) for one in objects)


async def _check(management: ManagementCluster, objects: Sequence[Manifest], namespace: str, form: str) -> int:
    from clusterstacks.csctl.install.cluster_facts import read_facts
    from clusterstacks.csctl.install.preflight import checks, problems

    async with management.connected() as client:
        found = checks(await read_facts(client, objects, namespace))
    if form != TEXT:
        output.print_document(
            [{"check": one.subject, "result": one.result, "details": one.details} for one in found], form
        )
    else:
        _print_checks(found)
    return output.NEGATIVE if problems(found) else 0


async def _observe(management: ManagementCluster, objects: Sequence[Manifest], within: timedelta, form: str) -> int:
    from clusterstacks.csctl.install.observation_job import run_observation
    from clusterstacks.model.errors import DependencyError
    from clusterstacks.operator.observation import WRITES

    async with management.connected() as client:
        code, message = await run_observation(client, objects, within)
    if code not in (0, WRITES):
        raise DependencyError(
            "NotObserved", f"the operator ended with {code} before everything was compared: {message}"
        )
    if form != TEXT:
        output.print_document({"wouldWrite": bool(code), "message": message}, form)
    else:
        output.say(message)
    return output.NEGATIVE if code else 0


def _print_checks(found: Sequence[Check]) -> None:
    output.print_table(("CHECK", "RESULT", "DETAILS"), [(one.subject, one.result, one.details) for one in found])


async def _install(
    management: ManagementCluster, objects: Sequence[Manifest], namespace: str, within: timedelta | None
) -> None:
    from clusterstacks.csctl.install.apply_installation import apply_installation, until_ready
    from clusterstacks.csctl.install.cluster_facts import read_facts
    from clusterstacks.csctl.install.preflight import checks, problems
    from clusterstacks.model.errors import SpecError

    report = output.progress()
    async with management.connected() as client:
        facts = await read_facts(client, objects, namespace)
        here = facts.here
        if here is not None and here.owner.is_foreign and not here.is_go:
            message = f"Deployment {here.key} belongs to {here.owner}: upgrade it {here.owner.upgrade}"
            raise SpecError("InstalledByOthers", message)
        found = checks(facts)
        if refused := problems(found):
            details = [f"{one.subject}: {one.details}" for one in refused]
            head = "the operator cannot be installed; 'csctl install --check' prints all checks"
            raise SpecError("CannotInstall", listed(head, details))
        output.warn_all(f"{one.subject}: {one.details}" for one in found if one.result == "warning")
        lines = await apply_installation(client, objects, namespace)
        for line in (f"applied {len(objects)} objects", *lines):
            report(line)
        if within is not None:
            await until_ready(client, objects, within, report)
            report("the operator is ready")
    output.say(f"The operator is installed in namespace {namespace}.")


def _advise(values: Mapping[str, Any], namespace: str, management: ManagementCluster) -> None:
    """Print what the operator still needs."""
    secrets = values.get("secrets") or {}
    if not (secrets.get("namespaces") or secrets.get("allNamespaces") or values.get("watchNamespace")):
        output.note("The operator may not read Secrets yet, so it reaches no cluster. Set the value secrets.namespaces")
        output.note("to the namespaces with Clusters or ClusterStacks.")
    source = values.get("source") or {}
    if not (source.get("type") or source.get("existingSecret") or values.get("env") or values.get("envFrom")):
        output.note("The operator has no source of releases yet: set source.type and source.location.")
    pods = management.kubectl("-n", namespace, "get", "pods")
    output.note(f"Look at its pods with: {pods}")
