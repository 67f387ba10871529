"""Credentials as docker, podman and Kubernetes keep them: ``config.json``, ``auth.json``, ``.dockerconfigjson``."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from clusterstacks.oci.errors import DockerConfigInvalid

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from clusterstacks.oci.reference import Reference

MAX_CONFIG_BYTES = 1024 * 1024
"""Largest file read (arbitrary; Kubernetes' limit of a Secret)."""

_HUB_KEYS = ("https://index.docker.io/v1/", "index.docker.io", "docker.io")
_TOKEN_USER = "<token>"  # noqa: S105 - no secret: a helper's user name that says the secret is an identity token


@dataclass(frozen=True, slots=True)
class RegistryCredentials:
    """Who asks a registry; all empty for nobody.

    Args:
        username: For Basic, and to get a token with.
        password: Likewise.
        token: A bearer token for the registry itself, used as it is.
        identity: A refresh token, to get tokens with instead of user name and password.
        origin: Where they are from, for messages: a variable, a file, a helper; of nobody's, why there are none.
    """

    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    identity: str = field(default="", repr=False)
    origin: str = field(default="", compare=False)

    @property
    def basic(self) -> str:
        """What stands behind ``Basic`` in an Authorization header."""
        return base64.b64encode(f"{self.username}:{self.password}".encode()).decode()

    @property
    def described(self) -> str:
        """Whether there are any, and where they are from; nothing of what is secret."""
        if self == ANONYMOUS:
            return f"no credentials were sent: {self.origin}" if self.origin else "no credentials were sent"
        return f"sent were the credentials of {self.origin}" if self.origin else "credentials were sent"


ANONYMOUS = RegistryCredentials()


@dataclass(frozen=True, slots=True)
class DockerConfig:
    """One such file.

    Args:
        file: How messages call it.
        auths: What it holds for each registry.
        helpers: Which helper keeps those of each registry.
        store: The helper that keeps all others; empty for none.
    """

    file: str
    auths: Mapping[str, Mapping[str, Any]] = field(repr=False)
    helpers: Mapping[str, str]
    store: str = ""

    @classmethod
    def parse(cls, text: str | bytes, file: str) -> DockerConfig:
        """Read the JSON text of a file; the format before 2014, a plain map of registries, is read too.

        Raises:
            DockerConfigInvalid: It has another shape.
        """
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            raise DockerConfigInvalid(file, "is no JSON") from None
        if not isinstance(document, dict):
            raise DockerConfigInvalid(file, "is no JSON object")
        known = any(key in document for key in ("auths", "credHelpers", "credsStore"))
        auths = _mapping(document, "auths", file) if known else document
        helpers = _mapping(document, "credHelpers", file)
        store = document.get("credsStore") or ""
        if not isinstance(store, str) or not all(isinstance(helper, str) for helper in helpers.values()):
            raise DockerConfigInvalid(file, "names a credential helper that is no text")
        return cls(file, {key: entry for key, entry in auths.items() if isinstance(entry, dict)}, helpers, store)

    def stored(self, reference: Reference) -> RegistryCredentials | None:
        """Return what the file itself holds for a repository; None when that is nothing.

        Raises:
            DockerConfigInvalid: What it holds cannot be read.
        """
        hosts = {_host_of(key): entry for key, entry in self.auths.items()}
        for key in _keys(reference):
            entry = self.auths.get(key) or hosts.get(key)
            if entry and (found := self._entry(key, entry)) is not None:
                return found
        return None

    def helper(self, reference: Reference) -> tuple[str, str] | None:
        """Return the helper that keeps this registry's credentials, and how it calls the registry."""
        for key in _host_keys(reference.registry):
            if key in self.helpers:
                return self.helpers[key], key
        return None

    def general_helper(self, reference: Reference) -> tuple[str, str] | None:
        """Return the helper that may keep credentials of any registry, and how it calls this one."""
        return (self.store, _host_keys(reference.registry)[0]) if self.store else None

    def _entry(self, key: str, entry: Mapping[str, Any]) -> RegistryCredentials | None:
        username, password = entry.get("username") or "", entry.get("password") or ""
        auth, identity = entry.get("auth") or "", entry.get("identitytoken") or ""
        token = entry.get("registrytoken") or ""
        words = (username, password, auth, identity, token)
        if not all(isinstance(word, str) and word.isprintable() for word in words):
            raise DockerConfigInvalid(self.file, f"holds something for {key} that is no text of one line")
        if auth:
            try:
                username, _, password = base64.b64decode(auth, validate=True).decode().partition(":")
            except ValueError:
                raise DockerConfigInvalid(self.file, f"holds an 'auth' for {key} that is no base64 text") from None
            password = password.rstrip("\0")
        found = RegistryCredentials(username, password, token, identity, f"{self.file} (entry {key})")
        return None if found == ANONYMOUS else found


def from_helper(username: str, secret: str, origin: str = "") -> RegistryCredentials:
    """Return the credentials a helper's answer means."""
    if username == _TOKEN_USER:
        return RegistryCredentials(identity=secret, origin=origin)
    return RegistryCredentials(username, secret, origin=origin)


def _mapping(document: Mapping[str, Any], key: str, file: str) -> Mapping[str, Any]:
    value = document.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise DockerConfigInvalid(file, f"has a {key} that is no JSON object")
    return value


def _keys(reference: Reference) -> Iterator[str]:
    """Name the keys that may hold a repository's credentials, the longest path first as podman has it."""
    parts = reference.repository.split("/")
    for length in range(len(parts), 0, -1):
        yield "/".join((reference.registry, *parts[:length]))
    yield from _host_keys(reference.registry)


def _host_keys(registry: str) -> tuple[str, ...]:
    return _HUB_KEYS if registry in _HUB_KEYS else (registry,)


def _host_of(key: str) -> str:
    """Old entries are URLs: ``https://host/v1/``."""
    if "://" not in key:
        return key.rstrip("/")
    return key.partition("://")[2].partition("/")[0]
