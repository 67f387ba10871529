"""A stack directory loaded for lint: its files, its charts, and later the results of rendering them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from clusterstacks.csctl.building.packaging import CLASS_DIRECTORY, chart_directories, files_below, other_versions
from clusterstacks.csctl.building.pinning import with_addon_versions
from clusterstacks.csctl.building.settings import open_minor, read_settings
from clusterstacks.csctl.building.source_tree import fill_tags
from clusterstacks.csctl.building.yaml_edit import with_values
from clusterstacks.model import yaml
from clusterstacks.model.errors import SpecError
from clusterstacks.model.versions import KubernetesVersion, StackVersion
from clusterstacks.release.charts.archive import LIMITS
from clusterstacks.release.charts.chart import CHART_FILE, OVERWRITE, read_chart
from clusterstacks.release.charts.errors import UnsafeArchive
from clusterstacks.release.charts.helmignore import chart_files
from clusterstacks.release.errors import SourceBroken
from clusterstacks.release.release import ADDON_CONFIG, ADDON_VALUES, SINGLE_ADDON

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from clusterstacks.csctl.building.settings import StackSettings
    from clusterstacks.deliver.render.protocol import HelmHook, RenderedDocument, Repetition
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from clusterstacks.model.versions import KubernetesMinor

_PLAIN = re.compile(r"charts/[^/]+/Chart\.yaml")
_PACKED = re.compile(r"charts/[^/]+\.tgz")


@dataclass(frozen=True, slots=True)
class LintedChart:
    """A chart of the stack, and the results of rendering it."""

    addon: str
    """The addon's name; empty for the class."""
    directory: str
    """The chart directory, relative to the stack."""
    files: Mapping[str, bytes] = field(repr=False)
    """Its files by path below the directory, with the content of the release."""
    values_path: str = ""
    """Path of its values template; empty if it has none."""
    values_template: bytes = field(default=b"", repr=False)
    versioned: bool = False
    """Whether a build sets the version of the release in Chart.yaml."""
    complete: Mapping[str, bytes] | None = field(default=None, repr=False)
    """Its files and all dependencies; None while a dependency is missing."""
    missing: str = ""
    """Why the dependencies could not be added."""
    unreachable: bool = False
    """Whether the cause is a failure of the network or of a server."""
    rendered: bool = False
    """Whether it rendered without failure."""
    documents: tuple[RenderedDocument, ...] = field(default=(), repr=False)
    repetitions: tuple[Repetition, ...] = ()
    """Duplicate keys in rendered mappings."""
    hooks: tuple[HelmHook, ...] = ()
    annotations: tuple[BrokenAnnotation, ...] = ()
    """Expressions in annotations that do not compile."""
    random: tuple[RenderedDocument, ...] = field(default=(), repr=False)
    """Objects that differ in each rendering."""
    failure: str = ""
    """Why the chart does not render."""
    values_failure: str = ""
    """Why its values template does not render."""

    @property
    def title(self) -> str:
        """Name of the chart in messages."""
        return f"addon {self.addon}" if self.addon else "the cluster class"

    @property
    def content(self) -> bytes:
        """Text of Chart.yaml, as a build writes it."""
        return self.files[CHART_FILE]

    @property
    def metadata(self) -> Manifest | None:
        """Chart.yaml as a mapping; None if it is broken, which rendering reports."""
        try:
            document = yaml.load(self.content, name=self.chart_file)
        except yaml.YamlError:
            return None
        return document if isinstance(document, dict) else None

    def wanted_kubernetes(self) -> Iterator[tuple[str, str]]:
        """Yield name and ``kubeVersion`` of the chart and of its direct dependencies that have one."""
        for metadata in (self.metadata or {}, *self.dependency_metadata()):
            if isinstance(wanted := metadata.get("kubeVersion"), str):
                yield str(metadata.get("name")), wanted

    def dependency_metadata(self) -> Iterator[Mapping[str, object]]:
        """Yield the Chart.yaml of each direct dependency that is in ``charts/``."""
        for path, content in (self.complete or self.files).items():
            if metadata := _metadata(path, content):
                yield metadata

    @property
    def chart_file(self) -> str:
        """Path of Chart.yaml in the stack."""
        return f"{self.directory}/{CHART_FILE}"

    def cause(self, message: str) -> str:
        """Remove the name of the chart from a message; findings name the file anyway."""
        return message.removeprefix(f"{self.title}: ").removeprefix(f"{self.directory}: ")

    def place(self, path: str) -> str:
        """Return the path in the stack of a file that Helm names; Chart.yaml for a file of a packed dependency."""
        below = path.partition("/")[2]
        return f"{self.directory}/{below}" if below in self.files else self.chart_file


