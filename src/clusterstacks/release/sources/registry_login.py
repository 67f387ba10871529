"""Stores the credentials of a registry where docker and helm read them, after a check at the registry."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from clusterstacks.model.errors import SpecError
from clusterstacks.net.http.errors import CredentialsRefused, ServerUnavailable
from clusterstacks.net.oci.authorization import Authorization
from clusterstacks.net.oci.credential_helpers import erase_from_helper, store_in_helper
from clusterstacks.net.oci.credentials import DockerConfig, docker_config_file, entry_key, read_config_file
from clusterstacks.net.oci.session import registry_error, registry_url, speaks_plain_http
from clusterstacks.runtime.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from clusterstacks.net.http.client import HTTPClient
    from clusterstacks.net.oci.credentials import RegistryCredentials
    from clusterstacks.net.oci.reference import Reference

SECRET_MODE = 0o600

CHECK_DEADLINE = timedelta(minutes=1)
"""Longest check of credentials (arbitrary): a person waits, and a registry may accept connections without an answer."""


async def check_login(
    web: HTTPClient, reference: Reference, credentials: RegistryCredentials, *, plain_http: bool
) -> bool:
    """Send credentials to a registry, as 'docker login' does: without a repository.

    Return whether the registry requires credentials for this request. If not, it may accept wrong ones. Plain HTTP is
    detected for a registry on this machine.

    Raises:
        CredentialsRefused: The registry rejects the credentials.
        DependencyError: The registry fails, or does not answer within ``CHECK_DEADLINE``.
    """
    try:
        async with asyncio.timeout(CHECK_DEADLINE.total_seconds()):
            return await _check(web, reference, credentials, plain_http=plain_http)
    except TimeoutError:
        cause = f"no answer within {CHECK_DEADLINE.total_seconds():.0f} s; check its address, and try again"
        raise ServerUnavailable(reference.registry, cause) from None


async def _check(web: HTTPClient, reference: Reference, credentials: RegistryCredentials, *, plain_http: bool) -> bool:
    plain_http = plain_http or bool(await speaks_plain_http(web, reference.host))
    root = registry_url(reference.host, plain_http=plain_http)
    authorization = Authorization(web, root, credentials)
    try:
        async with web.open("GET", f"{root}/v2/") as answer:
            required = answer.status != 200
            challenges, error = answer.headers.getall("WWW-Authenticate", []), answer.error()
        if required and not await authorization.answer(challenges, "", {}):
            raise error
        headers = authorization.headers("") if required else {"Authorization": f"Basic {credentials.basic}"}
        async with web.open("GET", f"{root}/v2/", headers=headers) as answer:
            if answer.status != 200:
                raise await registry_error(answer)
    except CredentialsRefused as refused:
        raise CredentialsRefused(reference.registry, refused.status, credentials.described) from None
    return required


async def store_login(reference: Reference, credentials: RegistryCredentials, environ: Mapping[str, str]) -> str:
    """Store user name and password with the credential helper of the configuration, otherwise in its file.

    Return the place: the file, or the helper.

    Raises:
        SpecError: The file is not valid, or there is no home directory.
        DependencyError: The helper fails.
        OSError: The file cannot be written.
    """
    config = await _ConfigFile.read(environ)
    key, place = entry_key(reference), str(config.path)
    entry = {"auth": credentials.basic}
    if (helper := config.helper(reference)) is not None:
        await store_in_helper(*helper, credentials.username, credentials.password, environ)
        place, entry = f"docker-credential-{helper[0]}", {}  # as docker, which lists its logins in the file
    kept = {name: value for name, value in config.auths.items() if name not in config.parsed.entries(reference)}
    await config.write(kept | {key: entry})
    return place


async def remove_login(reference: Reference, environ: Mapping[str, str]) -> bool:
    """Remove the credentials of a registry from the file and its credential helper; return whether there were any.

    Raises as :func:`store_login`.
    """
    config = await _ConfigFile.read(environ)
    removed = config.parsed.entries(reference)
    erased = False
    if (helper := config.helper(reference)) is not None:
        erased = await erase_from_helper(*helper, environ)
    if removed:
        await config.write({name: value for name, value in config.auths.items() if name not in removed})
    return erased or bool(removed)


class _ConfigFile:
    """The configuration file of docker, of which only the logins change."""

    def __init__(self, path: Path, document: dict[str, Any], parsed: DockerConfig) -> None:
        self.path = path
        self.parsed = parsed
        self._document = document

    @classmethod
    async def read(cls, environ: Mapping[str, str]) -> _ConfigFile:
        path = docker_config_file(environ)
        if path is None:
            raise SpecError("NoHome", "there is no place for credentials: set DOCKER_CONFIG to a directory, or HOME")
        text = await asyncio.to_thread(read_config_file, path) or b"{}"
        parsed = DockerConfig.parse(text, str(path))
        document = json.loads(text)
        if parsed.auths and "auths" not in document:
            document = {"auths": document}  # the format before 2014
        return cls(path, document, parsed)

    @property
    def auths(self) -> dict[str, Any]:
        return self._document.get("auths") or {}

    def helper(self, reference: Reference) -> tuple[str, str] | None:
        return self.parsed.helper(reference) or self.parsed.general_helper(reference)

    async def write(self, auths: Mapping[str, Any]) -> None:
        content = json.dumps(self._document | {"auths": auths}, indent="\t", ensure_ascii=False) + "\n"
        await asyncio.to_thread(self._write, content.encode())

    def _write(self, content: bytes) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(self.path.resolve(), content, mode=SECRET_MODE)  # a link stays a link
