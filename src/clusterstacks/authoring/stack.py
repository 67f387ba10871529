"""A stack directory as lint looks at it: what could be read of it, and what rendering its charts told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from clusterstacks.api import yaml
from clusterstacks.domain.versions import StackVersion
from clusterstacks.releases.release import ADDON_CONFIG

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.authoring.stack_chart import Chart
    from clusterstacks.building.settings import StackSettings
    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.domain.versions import KubernetesVersion

VERSION: Final = StackVersion(0, "lint", "1")
"""The version a stack has while it is looked at; like a hash version it is spelled in two ways."""

TAGS: Final = {"ClusterClassVersion": VERSION.dot, "ClusterAddonVersion": VERSION.dot, "NodeImageVersion": VERSION.dot}


@dataclass(frozen=True, slots=True)
class BrokenCondition:
    """A CEL expression of clusteraddon.yaml that does not compile.

    Args:
        path: The way to the expression in the file.
        problem: The compiler's words, and what to do.
    """

    path: tuple[str | int, ...]
    problem: str


@dataclass(frozen=True, slots=True)
class ServerRefusal:
    """An object of the class that a management cluster does not take.

    Args:
        path: Its file as Helm names it.
        kind: The object's.
        name: The object's.
        problem: The server's words.
        way_out: What to do about it.
    """

    path: str
    kind: str
    name: str
    problem: str
    way_out: str


@dataclass(frozen=True, slots=True)
class LintedStack:
    """One stack for one Kubernetes version.

    Args:
        directory: Its directory as the author named it.
        tree: Its files as they lie there.
        settings: Which release it is for; None when that cannot be read.
        settings_problem: Why not.
        name: What the release is called while it is looked at.
        charts: The class's chart, where there is one, then those of the addons.
        conditions: Expressions that do not compile.
        pinning_problem: Why the versions of addons that stack.yaml or versions.yaml lists cannot be set.
        refusals: What a management cluster says, once it was asked.
        others: The other Kubernetes versions that its directory names.
    """

    directory: str
    tree: Mapping[str, bytes] = field(repr=False)
    settings: StackSettings | None
    settings_problem: str = ""
    name: ReleaseName | None = None
    charts: tuple[Chart, ...] = ()
    conditions: tuple[BrokenCondition, ...] = ()
    pinning_problem: str = ""
    refusals: tuple[ServerRefusal, ...] = ()
    others: tuple[KubernetesVersion, ...] = ()

    @property
    def version(self) -> StackVersion:
        """The version it has while it is looked at."""
        return VERSION

    @property
    def staged(self) -> bool:
        """Whether addons come in stages; a values file of the single-chart layout beside them does not count."""
        return ADDON_CONFIG in self.tree

    @property
    def class_chart(self) -> Chart | None:
        """The chart of the class."""
        return next((chart for chart in self.charts if not chart.addon), None)

    @property
    def addons(self) -> tuple[Chart, ...]:
        """The charts of the addons."""
        return tuple(chart for chart in self.charts if chart.addon)

    def files(self) -> dict[str, bytes]:
        """Return every file of the stack, those of charts as the release would hold them."""
        charts = {f"{one.directory}/{path}": content for one in self.charts for path, content in one.files.items()}
        return {**self.tree, **charts}

    def content(self, path: str) -> bytes:
        """Content of a file, empty where there is none."""
        return self.tree.get(path, b"")

    def document(self, path: str) -> object:
        """A YAML file, None where there is none or it is no YAML."""
        try:
            return yaml.load(self.content(path), name=path)
        except yaml.YamlError:
            return None
