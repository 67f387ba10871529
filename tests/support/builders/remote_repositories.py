"""Repositories in registries that the ClusterStacks of a test use as their source."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from clusterstacks.net.http.allowlist import AllowedHosts
from clusterstacks.net.http.client import HTTPClient
from clusterstacks.net.oci.credentials import ANONYMOUS, RegistryCredentials
from clusterstacks.net.oci.manifests import OCI_MANIFEST
from clusterstacks.net.oci.reference import Reference
from clusterstacks.net.oci.registry import Registry
from clusterstacks.release.contents import read_contents
from clusterstacks.release.open import open_directory
from clusterstacks.release.release_source import EnvelopeKind
from clusterstacks.release.signing.statement import release_envelope
from clusterstacks.release.sources.oci_artifact import compose
from clusterstacks.release.sources.oci_publish import publish
from clusterstacks.release.sources.oci_signatures import attach
from tests.support.builders.stacks import publish as write

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.release.signing.keys import PrivateKey
    from clusterstacks.release.signing.stage_evidence import StageStatement
    from tests.support.running.world import World
    from tests.support.servers.registries import RegistryServer

EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True)
class Repository:
    """One repository.

    Args:
        registry: As whoever publishes sees it.
        root: Where releases are written before they are published.
    """

    registry: Registry
    root: Path

    @property
    def place(self) -> str:
        return self.registry.reference.place

    @property
    def allowed(self) -> AllowedHosts:
        return AllowedHosts.parse(self.place)

    def source(self, **more: Any) -> dict[str, Any]:
        """Return ``spec.source`` of a ClusterStack that follows the repository."""
        return {"oci": {"repository": self.place}, "interval": "1s", **more}

    async def publish(self, name: ReleaseName, files: Mapping[str, bytes]) -> None:
        await publish(write(self.root, name, files), self.registry, EPOCH)

    async def replace(self, name: ReleaseName, files: Mapping[str, bytes]) -> None:
        """Move the tag to another content, without the checks of csctl."""
        directory = write(self.root, name, files)
        artifact = compose(open_directory(directory), EPOCH)
        for file in artifact.files.values():
            await self.registry.push_blob(file)
        await self.registry.push_manifest(artifact.raw, OCI_MANIFEST, name.release)

    async def state(self, statement: StageStatement, key: PrivateKey) -> None:
        """Attach the statement of a stage to the release as it was published, whatever its tag has now."""
        files = read_contents(statement.release, self.root / statement.release.release).files
        envelope = statement.envelope(files).signed(key).text()
        await attach(self.registry, statement.release.release, envelope, EnvelopeKind.STAGES)

    async def sign(self, name: ReleaseName, key: PrivateKey) -> None:
        envelope = release_envelope(name, read_contents(name, self.root / name.release).files).signed(key)
        await attach(self.registry, name.release, envelope.text())


@asynccontextmanager
async def repository(world: World, server: RegistryServer) -> AsyncIterator[Repository]:
    """Return a repository for one test."""
    credentials = RegistryCredentials(server.username, server.password) if server.secure else ANONYMOUS
    async with HTTPClient(ca=server.ca, plain_http=not server.secure, environ={}) as web:
        reference = Reference(server.host, f"operator/{world.namespace}")
        registry = Registry(web, reference, credentials, plain_http=not server.secure)
        yield Repository(registry, world.releases.with_name("published"))
