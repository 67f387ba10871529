"""Which repository csctl uses, by the environment variables of the Go tools (FORMATS section 10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.domain.documents import shown
from clusterstacks.domain.errors import SpecError
from clusterstacks.sources.github.assets import GitHubSource
from clusterstacks.sources.github.rest_api import API

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.http.client import Web


def from_environment(environ: Mapping[str, str], web: Web) -> GitHubSource:
    """Make the source that the environment names.

    ``GIT_PROVIDER`` must be ``github``; ``GIT_ORG_NAME`` and ``GIT_REPOSITORY_NAME`` name the repository,
    ``GIT_ACCESS_TOKEN`` may hold a token. ``GIT_API_URL``, which the Go tools do not know, names the API of an
    Enterprise Server.

    Raises:
        SpecError: A variable is missing or wrong.
    """
    provider = environ.get("GIT_PROVIDER", "")
    if provider != "github":
        raise SpecError("GitProviderUnknown", f"GIT_PROVIDER is {shown(provider)}: set it to github, there is no other")
    missing = [variable for variable in ("GIT_ORG_NAME", "GIT_REPOSITORY_NAME") if not environ.get(variable)]
    if missing:
        raise SpecError(
            "RepositoryUnnamed", f"set {' and '.join(missing)} to name the GitHub repository of the releases"
        )
    return GitHubSource(
        web,
        environ["GIT_ORG_NAME"],
        environ["GIT_REPOSITORY_NAME"],
        token=environ.get("GIT_ACCESS_TOKEN", "").strip(),
        api=environ.get("GIT_API_URL") or API,
    )