def oversized(files: Mapping[str, bytes]) -> tuple[str, ...]:
    """Return the files above the operator's limit, or the largest file if only the whole chart is too large."""
    try:
        included = chart_files(files, "")
    except UnsafeArchive:
        included = dict(files)  # .helmignore is broken, which rendering reports
    if large := tuple(name for name, content in included.items() if len(content) > LIMITS.file_bytes):
        return large
    if sum(map(len, included.values())) > LIMITS.total_bytes:
        return (max(included, key=lambda name: len(included[name])),)
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
        return {}  # rendering reports it
    return document if isinstance(document, dict) else {}


VERSION: Final = StackVersion(0, "lint", "1")
"""The version that lint gives a stack; like a hash version it has two spellings (``v0-lint.1``, ``v0-lint-1``)."""

TAGS: Final = {"ClusterClassVersion": VERSION.dot, "ClusterAddonVersion": VERSION.dot, "NodeImageVersion": VERSION.dot}


@dataclass(frozen=True, slots=True)
class BrokenCondition:
    """A CEL expression of clusteraddon.yaml that does not compile; the problem includes the remedy."""

    path: tuple[str | int, ...]
    problem: str


@dataclass(frozen=True, slots=True)
class BrokenAnnotation:
    """A CEL expression in an annotation of a rendered object that does not compile; the problem includes the remedy."""

    document: RenderedDocument
    annotation: str
    problem: str


@dataclass(frozen=True, slots=True)
class ServerRefusal:
    """An object of the class that a management cluster rejects in a dry run; ``path`` is its file, as Helm names it."""

    path: str
    kind: str
    name: str
    problem: str
    remedy: str


@dataclass(frozen=True, slots=True)
class LintedStack:
    """A stack as it is built for one Kubernetes version."""

    directory: str
    """The path from the command line."""
    tree: Mapping[str, bytes] = field(repr=False)
    """Its files, unchanged."""
    settings: StackSettings | None
    """The release to build; None if the settings are broken."""
    settings_problem: str = ""
    name: ReleaseName | None = None
    """Name of the release, with the version that lint gives it."""
    charts: tuple[LintedChart, ...] = ()
    """The class chart, if it exists, then the charts of the addons."""
    conditions: tuple[BrokenCondition, ...] = ()
    """Expressions that do not compile."""
    pinning_problem: str = ""
    """Why the addon versions of stack.yaml or versions.yaml cannot be set."""
    refusals: tuple[ServerRefusal, ...] = ()
    """Objects that a management cluster rejects, after a dry run."""
    others: tuple[KubernetesVersion, ...] = ()
    """The other Kubernetes versions that the directory names."""
    version: StackVersion = VERSION
    """The version that lint gives the release, or that it has."""

    @property
    def staged(self) -> bool:
        """True if the addons have stages; then a values file of the single-chart layout has no effect."""
        return ADDON_CONFIG in self.tree

    @property
    def class_chart(self) -> LintedChart | None:
        """The chart of the class; None if the stack has none."""
        return next((chart for chart in self.charts if not chart.addon), None)

    @property
    def addons(self) -> tuple[LintedChart, ...]:
        """The charts of the addons, without that of the class."""
        return tuple(chart for chart in self.charts if chart.addon)

    def files(self) -> dict[str, bytes]:
        """Return every file of the stack; files of charts have the content of the release."""
        charts = {
            f"{chart.directory}/{path}": content for chart in self.charts for path, content in chart.files.items()
        }
        return {**self.tree, **charts}

    def content(self, path: str) -> bytes:
        """Return the content of a file; empty if it does not exist."""
        return self.tree.get(path, b"")

    def document(self, path: str) -> object:
        """Return a YAML file as a document; None if it does not exist or is not valid YAML."""
        try:
            return yaml.load(self.content(path), name=path)
        except yaml.YamlError:
            return None


