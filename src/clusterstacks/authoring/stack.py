"""One chart of a stack directory, as lint looks at it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from clusterstacks.api import yaml
from clusterstacks.building.packaging import CLASS_DIRECTORY, chart_directories, files_below, other_versions
from clusterstacks.building.pinning import with_addon_versions
from clusterstacks.building.settings import open_minor, read_settings
from clusterstacks.building.source_tree import fill_tags
from clusterstacks.building.yaml_edit import with_values
from clusterstacks.charts.archive import LIMITS
from clusterstacks.charts.chart import CHART_FILE, OVERWRITE, read_chart
from clusterstacks.charts.errors import UnsafeArchive
from clusterstacks.charts.helmignore import chart_files
from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.versions import KubernetesVersion, StackVersion
from clusterstacks.releases.errors import SourceBroken
from clusterstacks.releases.release import ADDON_CONFIG, ADDON_VALUES, SINGLE_ADDON

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from clusterstacks.building.settings import StackSettings
    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.domain.objects import Manifest
    from clusterstacks.domain.versions import KubernetesMinor
    from clusterstacks.render.protocol import HelmHook, RenderedDocument, Repetition

_PLAIN = re.compile(r"charts/[^/]+/Chart\.yaml")
_PACKED = re.compile(r"charts/[^/]+\.tgz")


@dataclass(frozen=True, slots=True)
class LintedChart:
    """A chart of the stack, and what it rendered to once it was examined.

    Args:
        addon: The addon's name; empty for the class.
        directory: Where it lies.
        files: Its files by path below the directory, as the release would hold them.
        values_path: The template of its values; empty when it has none.
        values_template: Its text.
        versioned: Whether a build packages it whole and gives it the release's version.
        complete: Its files with all it depends on; None as long as something is missing.
        missing: Why what it depends on could not be added.
        unreachable: Whether that is a failure of the network or a server.
        rendered: Whether it was rendered without failure.
        documents: What it rendered to.
        repetitions: Keys that stand twice in what it rendered.
        hooks: The Helm hooks that it rendered.
        failure: Why it does not render.
        values_failure: Why its values do not render.
    """

    addon: str
    directory: str
    files: Mapping[str, bytes] = field(repr=False)
    values_path: str = ""
    values_template: bytes = field(default=b"", repr=False)
    versioned: bool = False
    complete: Mapping[str, bytes] | None = field(default=None, repr=False)
    missing: str = ""
    unreachable: bool = False
    rendered: bool = False
    documents: tuple[RenderedDocument, ...] = field(default=(), repr=False)
    repetitions: tuple[Repetition, ...] = ()
    hooks: tuple[HelmHook, ...] = ()
    failure: str = ""
    values_failure: str = ""

    @property
    def title(self) -> str:
        """How messages call it."""
        return f"addon {self.addon}" if self.addon else "the cluster class"

    @property
    def content(self) -> bytes:
        """Its Chart.yaml."""
        return self.files[CHART_FILE]

    @property
    def metadata(self) -> Manifest | None:
        """What Chart.yaml says; None when it cannot be read, which rendering tells."""
        try:
            document = yaml.load(self.content, name=self.chart_file)
        except yaml.YamlError:
            return None
        return document if isinstance(document, dict) else None

    def wanted_kubernetes(self) -> Iterator[tuple[str, str]]:
        """Name the chart and those it directly depends on that say which Kubernetes they want, and what they say."""
        for metadata in (self.metadata or {}, *self.held()):
            if isinstance(wanted := metadata.get("kubeVersion"), str):
                yield str(metadata.get("name")), wanted

    def held(self) -> Iterator[Mapping[str, object]]:
        """Yield what Chart.yaml says of each chart that lies in this one and that it directly depends on."""
        for path, content in (self.complete or self.files).items():
            if metadata := _metadata(path, content):
                yield metadata

    @property
    def chart_file(self) -> str:
        """Path of its Chart.yaml in the stack."""
        return f"{self.directory}/{CHART_FILE}"

    def cause(self, message: str) -> str:
        """Take the name of the chart off a message; findings say it anyway."""
        return message.removeprefix(f"{self.title}: ").removeprefix(f"{self.directory}: ")

    def place(self, path: str) -> str:
        """Path in the stack of a file as Helm names it; Chart.yaml for one of a packed dependency."""
        below = path.partition("/")[2]
        return f"{self.directory}/{below}" if below in self.files else self.chart_file


def oversized(files: Mapping[str, bytes]) -> tuple[str, ...]:
    """Name the files that make a chart too large for the operator: each that is, else the largest of too many bytes."""
    try:
        held = chart_files(files, "")
    except UnsafeArchive:
        held = dict(files)  # the rules of .helmignore cannot be read, which rendering says
    if large := tuple(name for name, content in held.items() if len(content) > LIMITS.file_bytes):
        return large
    if sum(map(len, held.values())) > LIMITS.total_bytes:
        return (max(held, key=lambda name: len(held[name])),)
    return ()


def _metadata(path: str, content: bytes) -> Mapping[str, object]:
    """Read the Chart.yaml of a chart in ``charts/``; empty for any other file."""
    try:
        if _PACKED.fullmatch(path):
            content = read_chart(content, path)[CHART_FILE]
        elif not _PLAIN.fullmatch(path):
            return {}
        document = yaml.load(content, name=path)
    except SpecError:
        return {}  # rendering says so
    return document if isinstance(document, dict) else {}


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
        remedy: What to do about it.
    """

    path: str
    kind: str
    name: str
    problem: str
    remedy: str


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
    charts: tuple[LintedChart, ...] = ()
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
    def class_chart(self) -> LintedChart | None:
        """The chart of the class."""
        return next((chart for chart in self.charts if not chart.addon), None)

    @property
    def addons(self) -> tuple[LintedChart, ...]:
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


