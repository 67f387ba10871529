"""Corrections of drift: time from the write of a user to the write of the operator, over all kinds of the demo stack.

A whole operator sweeps one cluster every 10 seconds. Users edit, scale, adopt, relabel and delete one object of each
kind, each object once, at random times. All times are those of the API server's audit log: from the end of the first
write to the end of the second.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import defaultdict
from datetime import timedelta
from pathlib import Path
from random import Random
from statistics import quantiles
from typing import TYPE_CHECKING

import uvloop

from benchmarks.deliveries import api_server
from benchmarks.report import Figure, show
from clusterstacks.deliver.apply.ownership import PART_OF_LABEL
from clusterstacks.model.objects import split_api_version
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.kubeconfig import load_kubeconfig
from clusterstacks.net.pool import Pool
from tests.support.builders.every_kind import KEEPS_FINALIZER, SCALED, edit_of, every_kind, placed
from tests.support.builders.stacks import templates
from tests.support.observing.audit_log import audit_flags
from tests.support.observing.request_audit import RequestAudit
from tests.support.running.world import opened_world
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clusterstacks.dev.apiserver import ApiServer
    from clusterstacks.model.objects import Manifest
    from tests.support.observing.request_audit import AuditedRequest

INTERVAL = timedelta(seconds=10)
INTERVALS = 6
"""Intervals over which the writes of the users are spread."""
USER = "user"
VERBS = ("edit", "scale", "adopt", "relabel", "delete")
GOAL = INTERVAL + timedelta(seconds=5)

Target = tuple[str, str]
"""Plural and name."""


def is_written(verb: str, manifest: Manifest) -> bool:
    """Return whether a user does this with an object."""
    kind = manifest["kind"]
    if verb == "scale":
        return kind in SCALED
    # A custom resource is deleted with its definition.
    return verb != "delete" or kind not in {KEEPS_FINALIZER, "Widget"}


async def write(client: Client, verb: str, manifest: Manifest) -> Target:
    """Write an object as a user."""
    group, version = split_api_version(manifest["apiVersion"])
    resource = await client.resource(group, manifest["kind"], version)
    name, namespace = manifest["metadata"]["name"], manifest["metadata"].get("namespace", "")
    patch = edit_of(manifest)[1]
    match verb:
        case "edit":
            await client.merge_patch(resource, name, patch, namespace, manager="kubectl-edit")
        case "scale":
            scale = {"spec": {"replicas": 3}}
            await client.merge_patch(resource, name, scale, namespace, subresource="scale", manager="kubectl-scale")
        case "adopt":
            kept = {key: manifest[key] for key in ("apiVersion", "kind")}
            metadata = {"name": name, **patch.get("metadata", {})}
            await client.apply(
                resource, {**patch, **kept, "metadata": metadata}, manager="argocd", namespace=namespace, force=True
            )
        case "relabel":
            await client.merge_patch(resource, name, {"metadata": {"labels": {PART_OF_LABEL: None}}}, namespace)
        case _:
            await client.delete(resource, name, namespace)
    return resource.plural, name


def corrections(requests: Iterable[AuditedRequest]) -> dict[Target, float]:
    """Return the seconds from the write of a user to the next write of the operator, for each object."""
    written: dict[Target, AuditedRequest] = {}
    found: dict[Target, float] = {}
    for one in requests:
        target = (one.kind.partition("/")[0], one.name)
        if one.agent == USER:
            written[target] = one
        elif target in written and target not in found and one.verb == "apply" and one.code < 300 and not one.dry_run:
            found[target] = (one.ended - written[target].ended).total_seconds()
    return found


async def measure(server: ApiServer, log: Path, directory: Path) -> list[Figure]:
    """Return the times by verb."""
    random, audit = Random(0), RequestAudit(log)
    async with opened_world(server, server, directory) as world, Pool() as pool:
        user = Client(load_kubeconfig([server.kubeconfig_path]), pool, user_agent=USER)
        objects = {verb: [placed(one) for one in every_kind(f"{world.namespace}-{verb}")] for verb in VERBS}
        release = world.stack.release("v1")
        world.publish(release, world.stack.files("v1", {verb: templates(*some) for verb, some in objects.items()}))
        async with world.operator(drift_interval=INTERVAL):
            await world.create(world.stack.manifest(world.namespace, "v1"))
            await world.release_ready(release)
            await world.cluster("one", release.class_name)
            await world.addons_ready("one", release.class_name)
            audit.since_last()

            async def write_later(verb: str, manifest: Manifest) -> tuple[Target, str]:
                await asyncio.sleep(random.uniform(0, INTERVALS) * INTERVAL.total_seconds())
                return await write(user, verb, manifest), verb

            writes = [(verb, one) for verb, some in objects.items() for one in some if is_written(verb, one)]
            written = dict(await asyncio.gather(*(write_later(verb, one) for verb, one in writes)))
            requests: list[AuditedRequest] = []

            async def all_corrected() -> bool:
                requests.extend(audit.since_last())
                missing = written.keys() - corrections(requests).keys()
                assert not missing, sorted(missing)
                return True

            await eventually(all_corrected, seconds=120, about="corrections")
    seconds: dict[str, list[float]] = defaultdict(list)
    for target, time in corrections(requests).items():
        seconds[written[target]].append(time)
    every = [time for times in seconds.values() for time in times]
    return [
        *(Figure(f"{verb}: time to the correction", seconds[verb], "s") for verb in VERBS),
        Figure(f"all {len(every)} writes: time to the correction", every, "s"),
        Figure("95th percentile of all", [quantiles(every, n=20)[-1]], "s"),
        Figure(
            f"corrections later than {GOAL.total_seconds():g} s", [sum(GOAL.total_seconds() < one for one in every)], ""
        ),
    ]


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as root:
        directory, logs = Path(root) / "world", Path(root) / "logs"
        directory.mkdir()
        logs.mkdir()
        with (
            api_server(*audit_flags(logs)) as server,
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            figures = runner.run(measure(server, logs / "audit.log", directory))
            show(f"Corrections with an interval of {INTERVAL.total_seconds():g} s", figures)


if __name__ == "__main__":
    main()
