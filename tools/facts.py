"""Show which facts are stale, or behind their projects: ``make facts``.

For each component it asks the repository or registry of its chart, else the Go module proxy, for the newest release,
and says whether a statement of the facts is about it. Where nothing answers, the day of the facts remains. It changes
nothing: ``make facts UPDATE=NAME`` prints the entries that it can derive.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.registry_options import ServerTrust
from clusterstacks.model import yaml
from clusterstacks.model.errors import DependencyError, SpecError
from clusterstacks.model.semver import Constraint, SemVer
from clusterstacks.net.oci.credentials import find_credentials
from clusterstacks.plan.compat.library import facts
from clusterstacks.release.charts.chart import kubernetes_range, read_chart
from clusterstacks.release.charts.dependencies import ChartRequirement
from clusterstacks.release.charts.repository import ChartDownloader, IndexRepository, RegistryRepository

if TYPE_CHECKING:
    from clusterstacks.plan.compat.statements import ChartStatement, ComponentFacts

STALE_DAYS: Final = 90
"""Age of facts from which on they are called stale (arbitrary: most projects publish a minor each quarter)."""
AT_ONCE: Final = 8
"""Concurrent requests (arbitrary)."""

_REPOSITORY: Final = re.compile(r"https://(github\.com/(?!\S*(?:chart|website|docs))[^/]+/[^/]+)/")
_MODULES: Final = {"github.com/kubernetes-sigs/": "sigs.k8s.io/", "github.com/kubernetes/": "k8s.io/"}
"""Paths of Go modules that differ from those of their repositories."""
_MAJOR: Final = re.compile(r"(?:^|>=?)(\d+)\.")
"""The major of the first version of a statement."""


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest release of a project."""

    version: SemVer
    """Version of the software."""
    chart: str = ""
    kubernetes: str = ""
    """Range of ``kubeVersion`` of the chart; empty without one."""


async def newest_chart(charts: ChartDownloader, chart: ChartStatement) -> Newest:
    """Ask the repository of a chart for its newest version, and read the version of the software from its archive."""
    kind = RegistryRepository if chart.repository.startswith("oci://") else IndexRepository
    repository = kind(charts, chart.repository)
    wanted = ChartRequirement(chart.name, Constraint.parse("*"), chart.repository)
    found = await repository.find(wanted)
    packed = await repository.fetch(wanted, found)
    described = yaml.load(read_chart(packed, chart.name)["Chart.yaml"], name=chart.name)
    limit = described.get("kubeVersion")
    range_ = kubernetes_range(Constraint.parse(limit)) if limit else None
    return Newest(SemVer.parse(str(described.get("appVersion") or found.version)), found.version, str(range_ or ""))


async def newest_module(repository: str, major: int) -> Newest | None:
    """Ask the Go module proxy for the newest version of a repository, of this major; None if it has none."""
    path = next((repository.replace(*pair) for pair in _MODULES.items() if repository.startswith(pair[0])), repository)
    path += f"/v{major}" if major > 1 else ""
    command = ("go", "list", "-m", "-versions", "-json", path)
    pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=null, cwd="/")  # not in a module
    out, _ = await process.communicate()
    versions = [SemVer.parse(text.partition("+")[0]) for text in json.loads(out or "{}").get("Versions", ())]
    newest = max((version for version in versions if not version.pre), default=SemVer(0, 0, 0))
    return Newest(newest) if newest.major == major and newest.release > (0, 0, 0) else None


async def newest_of(component: ComponentFacts, charts: ChartDownloader) -> Newest | str:
    """Return the newest release of a component, or why it is not known."""
    problem = "no registry has it"
    if component.charts:
        try:
            return await newest_chart(charts, component.charts[0])
        except (DependencyError, SpecError) as error:
            problem = (
                f"{component.charts[0].repository} does not answer" if not isinstance(error, SpecError) else str(error)
            )
    major = max(int(number) for one in component.statements for number in _MAJOR.findall(one.text))
    matches = (_REPOSITORY.match(statement.source.url) for statement in component.statements)
    for repository in dict.fromkeys(match[1] for match in matches if match is not None):
        if newest := await newest_module(repository, major):
            return newest
    return problem


def state_of(component: ComponentFacts, newest: Newest | str, today: date) -> str:
    """Say whether the facts are about the newest release, and how old they are."""
    age = (today - date.fromisoformat(component.read)).days
    stale = f"stale, {age} days" if age >= STALE_DAYS else f"{age} days"
    if isinstance(newest, str):
        return f"{stale}; {newest}"
    return stale if _is_known(component, newest) else f"{stale}; no statement about {newest.version}"


def _is_known(component: ComponentFacts, newest: Newest) -> bool:
    return any(one.versions.holds(newest.version.release, newest.version.pre) for one in component.statements)


def proposal(component: ComponentFacts, newest: Newest) -> dict[str, object]:
    """Return the entries of the facts file that follow from the newest chart; what the project says is to be read."""
    row: dict[str, object] = {"version": f"{newest.version.major}.{newest.version.minor}", "kind": "documented"}
    if newest.kubernetes:
        row |= {"kubernetesHard": newest.kubernetes, "hardSource": "chart"}
    return {
        "charts": [{"map": [{"chart": newest.chart, "app": str(newest.version)}]}] if newest.chart else [],
        "versions": [] if _is_known(component, newest) else [row | {"source": "READ THE PROJECT'S PAGE"}],
    }


async def main(update: str) -> None:
    """Print the table, or the proposal for one component."""
    known, today, limit = facts().components, datetime.now(UTC).date(), asyncio.Semaphore(AT_ONCE)
    async with ServerTrust().web() as web:
        charts = ChartDownloader(web, None, partial(find_credentials, environ={}))

        async def ask(name: str) -> Newest | str:
            async with limit:
                return await newest_of(known[name], charts)

        names = [update] if update else [*known]
        found = dict(zip(names, await asyncio.gather(*map(ask, names)), strict=True))
    if update:
        newest = found[update]
        sys.exit(newest) if isinstance(newest, str) else output.say(yaml.dump(proposal(known[update], newest)))
        return
    rows = [
        [name, known[name].read, "" if isinstance(one, str) else str(one.version), state_of(known[name], one, today)]
        for name, one in found.items()
    ]
    output.print_table(("COMPONENT", "READ", "NEWEST", "STATE"), rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", default="", choices=["", *facts().components], metavar="NAME")
    asyncio.run(main(parser.parse_args().update))
