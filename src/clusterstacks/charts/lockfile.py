"""Chart dependencies that were resolved once and are kept, exactly those, from then on."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from clusterstacks.charts.requirements import CHARTS, ChartIdentity, ChartInvalid, ChartRequirement
from clusterstacks.domain.documents import Node
from clusterstacks.domain.semver import SemVer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

RESOLVED = "resolved.json"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,249}")


@dataclass(frozen=True, slots=True, order=True)
class Resolved:
    """One chart that another one depends on, found.

    Args:
        chart: The chart that depends on it, as the caller labels it: ``cluster-class``, ``cluster-addon/cni``.
        name: Its name.
        version: Its version, as its repository writes it.
        repository: Where it was found, as the chart writes it.
        digest: ``sha256:<hex>`` of its archive.
    """

    chart: str
    name: str
    version: str
    repository: str
    digest: str

    @classmethod
    def parse(cls, node: Node) -> Resolved:
        """Read what :meth:`document` wrote.

        Raises:
            SpecError: A field is missing or wrong.
        """
        version, digest, name = node.child("version"), node.child("digest"), node.child("name")
        SemVer.parse(version.value)
        if not _NAME.fullmatch(name.text()):
            raise name.refuse("write the name of a chart")
        if not _DIGEST.fullmatch(digest.text()):
            raise digest.refuse("write sha256: and 64 hex digits")
        repository = node.child("repository").text()
        return cls(node.child("chart").text(), name.text(), version.text(), repository, digest.text())

    def document(self) -> dict[str, str]:
        """Return it as JSON and YAML hold it."""
        return asdict(self)

    @property
    def path(self) -> str:
        """Where its archive lies in the chart that depends on it; the name ``helm dependency build`` gives it."""
        return f"{CHARTS}{self.name}-{self.version}.tgz"

    def fulfils(self, label: str, requirement: ChartRequirement) -> bool:
        """Tell whether it is what the chart of that label asks for; a lock file of the chart does not count."""
        same_place = (self.chart, self.repository) == (label, requirement.repository)
        return same_place and requirement.fits(ChartIdentity(self.name, self.version))

    def __str__(self) -> str:
        return f"{self.name} {self.version} of {self.repository}"


def pin_of(label: str, requirement: ChartRequirement, pinned: Iterable[Resolved]) -> Resolved | None:
    """Return what a requirement of a chart was resolved to before; None when that is not known.

    One chart may ask for the same chart twice, under two aliases and with different versions: then what would be
    chosen today counts, the exact version named, else the newest.
    """
    known = [pin for pin in pinned if pin.fulfils(label, requirement)]
    exact = [pin for pin in known if pin.version == requirement.exact]
    return max(exact or known, key=lambda pin: SemVer.parse(pin.version), default=None)


@dataclass(frozen=True, slots=True)
class VendoredCharts:
    """The archives of resolved charts, in one directory of the release store.

    Args:
        root: The directory; None when there are none.
        resolved: What is in it.
    """

    root: Path | None = None
    resolved: tuple[Resolved, ...] = ()

    def files(self, label: str) -> dict[str, bytes]:
        """Read the archives that belong into the chart of a label, each under its path there.

        Raises:
            OSError: One cannot be read.
            ValueError: One is not what was resolved.
        """
        found: dict[str, bytes] = {}
        for resolved in self.resolved:
            if self.root is not None and resolved.chart == label:
                content = (self.root / archive_name(resolved.digest)).read_bytes()
                if f"sha256:{sha256(content).hexdigest()}" != resolved.digest:
                    raise ValueError(resolved.digest)
                found[resolved.path] = content
        return found

    def labels(self) -> frozenset[str]:
        """Name the charts that get any."""
        return frozenset(resolved.chart for resolved in self.resolved)


NOTHING_VENDORED = VendoredCharts()


def archive_name(digest: str) -> str:
    """Name the file that holds the archive of a digest."""
    return f"{digest.replace(':', '-')}.tgz"


def fingerprint(resolved: Iterable[Resolved]) -> str:
    """Return the digest, in hex, that identifies a set of resolved charts."""
    return sha256(_dump(resolved)).hexdigest()


def write_vendored(root: Path, resolved: Iterable[Resolved], archives: Mapping[str, bytes]) -> None:
    """Write resolved charts and their archives into an empty directory.

    Args:
        root: The directory.
        resolved: What was resolved.
        archives: The archives by digest.

    Raises:
        OSError: The disk refuses.
    """
    (root / RESOLVED).write_bytes(_dump(resolved))
    for digest, content in archives.items():
        (root / archive_name(digest)).write_bytes(content)


def read_vendored(root: Path, expected: str) -> VendoredCharts | None:
    """Read a directory :func:`write_vendored` filled; None when anything in it is missing or changed.

    Args:
        root: The directory.
        expected: The fingerprint of what it should hold.
    """
    try:
        document = Node(json.loads((root / RESOLVED).read_bytes()), RESOLVED, error=ChartInvalid)
        vendored = VendoredCharts(root, tuple(Resolved.parse(node) for node in document.items()))
        for label in vendored.labels():
            vendored.files(label)
    except (OSError, ValueError, RecursionError, ChartInvalid):
        return None
    return vendored if fingerprint(vendored.resolved) == expected else None


def _dump(resolved: Iterable[Resolved]) -> bytes:
    return json.dumps([one.document() for one in sorted(resolved)], sort_keys=True, separators=(",", ":")).encode()
