"""Credentials of a registry: variables, configuration files of docker and podman, and Secrets."""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clusterstacks.model.documents import shown
from clusterstacks.net.oci.credential_helpers import ask_helper
from clusterstacks.net.oci.errors import docker_config_invalid

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from clusterstacks.net.oci.reference import Reference

MAX_CONFIG_BYTES = 1024 * 1024
"""Largest file read (arbitrary; Kubernetes' limit of a Secret)."""

_HUB_KEYS = ("https://index.docker.io/v1/", "index.docker.io", "docker.io")
_TOKEN_USER = "<token>"  # noqa: S105 - no secret: a helper's user name that says the secret is an identity token


@dataclass(frozen=True, slots=True)
class RegistryCredentials:
    """Credentials for a registry; all fields are empty for anonymous access.

    User name and password are for Basic, and to request a token. ``token`` is a bearer token for the registry,
    ``identity`` a refresh token that requests such tokens. ``origin`` names a variable, a file or a helper in messages;
    for anonymous access, it says why there are none.
    """

    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    identity: str = field(default="", repr=False)
    origin: str = field(default="", compare=False)

    @property
    def basic(self) -> str:
        """The value after ``Basic`` in an Authorization header."""
        return base64.b64encode(f"{self.username}:{self.password}".encode()).decode()

    @property
    def described(self) -> str:
        """A description without secrets: whether credentials were sent, and their origin."""
        if self == ANONYMOUS:
            return f"no credentials were sent: {self.origin}" if self.origin else "no credentials were sent"
        return f"credentials were sent: {self.origin}" if self.origin else "credentials were sent"


ANONYMOUS = RegistryCredentials()


@dataclass(frozen=True, slots=True)
class DockerConfig:
    """A configuration file of docker or podman."""

    file: str
    auths: Mapping[str, Mapping[str, Any]] = field(repr=False)
    """Entries by registry."""
    helpers: Mapping[str, str]
    """Credential helpers by registry."""
    store: str = ""
    """Helper for all other registries; empty for none."""

    @classmethod
    def parse(cls, text: str | bytes, file: str) -> DockerConfig:
        """Parse a file, also in the format before 2014, a plain map of registries; raise SpecError if not valid."""
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            raise docker_config_invalid(file, "is no JSON") from None
        if not isinstance(document, dict):
            raise docker_config_invalid(file, "is not a JSON object")
        known = any(key in document for key in ("auths", "credHelpers", "credsStore"))
        auths = _mapping(document, "auths", file) if known else document
        helpers = _mapping(document, "credHelpers", file)
        store = document.get("credsStore") or ""
        if not isinstance(store, str) or not all(isinstance(helper, str) for helper in helpers.values()):
            raise docker_config_invalid(file, "names a credential helper that is not a string")
        return cls(file, {key: entry for key, entry in auths.items() if isinstance(entry, dict)}, helpers, store)

    def stored(self, reference: Reference) -> RegistryCredentials | None:
        """Return the credentials in the file for a repository; None without any. An invalid entry is a SpecError."""
        hosts = {_host_of(key): entry for key, entry in self.auths.items()}
        for key in _keys(reference):
            entry = self.auths.get(key) or hosts.get(key)
            if entry and (credentials := self._entry(key, entry)) is not None:
                return credentials
        return None

    def helper(self, reference: Reference) -> tuple[str, str] | None:
        """Return the helper for this registry, and the registry's name for it."""
        for key in _host_keys(reference.registry):
            if key in self.helpers:
                return self.helpers[key], key
        return None

    def entries(self, reference: Reference) -> tuple[str, ...]:
        """Return the keys of the entries for the whole registry, also in the form of old URLs."""
        hosts = _host_keys(reference.registry)
        return tuple(key for key in self.auths if key in hosts or _host_of(key) in hosts)

    def general_helper(self, reference: Reference) -> tuple[str, str] | None:
        """Return the helper for all registries, and the registry's name for it."""
        return (self.store, _host_keys(reference.registry)[0]) if self.store else None

    def _entry(self, key: str, entry: Mapping[str, Any]) -> RegistryCredentials | None:
        username, password = entry.get("username") or "", entry.get("password") or ""
        auth, identity = entry.get("auth") or "", entry.get("identitytoken") or ""
        token = entry.get("registrytoken") or ""
        words = (username, password, auth, identity, token)
        if not all(isinstance(word, str) and word.isprintable() for word in words):
            raise docker_config_invalid(self.file, f"contains a value for {key} that is not a single-line string")
        if auth:
            try:
                username, _, password = base64.b64decode(auth, validate=True).decode().partition(":")
            except ValueError:
                raise docker_config_invalid(self.file, f"contains an 'auth' for {key} that is not base64") from None
            password = password.rstrip("\0")
        credentials = RegistryCredentials(username, password, token, identity, f"{self.file} (entry {key})")
        return None if credentials == ANONYMOUS else credentials


