"""What ``csctl compat`` is asked about: directories of releases and stacks, or a Cluster of a management cluster."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clusterstacks.cli.shared.cluster_options import ClusterName, Management, outlook_of
from clusterstacks.cli.shared.plan_tables import print_warnings
from clusterstacks.cli.shared.upstream_facts import facts_in_force

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusterstacks.clusters.context import Outlook
    from clusterstacks.compat.constraints import Judges
    from clusterstacks.compat.world import Candidate
    from clusterstacks.domain.objects import ObjectKey
    from clusterstacks.domain.versions import KubernetesVersion


class Subject(ClusterName):
    """``DIR``, or ``NAMESPACE/CLUSTER`` where there is no such directory."""

    name = "DIR|NAMESPACE/CLUSTER"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - click's signature
        """Read a directory or the name of a Cluster."""
        if isinstance(value, Path) or Path(value).is_dir():
            return Path(value)
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is neither a directory nor a Cluster, like team-a/prod", param, ctx)


@dataclass(frozen=True, slots=True)
class Subjects:
    """What is asked about: directories, or one Cluster of a management cluster."""

    directories: tuple[Path, ...]
    outlook: Outlook | None = None

    @classmethod
    def read(cls, named: Sequence[Path | ObjectKey], management: Management, releases: Path | None) -> Subjects:
        """Read what the command line names; warnings about a Cluster are printed.

        Raises:
            ClusterStacksError: As :func:`~clusterstacks.cli.shared.cluster_options.outlook_of`.
        """
        directories = tuple(one for one in named if isinstance(one, Path))
        clusters = [one for one in named if not isinstance(one, Path)]
        if not clusters:
            if releases is not None or management != Management():
                raise click.UsageError("--kubeconfig, --context and --releases go with NAMESPACE/CLUSTER")
            return cls(directories)
        if directories or len(clusters) > 1:
            raise click.UsageError("name either directories or one NAMESPACE/CLUSTER")
        outlook = asyncio.run(_read_live(management, clusters[0], releases))
        print_warnings(list(outlook.notices))
        return cls((), outlook)

    def judges(self) -> Judges:
        """Return what decides besides the releases."""
        from clusterstacks.compat.constraints import Judges

        return self.outlook.judges() if self.outlook is not None else Judges(upstream=facts_in_force())

    def releases(self) -> list[tuple[str, Candidate]]:
        """Return the releases, with what to call each: those in the directories, or those of the Cluster's stack."""
        if self.outlook is None:
            from clusterstacks.authoring.read_compat import stated_by

            return [one for directory in self.directories for one in stated_by(directory)]
        return [(str(one.name), one) for one in sorted(self.outlook.world.candidates, key=lambda one: one.name)]

    def combinations(self) -> list[tuple[str, Candidate, KubernetesVersion]]:
        """Return what is judged, with what to call it and its Kubernetes version."""
        if self.outlook is None:
            return [(label, one, one.kubernetes) for label, one in self.releases()]
        cluster = self.outlook.cluster
        label = f"Cluster {cluster.view.key} of class {cluster.release.class_name}"
        return [(label, self.outlook.combination(), cluster.kubernetes)]


async def _read_live(management: Management, cluster: ObjectKey, releases: Path | None) -> Outlook:
    async with management.connected() as client:
        return await outlook_of(client, cluster, releases)


subjects_argument = click.argument(
    "subjects", metavar="DIR... or NAMESPACE/CLUSTER", nargs=-1, required=True, type=Subject()
)
