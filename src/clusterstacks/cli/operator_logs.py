"""``csctl logs``: print the log lines of the operator that concern a Cluster."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any, Final

import click

from clusterstacks.cli.shared import output
from clusterstacks.cli.shared.cluster_options import (
    ClusterName,
    ManagementCluster,
    cluster_options,
    complete_namespaces,
)
from clusterstacks.cli.shared.options import JSON, form_option

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clusterstacks.domain.objects import ObjectKey

_TEXT_LINE: Final = re.compile(
    r"(?P<time>\S+) (?P<level>\w+) (?P<logger>\S+) "
    r"(?:controller=(?P<controller>\S+) object=(?P<object>\S+) reconcileID=(?P<reconcileID>\S+) )?(?P<message>.*)"
)
"""A line of the operator with ``--log-format text``."""

_LEVELS: Final = {"error": "red", "critical": "red", "warning": "yellow"}


@click.command(short_help="Print the log lines of the operator about a Cluster.")
@click.argument("cluster", metavar="NAMESPACE/CLUSTER", type=ClusterName())
@cluster_options
@form_option()
@click.option("--since", default="1h", show_default=True, help="Age of the oldest line, for example 10m or 1h30m.")
@click.option(
    "--operator-namespace",
    default="",
    help="Namespace of the operator's pods.  [default: all namespaces]",
    shell_complete=complete_namespaces,
)
def logs(cluster: ObjectKey, management: ManagementCluster, form: str, since: str, operator_namespace: str) -> None:
    """Print the lines in the logs of the operator's pods that are about a Cluster or its ClusterAddon, sorted by time.

    The logs of all replicas are read, at most 4 MB of each. With -o json, each line is a JSON object, whatever
    --log-format of the operator is. In the local environment the operator is not a pod: use 'csctl dev logs operator'.
    """
    from clusterstacks.api.names import addon_name
    from clusterstacks.domain.documents import parse_duration

    seconds = int(parse_duration(since).total_seconds())
    texts = asyncio.run(_read(management, operator_namespace, seconds))
    subjects = (str(cluster), f"{cluster.namespace}/{addon_name(cluster.name)}")
    for line, record in lines_about(subjects, (line for text in texts for line in text.splitlines())):
        if form == JSON:
            output.say(line if line.startswith("{") else json.dumps(record))
        else:
            level = record.get("level", "")
            output.say(" ".join((record.get("time", ""), level, record.get("message", ""))), colour=_LEVELS.get(level))


def lines_about(subjects: tuple[str, ...], lines: Iterable[str]) -> list[tuple[str, dict[str, str]]]:
    """Return the lines whose object or message is one of the subjects, sorted by time, and their content.

    Args:
        subjects: ``namespace/name`` of the objects.
        lines: Lines of a log; others than those of the operator are skipped.
    """
    named = re.compile(rf"(?<![\w./-])(?:{'|'.join(map(re.escape, subjects))})(?![\w/-]|\.\w)")
    found = []
    for line in lines:
        if not any(one in line for one in subjects):
            continue
        texts = {key: value for key, value in parse_line(line).items() if isinstance(value, str)}
        if texts.get("object") in subjects or named.search(texts.get("message", "")):
            found.append((line, texts))
    return sorted(found, key=lambda one: one[1].get("time", ""))


def parse_line(line: str) -> dict[str, Any]:
    """Return the fields of a line of the operator, of either format; empty if it is not one."""
    try:
        found = json.loads(line)
    except ValueError:
        match = _TEXT_LINE.fullmatch(line)
        return {name: value for name, value in match.groupdict().items() if value is not None} if match else {}
    return found if isinstance(found, dict) else {}


async def _read(management: ManagementCluster, namespace: str, since_seconds: int) -> list[str]:
    """Read the logs of the operator's pods.

    Raises:
        DependencyError: There is none, or the user may not read their logs.
    """
    from clusterstacks.domain.errors import DependencyError
    from clusterstacks.installer.installations import OPERATOR_LABEL

    async with management.connected() as client:
        pods = await client.list(await client.resource("", "Pod"), namespace, labels=OPERATOR_LABEL)
        if not pods.items:
            where = f"in namespace {namespace}" if namespace else "in the management cluster"
            problem = f"there is no pod of the operator ({OPERATOR_LABEL}) {where}"
            raise DependencyError("NoOperator", f"{problem}: 'csctl install --check' checks the installation")
        return await asyncio.gather(
            *(
                client.pod_log(one["metadata"]["name"], one["metadata"]["namespace"], since_seconds=since_seconds)
                for one in pods.items
            )
        )
