"""Finds Kubernetes versions in a class that a build for another version of the same directory does not replace."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from clusterstacks.building.packaging import CLASS_DIRECTORY, visible

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from clusterstacks.building.settings import StackSettings
    from clusterstacks.domain.versions import KubernetesVersion

_FILES: Final = (f"{CLASS_DIRECTORY}values.yaml", f"{CLASS_DIRECTORY}templates/")
"""Files of the class whose text reaches the cluster."""
_COMMENT: Final = re.compile(rb"(^|\s)#.*")


@dataclass(frozen=True, slots=True)
class LeftVersion:
    """A Kubernetes version in a file of the class that is not the one of the release.

    Args:
        path: The file in the stack directory.
        line: Its line, from 1.
        named: The version there.
        built: The version of the release.
    """

    path: str
    line: int
    named: KubernetesVersion
    built: KubernetesVersion

    @property
    def problem(self) -> str:
        """The problem, without the place."""
        return f"names Kubernetes {self.named}, and nothing replaces it in a release for {self.built}"

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return (
            "take the version from the Cluster (builtin.controlPlane.version in a patch of the class), "
            f"or keep {self.built.series} in a directory of its own"
        )


def other_versions(releases: Iterable[StackSettings], one: StackSettings) -> tuple[KubernetesVersion, ...]:
    """Return the Kubernetes versions that the directory of a release names besides that of the release."""
    named = {version for each in releases for version in (each.kubernetes, each.unlisted) if version is not None}
    return tuple(sorted(named - {one.kubernetes}))


def left_version(
    tree: Mapping[str, bytes], built: KubernetesVersion, others: Collection[KubernetesVersion]
) -> LeftVersion | None:
    """Return the first version of others in the class; None where there is none.

    A file that names the version of the release as well is taken for a table of versions.

    Raises:
        SpecError: .helmignore of a chart is wrong.
    """
    for path, content in sorted(visible(tree).items() if others else ()):
        if not path.startswith(_FILES) or _line_of(built, content):
            continue
        for other in others:
            if line := _line_of(other, content):
                return LeftVersion(path, line, other, built)
    return None


def _line_of(version: KubernetesVersion, content: bytes) -> int:
    """Return the first line that names a version outside of comments; 0 where there is none."""
    named = re.compile(rb"(?<![0-9.])" + re.escape(version.text.removeprefix("v")).encode() + rb"(?![0-9]|\.[0-9])")
    for number, line in enumerate(content.splitlines(), start=1):
        if named.search(_COMMENT.sub(b"", line)):
            return number
    return 0