def load_stack(
    tree: Mapping[str, bytes], directory: str, *, listed: bool = False, version: StackVersion = VERSION
) -> tuple[LintedStack, ...]:
    """Load a stack once for each release that is built from it; broken files are left to the rules.

    ``tree`` has the content of each file by its path. With ``listed``, the releases are those of stack.yaml and
    versions.yaml instead of the one of csctl.yaml.
    """
    filled = {path: _filled(path, content) for path, content in tree.items()}
    try:
        releases = read_settings(tree, _first_patch(tree, listed=listed), listed=listed)
    except SpecError as error:
        return (LintedStack(directory, tree, None, error.message, charts=tuple(_charts(filled, None, version))),)
    return tuple(
        replace(_for(settings, directory, tree, filled, version), others=other_versions(releases, settings))
        for settings in releases
    )


def _first_patch(tree: Mapping[str, bytes], *, listed: bool) -> dict[KubernetesMinor, KubernetesVersion]:
    """Return the first patch of a minor whose patch is chosen by the build: no rule depends on it."""
    minor = open_minor(tree, listed=listed)
    return {minor: KubernetesVersion(minor.major, minor.minor, 0)} if minor else {}


def _for(
    settings: StackSettings,
    directory: str,
    tree: Mapping[str, bytes],
    filled: Mapping[str, bytes],
    version: StackVersion,
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
        name=settings.release(version),
        charts=tuple(_charts(filled, settings, version)),
        pinning_problem=problem,
        version=version,
    )


def _filled(path: str, content: bytes) -> bytes:
    """Replace the tags of a file as a build does; a file with an unknown tag stays unchanged."""
    try:
        return fill_tags({path: content}, TAGS)[path]
    except SourceBroken:
        return content


def _charts(
    filled: Mapping[str, bytes], settings: StackSettings | None, version: StackVersion
) -> Iterator[LintedChart]:
    staged = ADDON_CONFIG in filled
    for directory in chart_directories(filled):
        if f"{directory}{CHART_FILE}" not in filled:
            continue
        path = directory.removesuffix("/")
        if directory == CLASS_DIRECTORY:
            yield _versioned(LintedChart("", path, files_below(filled, directory), versioned=True), settings, version)
        elif staged:
            yield _addon(filled, path.rpartition("/")[2], path, f"{directory}{OVERWRITE}")
        else:
            chart = _addon(filled, SINGLE_ADDON, path, ADDON_VALUES)
            yield _versioned(replace(chart, versioned=True), None, version)


def _addon(filled: Mapping[str, bytes], addon: str, directory: str, values: str) -> LintedChart:
    files = files_below(filled, f"{directory}/")
    return (
        LintedChart(addon, directory, files, values, filled[values])
        if values in filled
        else LintedChart(addon, directory, files)
    )


def _versioned(chart: LintedChart, settings: StackSettings | None, version: StackVersion) -> LintedChart:
    """Set the version, and the name if the build sets it, in Chart.yaml as a build does."""
    values: dict[tuple[str | int, ...], str] = {("version",): version.dot}
    if settings is not None and settings.sets_names:
        values["name",] = f"{settings.series}-cluster-class"
    try:
        forced = with_values(chart.content, values, name=chart.chart_file)
    except yaml.YamlError:
        return chart  # rendering reports it
    return chart if forced is None else replace(chart, files={**chart.files, CHART_FILE: forced})
