"""Which credentials are for a registry: environment, configuration files, credential helpers, Secrets."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.domain.documents import shown
from clusterstacks.oci import credential_helpers
from clusterstacks.oci.docker_config import ANONYMOUS, MAX_CONFIG_BYTES, DockerConfig, RegistryCredentials, from_helper
from clusterstacks.oci.errors import DockerConfigInvalid

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from clusterstacks.oci.reference import Reference


async def find(reference: Reference, environ: Mapping[str, str]) -> RegistryCredentials:
    """Find the credentials for a repository, of who runs this program.

    In this order: ``OCI_ACCESS_TOKEN``, or ``OCI_USERNAME`` and ``OCI_PASSWORD``, for the registry ``OCI_REGISTRY``
    names and no other; the files ``REGISTRY_AUTH_FILE``, ``$DOCKER_CONFIG/config.json`` (``~/.docker`` without the
    variable) and ``$XDG_RUNTIME_DIR/containers/auth.json`` with the helpers they name. Nobody's when none has any.

    Raises:
        SpecError: A file is broken.
        DependencyError: A helper fails.
    """
    found = _from_variables(reference, environ)
    if found is not None:
        return found
    reasons = [*_unused_variables(reference, environ)]
    for path in _files(environ):
        config = await asyncio.to_thread(_read, path)
        if config is None:
            continue
        if (found := await _from_config(config, reference, environ)) is not None:
            return found
        reasons.append(f"{path} has none for {reference.registry}")
    return replace(ANONYMOUS, origin="; ".join(reasons) or "no variable and no configuration file has any")


def from_docker_config(
    text: str | bytes, reference: Reference, *, file: str = ".dockerconfigjson"
) -> RegistryCredentials:
    """Return what a Secret of type ``kubernetes.io/dockerconfigjson`` holds for a repository; runs no helper.

    Args:
        text: The Secret's value.
        reference: The repository.
        file: How messages call it.

    Raises:
        DockerConfigInvalid: It is no such text.
    """
    nothing = replace(ANONYMOUS, origin=f"{file} has none for {reference.registry}")
    return DockerConfig.parse(text, file).stored(reference) or nothing


def _from_variables(reference: Reference, environ: Mapping[str, str]) -> RegistryCredentials | None:
    # Without OCI_REGISTRY they could go to whatever host a reference names.
    if _registry_of(environ) != reference.registry:
        return None
    if token := environ.get("OCI_ACCESS_TOKEN"):
        return RegistryCredentials(token=base64.b64encode(token.encode()).decode(), origin="OCI_ACCESS_TOKEN")
    if username := environ.get("OCI_USERNAME"):
        password = environ.get("OCI_PASSWORD", "")
        origin = "OCI_USERNAME and OCI_PASSWORD" if password else "OCI_USERNAME, but OCI_PASSWORD is not set"
        return RegistryCredentials(username, password, origin=origin)
    return None


def _registry_of(environ: Mapping[str, str]) -> str:
    return environ.get("OCI_REGISTRY", "").strip().removeprefix("oci://").rstrip("/")


def _unused_variables(reference: Reference, environ: Mapping[str, str]) -> Iterator[str]:
    """Say why variables with credentials were not used."""
    given = [name for name in ("OCI_ACCESS_TOKEN", "OCI_USERNAME", "OCI_PASSWORD") if environ.get(name)]
    if not given:
        return
    which = f"{' and '.join(given)} {'are' if len(given) > 1 else 'is'} set"
    named = _registry_of(environ)
    if not named:
        yield f"{which}, but OCI_REGISTRY is not"
    elif named != reference.registry:
        yield f"{which}, but OCI_REGISTRY names {shown(named)} and not {reference.registry}"
    else:
        yield f"{which}, but OCI_USERNAME is not"


def _files(environ: Mapping[str, str]) -> Iterator[Path]:
    if named := environ.get("REGISTRY_AUTH_FILE"):
        yield Path(named)
    if directory := environ.get("DOCKER_CONFIG"):
        yield Path(directory, "config.json")
    elif home := environ.get("HOME"):
        yield Path(home, ".docker", "config.json")
    if directory := environ.get("XDG_RUNTIME_DIR"):
        yield Path(directory, "containers", "auth.json")


def _read(path: Path) -> DockerConfig | None:
    try:
        with path.open("rb") as file:
            text = file.read(MAX_CONFIG_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DockerConfigInvalid(path, f"cannot be read ({error.strerror})") from None
    if len(text) > MAX_CONFIG_BYTES:
        raise DockerConfigInvalid(path, f"is larger than {MAX_CONFIG_BYTES} bytes")
    return DockerConfig.parse(text, str(path))


async def _from_config(
    config: DockerConfig, reference: Reference, environ: Mapping[str, str]
) -> RegistryCredentials | None:
    named = config.helper(reference)
    if named is None and (found := config.stored(reference)) is not None:
        return found
    named = named or config.general_helper(reference)
    answer = await credential_helpers.ask(*named, environ) if named is not None else None
    if named is None or answer is None:
        return None
    return from_helper(*answer, f"the helper docker-credential-{named[0]}, which {config.file} names")