def load_stack(tree: Mapping[str, bytes], directory: str, *, listed: bool = False) -> tuple[LintedStack, ...]:
    """Take a tree for a stack, once for each release that is built from it; what cannot be read is left to the rules.

    Args:
        tree: The files.
        directory: As the author named it.
        listed: Take the releases of stack.yaml and versions.yaml instead of that of csctl.yaml.
    """
    filled = {path: _filled(path, content) for path, content in tree.items()}
    try:
        releases = read_settings(tree, _first_patch(tree, listed=listed), listed=listed)
    except SpecError as error:
        return (LintedStack(directory, tree, None, error.message, charts=tuple(_charts(filled, None))),)
    return tuple(
        replace(_for(settings, directory, tree, filled), others=other_versions(releases, settings))
        for settings in releases
    )


def _first_patch(tree: Mapping[str, bytes], *, listed: bool) -> dict[KubernetesMinor, KubernetesVersion]:
    """Take the first patch where a stack leaves it to the day of the build: nothing here depends on it.

    Raises:
        SpecError: stack.yaml is wrong.
    """
    minor = open_minor(tree, listed=listed)
    return {minor: KubernetesVersion(minor.major, minor.minor, 0)} if minor else {}


def _for(
    settings: StackSettings, directory: str, tree: Mapping[str, bytes], filled: Mapping[str, bytes]
) -> LintedStack:
    problem = ""
    try:
        filled = with_addon_versions(filled, settings)
    except SpecError as error:
        problem = error.message
    return LintedStack(
        directory,
        tree,
        settings,
        name=settings.release(VERSION),
        charts=tuple(_charts(filled, settings)),
        pinning_problem=problem,
    )


def _filled(path: str, content: bytes) -> bytes:
    """Replace the tags of a file as a build does; one with an unknown tag stays as it is."""
    try:
        return fill_tags({path: content}, TAGS)[path]
    except SourceBroken:
        return content


def _charts(filled: Mapping[str, bytes], settings: StackSettings | None) -> Iterator[LintedChart]:
    staged = ADDON_CONFIG in filled
    for directory in chart_directories(filled):
        if f"{directory}{CHART_FILE}" not in filled:
            continue
        path = directory.removesuffix("/")
        if directory == CLASS_DIRECTORY:
            yield _versioned(LintedChart("", path, files_below(filled, directory), versioned=True), settings)
        elif staged:
            yield _addon(filled, path.rpartition("/")[2], path, f"{directory}{OVERWRITE}")
        else:
            chart = _addon(filled, SINGLE_ADDON, path, ADDON_VALUES)
            yield _versioned(replace(chart, versioned=True), None)


def _addon(filled: Mapping[str, bytes], addon: str, directory: str, values: str) -> LintedChart:
    files = files_below(filled, f"{directory}/")
    return (
        LintedChart(addon, directory, files, values, filled[values])
        if values in filled
        else LintedChart(addon, directory, files)
    )


def _versioned(chart: LintedChart, settings: StackSettings | None) -> LintedChart:
    """Set the version, and the name where the tool gives it, as a build does for charts that it packages whole."""
    values: dict[tuple[str | int, ...], str] = {("version",): VERSION.dot}
    if settings is not None and settings.sets_names:
        values["name",] = f"{settings.series}-cluster-class"
    try:
        forced = with_values(chart.content, values, name=chart.chart_file)
    except yaml.YamlError:
        return chart  # it does not render either, which says so better
    return chart if forced is None else replace(chart, files={**chart.files, CHART_FILE: forced})
