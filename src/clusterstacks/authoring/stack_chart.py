"""One chart of a stack directory, as lint looks at it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clusterstacks.api import yaml
from clusterstacks.charts.archive import LIMITS
from clusterstacks.charts.chart import CHART_FILE, read_chart
from clusterstacks.charts.errors import UnsafeArchive
from clusterstacks.charts.helmignore import chart_files
from clusterstacks.domain.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from clusterstacks.domain.objects import Manifest
    from clusterstacks.render.examination import HelmHook, RenderedDocument, Repetition

_PLAIN = re.compile(r"charts/[^/]+/Chart\.yaml")
_PACKED = re.compile(r"charts/[^/]+\.tgz")


@dataclass(frozen=True, slots=True)
class Chart:
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
