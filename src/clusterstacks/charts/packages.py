"""Archives of charts: checked when they come, and packed from a directory beside the chart that needs one."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from clusterstacks.charts.archive import write_archive
from clusterstacks.charts.chart import CHART_FILE, read_chart
from clusterstacks.charts.chart_version import same_version
from clusterstacks.charts.errors import ChartBroken, ChartRepositoryRefused
from clusterstacks.charts.helmignore import chart_files
from clusterstacks.charts.requirements import ChartIdentity, identify, lacking

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.charts.requirements import ChartRequirement

FILE = "file://"


def check_package(packed: bytes, name: str, version: str, label: str) -> None:
    """Check that an archive is the chart it should be, and complete.

    Raises:
        ChartBroken: It is another chart, or lacks one it depends on itself.
        UnsafeArchive: It is damaged, too large, or no archive of a chart.
    """
    files = read_chart(packed, label)
    identity = identify(files, label)
    if identity.name != name or not same_version(identity.version, version):
        raise ChartBroken(label, f"is the chart {identity.name} {identity.version}: its repository is broken")
    _check_complete(files, label)


def pack_neighbour(requirement: ChartRequirement, chart: str, tree: Mapping[str, bytes]) -> tuple[ChartIdentity, bytes]:
    """Pack the chart a ``file://`` repository names; the same files always give the same bytes.

    Args:
        requirement: What the chart asks for.
        chart: Where the chart lies in the stack.
        tree: The files of the stack, by path.

    Raises:
        ChartRepositoryRefused: The path leaves the stack, or there is no such chart.
        ChartBroken: It is another chart, or lacks one it depends on itself.
    """
    path = requirement.repository.removeprefix(FILE)
    target = posixpath.normpath(posixpath.join(chart, path))
    if path.startswith("/") or target in ("", ".", "..") or target.startswith("../"):
        raise ChartRepositoryRefused(
            f"{chart}: {requirement}", requirement.repository, "leaves the stack", "name a directory inside of it"
        )
    files = {
        file.removeprefix(f"{target}/"): content for file, content in tree.items() if file.startswith(f"{target}/")
    }
    if CHART_FILE not in files:
        way_out = "put it there, or into the chart's own charts/"
        problem = f"leads to {target}, where no chart is"
        raise ChartRepositoryRefused(f"{chart}: {requirement}", requirement.repository, problem, way_out)
    taken = chart_files(files, target)
    identity = identify(taken, target)
    if not requirement.fits(identity) or (
        requirement.locked and not same_version(requirement.locked, identity.version)
    ):
        raise ChartBroken(target, f"is the chart {identity.name} {identity.version}, and {chart} needs {requirement}")
    _check_complete(taken, target)
    return identity, write_archive({f"{identity.name}/{file}": content for file, content in taken.items()})


def _check_complete(files: Mapping[str, bytes], label: str) -> None:
    missing = lacking(files, label)
    if missing:
        names = ", ".join(map(str, missing))
        raise ChartBroken(
            label, f"does not hold {names}, which it depends on itself: put a package of it that does into charts/"
        )