def from_helper(username: str, secret: str, origin: str = "") -> RegistryCredentials:
    """Return the credentials in a helper's answer; the user name may mark the secret as an identity token."""
    if username == _TOKEN_USER:
        return RegistryCredentials(identity=secret, origin=origin)
    return RegistryCredentials(username, secret, origin=origin)


def _mapping(document: Mapping[str, Any], key: str, file: str) -> Mapping[str, Any]:
    value = document.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise docker_config_invalid(file, f"has a {key} that is not a JSON object")
    return value


def _keys(reference: Reference) -> Iterator[str]:
    """Return the keys for a repository's credentials, the longest path first, as podman does."""
    parts = reference.repository.split("/")
    for length in range(len(parts), 0, -1):
        yield "/".join((reference.registry, *parts[:length]))
    yield from _host_keys(reference.registry)


def entry_key(reference: Reference) -> str:
    """Return the key under which docker stores the credentials of a registry."""
    return _host_keys(reference.registry)[0]


def _host_keys(registry: str) -> tuple[str, ...]:
    return _HUB_KEYS if registry in _HUB_KEYS else (registry,)


def _host_of(key: str) -> str:
    """Old entries are URLs: ``https://host/v1/``."""
    if "://" not in key:
        return key.rstrip("/")
    return key.partition("://")[2].partition("/")[0]


async def find_credentials(reference: Reference, environ: Mapping[str, str]) -> RegistryCredentials:
    """Find the current user's credentials for a repository.

    In this order: ``OCI_ACCESS_TOKEN``, or ``OCI_USERNAME`` and ``OCI_PASSWORD``, for the registry ``OCI_REGISTRY``
    names and no other; the files ``REGISTRY_AUTH_FILE``, ``$DOCKER_CONFIG/config.json`` (``~/.docker`` without the
    variable) and ``$XDG_RUNTIME_DIR/containers/auth.json`` with the helpers they name. Anonymous when none has any.
    Raises SpecError if a file is not valid, and DependencyError if a helper fails.
    """
    credentials = _from_variables(reference, environ)
    if credentials is not None:
        return credentials
    reasons = [*_unused_variables(reference, environ)]
    for path in _files(environ):
        config = await asyncio.to_thread(_read, path)
        if config is None:
            continue
        if (credentials := await _from_config(config, reference, environ)) is not None:
            return credentials
        reasons.append(f"{path} has none for {reference.registry}")
    return replace(ANONYMOUS, origin="; ".join(reasons) or "neither a variable nor a configuration file has any")


def from_docker_config(
    text: str | bytes, reference: Reference, *, file: str = ".dockerconfigjson"
) -> RegistryCredentials:
    """Return the credentials for a repository in a Secret of type ``kubernetes.io/dockerconfigjson``; runs no helper.

    ``file`` names the value in messages. Raises SpecError if it is not valid.
    """
    nothing = replace(ANONYMOUS, origin=f"{file} has none for {reference.registry}")
    return DockerConfig.parse(text, file).stored(reference) or nothing


def _from_variables(reference: Reference, environ: Mapping[str, str]) -> RegistryCredentials | None:
    # Without OCI_REGISTRY they could be sent to any host that a reference names.
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
    """Describe why variables with credentials were not used."""
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
    if (docker := docker_config_file(environ)) is not None:
        yield docker
    if directory := environ.get("XDG_RUNTIME_DIR"):
        yield Path(directory, "containers", "auth.json")


def docker_config_file(environ: Mapping[str, str]) -> Path | None:
    """Return the file that docker reads and writes; None without a home directory."""
    if directory := environ.get("DOCKER_CONFIG"):
        return Path(directory, "config.json")
    return Path(home, ".docker", "config.json") if (home := environ.get("HOME")) else None


def read_config_file(path: Path) -> bytes | None:
    """Read a configuration file; None if there is none, SpecError if it cannot be read or is too large."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_CONFIG_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise docker_config_invalid(path, f"cannot be read ({error.strerror})") from None
    if len(text) > MAX_CONFIG_BYTES:
        raise docker_config_invalid(path, f"is larger than {MAX_CONFIG_BYTES} bytes")
    return text


def _read(path: Path) -> DockerConfig | None:
    text = read_config_file(path)
    return None if text is None else DockerConfig.parse(text, str(path))


async def _from_config(
    config: DockerConfig, reference: Reference, environ: Mapping[str, str]
) -> RegistryCredentials | None:
    named = config.helper(reference)
    if named is None and (credentials := config.stored(reference)) is not None:
        return credentials
    named = named or config.general_helper(reference)
    answer = await ask_helper(*named, environ) if named is not None else None
    if named is None or answer is None:
        return None
    return from_helper(*answer, f"the helper docker-credential-{named[0]}, which {config.file} names")
