"""Runs the operator of an installation as a Job that writes nothing, and returns what it would write."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from clusterstacks.csctl.install.apply_installation import POLL_SECONDS, delete_object, pod_problem
from clusterstacks.csctl.install.installations import INSTALLATION_LABEL
from clusterstacks.csctl.install.operator_chart import NAME
from clusterstacks.model.documents import at, listed, mapping, mappings, text
from clusterstacks.model.errors import DependencyError, SpecError
from clusterstacks.model.objects import ObjectId

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client

_OF_SERVER: Final = ("livenessProbe", "readinessProbe", "lifecycle")
"""Fields of a container that is called by others, or replaced without a gap."""


def observation_job(objects: Sequence[Manifest], within: timedelta) -> Manifest:
    """Return the Job: the rendered operator with --observe, and with the account that the running one has.

    Its pod has none of the labels by which the Service of the webhooks finds its pods.
    """
    (deployment,) = (one for one in objects if one["kind"] == "Deployment")
    namespace = deployment["metadata"]["namespace"]
    spec = {**deployment["spec"]["template"]["spec"], "restartPolicy": "Never"}
    spec.pop("topologySpreadConstraints", None)
    manager, *others = spec["containers"]
    manager = {key: value for key, value in manager.items() if key not in _OF_SERVER}
    spec["containers"] = [{**manager, "args": [*manager["args"], "--observe", "--once"]}, *others]
    labels = {INSTALLATION_LABEL: namespace}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"generateName": f"{NAME}-observe-", "namespace": namespace, "labels": labels},
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": int(within.total_seconds()),
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


async def run_observation(client: Client, objects: Sequence[Manifest], within: timedelta) -> tuple[int, str]:
    """Run the Job and delete it; return the exit code and the message of the operator.

    Raises:
        SpecError: No operator runs in the namespace, whose account the Job would use.
        DependencyError: There was no result in time; the message says why the pod does not start.
    """
    job = observation_job(objects, within)
    namespace, account = job["metadata"]["namespace"], text(job, "spec", "template", "spec", "serviceAccountName")
    if await client.find(await client.resource("", "ServiceAccount"), account, namespace) is None:
        raise SpecError(
            "NotInstalled",
            f"ServiceAccount {namespace}/{account} does not exist: --observe runs beside an installed operator, with "
            "its rights",
        )
    jobs = await client.resource("batch", "Job")
    name = (await client.create(jobs, job))["metadata"]["name"]
    try:
        return await _result(client, namespace, name, within)
    finally:
        await delete_object(client, ObjectId("batch", "Job", namespace, name))


async def _result(client: Client, namespace: str, job: str, within: timedelta) -> tuple[int, str]:
    pods = await client.resource("", "Pod")
    until = time.monotonic() + within.total_seconds()
    while True:
        found = (await client.list(pods, namespace, labels=f"batch.kubernetes.io/job-name={job}")).items
        for pod in found:
            for status in mappings(pod, "status", "containerStatuses"):
                if ended := mapping(status, "state", "terminated"):
                    return at(ended, "exitCode") or 0, text(ended, "message")
        if time.monotonic() > until:
            problem = (
                f"Job {namespace}/{job} has no result after {within.total_seconds():.0f} s; wait longer with --timeout"
            )
            raise DependencyError("NotObserved", listed(problem, map(pod_problem, found)))
        await asyncio.sleep(POLL_SECONDS)
