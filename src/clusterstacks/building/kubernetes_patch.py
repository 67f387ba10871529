"""The newest patch of a Kubernetes minor, for stacks that name the minor only (stack.yaml)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from clusterstacks.domain.errors import DependencyError
from clusterstacks.domain.versions import InvalidVersion, KubernetesMinor, KubernetesVersion
from clusterstacks.http.errors import SourceUnavailable

if TYPE_CHECKING:
    from clusterstacks.http.client import Web

STABLE_VERSIONS: Final = "https://dl.k8s.io/release/"
"""Where Kubernetes says which patch of a minor is the newest (kubernetes.io/releases/download)."""

_MAX_BYTES: Final = 100


async def newest_patch(web: Web, minor: KubernetesMinor, base: str = STABLE_VERSIONS) -> KubernetesVersion:
    """Ask the Kubernetes project.

    Raises:
        DependencyError: It does not answer, or with something else.
    """
    url = f"{base}stable-{minor}.txt"
    way_out = f"write the patch of {minor} into stack.yaml, or try again"
    try:
        answer = await web.read(url, limit=_MAX_BYTES)
        version = KubernetesVersion.parse(answer.body.decode(errors="replace").strip())
    except (InvalidVersion, DependencyError) as error:
        raise SourceUnavailable(url, f"{error.message}; {way_out}") from None
    if version.series != minor:
        raise SourceUnavailable(url, f"it answers {version}; {way_out}")
    return version
