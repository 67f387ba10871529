"""Stores resolved chart dependencies (``resolved.json``) and their archives, so that later renders use the same."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from clusterstacks.model.digests import sha256_digest
from clusterstacks.model.documents import Node
from clusterstacks.model.semver import SemVer
from clusterstacks.release.charts.dependencies import CHARTS, ChartIdentity, ChartInvalid, ChartRequirement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

RESOLVED = "resolved.json"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,249}")


@dataclass(frozen=True, slots=True, order=True)
class ResolvedChart:
    """A chart dependency with the version and archive that were chosen for it."""

    chart: str
    """The label of the chart that has the dependency: ``cluster-class``, ``cluster-addon/cni``."""
    name: str
    version: str  # as its repository writes it
    repository: str  # as the chart writes it
    digest: str
    """``sha256:<hex>`` of its archive."""

    @classmethod
    def parse(cls, node: Node) -> ResolvedChart:
        """Read the output of :meth:`document`."""
        version, digest, name = node.child("version"), node.child("digest"), node.child("name")
        SemVer.parse(version.value)
        if not _NAME.fullmatch(name.text()):
            raise name.refuse("expected the name of a chart")
        if not _DIGEST.fullmatch(digest.text()):
            raise digest.refuse("expected sha256: and 64 hex digits")
        repository = node.child("repository").text()
        return cls(node.child("chart").text(), name.text(), version.text(), repository, digest.text())

    def document(self) -> dict[str, str]:
        """Return the fields for JSON and YAML, as :meth:`parse` reads them."""
        return asdict(self)

    @property
    def path(self) -> str:
        """The path of its archive in the chart that has the dependency, as ``helm dependency build`` names it."""
        return f"{CHARTS}{self.name}-{self.version}.tgz"

    def fulfils(self, label: str, requirement: ChartRequirement) -> bool:
        """Report whether it fulfils a requirement of the chart with this label, regardless of a lock file."""
        same_chart = (self.chart, self.repository) == (label, requirement.repository)
        return same_chart and requirement.fits(ChartIdentity(self.name, self.version))

    def __str__(self) -> str:
        return f"{self.name} {self.version} of {self.repository}"


def pin_of(label: str, requirement: ChartRequirement, pinned: Iterable[ResolvedChart]) -> ResolvedChart | None:
    """Return the earlier resolution of a requirement; None if there is none.

    A chart may require the same chart twice, with two aliases and different versions. Then the result is the version
    that would be chosen today: the exact version of the requirement, otherwise the newest.
    """
    known = [pin for pin in pinned if pin.fulfils(label, requirement)]
    exact = [pin for pin in known if pin.version == requirement.exact]
    return max(exact or known, key=lambda pin: SemVer.parse(pin.version), default=None)


@dataclass(frozen=True, slots=True)
class VendoredCharts:
    """The archives of resolved charts in a directory of the release store; ``root`` is None without archives."""

    root: Path | None = None
    resolved: tuple[ResolvedChart, ...] = ()

    def files(self, label: str) -> dict[str, bytes]:
        """Read the archives for the chart with a label, by their paths in that chart.

        Raises:
            OSError: An archive cannot be read.
            ValueError: The digest of an archive is wrong.
        """
        archives: dict[str, bytes] = {}
        for resolved in self.resolved:
            if self.root is not None and resolved.chart == label:
                content = (self.root / archive_name(resolved.digest)).read_bytes()
                if sha256_digest(content) != resolved.digest:
                    raise ValueError(resolved.digest)
                archives[resolved.path] = content
        return archives

    def labels(self) -> frozenset[str]:
        """Return the labels of the charts that get archives."""
        return frozenset(resolved.chart for resolved in self.resolved)


NOTHING_VENDORED = VendoredCharts()


def archive_name(digest: str) -> str:
    """Return the file name of the archive with a digest: a colon is not allowed on every file system."""
    return f"{digest.replace(':', '-')}.tgz"


def fingerprint(resolved: Iterable[ResolvedChart]) -> str:
    """Return the digest, in hex, of a set of resolved charts."""
    return sha256(_dump(resolved)).hexdigest()


def write_vendored(root: Path, resolved: Iterable[ResolvedChart], archives: Mapping[str, bytes]) -> None:
    """Write resolved charts and their archives (by digest) into an empty directory."""
    (root / RESOLVED).write_bytes(_dump(resolved))
    for digest, content in archives.items():
        (root / archive_name(digest)).write_bytes(content)


def read_vendored(root: Path, expected: str) -> VendoredCharts | None:
    """Read the output of :func:`write_vendored`; None if anything is missing or changed."""
    try:
        document = Node(json.loads((root / RESOLVED).read_bytes()), RESOLVED, error=ChartInvalid)
        vendored = VendoredCharts(root, tuple(ResolvedChart.parse(node) for node in document.items()))
        for label in vendored.labels():
            vendored.files(label)
    except (OSError, ValueError, RecursionError, ChartInvalid):
        return None
    return vendored if fingerprint(vendored.resolved) == expected else None


def _dump(resolved: Iterable[ResolvedChart]) -> bytes:
    return json.dumps([chart.document() for chart in sorted(resolved)], sort_keys=True, separators=(",", ":")).encode()
