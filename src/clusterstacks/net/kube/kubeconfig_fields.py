"""Fields of untrusted kubeconfigs: an error names the field, never its content. Reads cluster and user entries."""

from __future__ import annotations

import base64
import binascii
import ssl
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from clusterstacks.model import yaml, yaml_scalars
from clusterstacks.model.errors import SpecError
from clusterstacks.net.kube.connection import Connection, DataOrFile, ExecPlugin, User
from clusterstacks.net.tls import check_authority, check_pair

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

EXEC_VERSIONS = frozenset({"client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"})

_EXEC_EXTENSION = "client.authentication.k8s.io/exec"
_HEADER_SIGNS = "!#$&'*+-.^_`|~"


def parse_yaml(
    text: bytes, origin: str, *, max_bytes: int = yaml.MAX_BYTES, max_values: int = yaml.MAX_VALUES
) -> Fields:
    """Parse a YAML (or JSON) document; ``origin`` names the file or Secret in messages.

    Aliases and merge keys work as in kubectl, within the limits, and so does UTF-16, which PowerShell's ``>`` writes.
    Raises SpecError if it is not valid YAML or no mapping, or exceeds the limits.
    """
    if len(text) > max_bytes:
        raise refusal(origin, f"is larger than {max_bytes} bytes")
    try:
        content = text.decode("utf-16") if text.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else text
        document = yaml.load(content, max_bytes=max_bytes, max_values=max_values, unique_keys=False, resolve=as_written)
    except yaml.YamlTooLarge as error:
        raise refusal(origin, error.problem) from None
    except (yaml.YamlError, UnicodeDecodeError) as error:
        # The parser's message quotes the text.
        line = getattr(error, "line", 0)
        raise refusal(origin, f"is not valid YAML (line {line})" if line else "is not valid YAML") from None
    if not isinstance(document, dict):
        raise refusal(origin, "is empty" if document is None else "is not a mapping")
    return Fields(document, origin)


def as_written(text: str) -> yaml_scalars.Scalar:
    """Resolve a plain scalar; a name, token or password that looks like a number or ``y`` keeps its spelling."""
    try:
        value = yaml_scalars.resolve(text)
    except ValueError:
        return text
    if isinstance(value, bool):
        return text if len(text) == 1 else value
    return value if value is None or str(value) == text else text


def refusal(where: str, problem: str) -> SpecError:
    """Return a SpecError about a kubeconfig; ``problem`` must not quote its content."""
    return SpecError("KubeconfigInvalid", f"{where} {problem}")


@dataclass(frozen=True, slots=True)
class Fields:
    """A mapping inside a kubeconfig; ``where`` is its path: ``Secret a/b: users[0].user``."""

    content: Mapping[str, Any] = field(repr=False)
    where: str

    def has(self, name: str) -> bool:
        """Return whether the field is set and not empty."""
        return self.content.get(name) not in (None, "", False, {}, [])

    def error(self, name: str, problem: str) -> SpecError:
        """Return a SpecError about a field; ``problem`` must not quote its content."""
        return refusal(self._path(name), problem)

    def text(self, name: str) -> str:
        """Return a string, empty when absent; a number keeps its spelling, as in kubectl."""
        value = self.content.get(name)
        if value is None:
            return ""
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self.error(name, "is not a string")
        return str(value)

    def flag(self, name: str) -> bool:
        """Return a boolean, False when absent."""
        value = self.content.get(name) or False
        if not isinstance(value, bool):
            raise self.error(name, "is neither true nor false")
        return value

    def decoded(self, name: str) -> bytes:
        """Return the bytes of a base64 string, empty when absent."""
        try:
            return base64.b64decode("".join(self.text(name).split()), validate=True)
        except (binascii.Error, ValueError):
            raise self.error(name, "is not valid base64") from None

    def block(self, name: str) -> Fields:
        """Return a mapping, empty when absent."""
        return Fields(_mapping(self.content.get(name), self._path(name)), self._path(name))

    def blocks(self, name: str) -> Iterator[Fields]:
        """Yield the mappings of a list."""
        for number, value in enumerate(self._sequence(name)):
            where = f"{self._path(name)}[{number}]"
            yield Fields(_mapping(value, where), where)

    def texts(self, name: str) -> tuple[str, ...]:
        """Return the strings of a list, empty when absent."""
        values = self._sequence(name)
        if not all(isinstance(value, str) for value in values):
            raise self.error(name, "contains values that are not strings")
        return tuple(values)

    def _sequence(self, name: str) -> list[Any]:
        value = self.content.get(name) or []
        if not isinstance(value, list):
            raise self.error(name, "is not a list")
        return value

    def _path(self, name: str) -> str:
        separator = "." if ": " in self.where else ": "
        return f"{self.where}{separator}{name}"


def _mapping(value: object, where: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise refusal(where, "is not a mapping")
    return value


def read_cluster(fields: Fields, base: Path | None, namespace: str) -> Connection:
    """Read the server's address, CA and proxy."""
    ca = _data_or_file(fields, "certificate-authority-data", "certificate-authority", base)
    if ca.content:
        try:
            check_authority(ca.content)
        except (ssl.SSLError, ValueError):
            raise fields.error("certificate-authority-data", "contains no valid PEM certificates") from None
    verify = not fields.flag("insecure-skip-tls-verify")
    if ca and not verify:
        raise fields.error("insecure-skip-tls-verify", "cannot be combined with a certificate authority")
    return Connection(
        server=_server(fields),
        ca=ca,
        verify=verify,
        server_name=fields.text("tls-server-name"),
        proxy=_proxy(fields),
        namespace=namespace or "default",
    )


def read_user(connection: Connection, cluster: Fields, fields: Fields, base: Path | None) -> Connection:
    """Add the user's credentials; ``cluster`` is the entry that ``connection`` was read from."""
    if fields.has("auth-provider"):
        raise fields.error("auth-provider", "is no longer supported by Kubernetes: use exec")
    certificate = _data_or_file(fields, "client-certificate-data", "client-certificate", base)
    key = _data_or_file(fields, "client-key-data", "client-key", base)
    _check_certificate(fields, certificate, key)
    user = User(
        token=_token(fields, base),
        username=fields.text("username"),
        password=fields.text("password"),
        certificate=certificate,
        key=key,
        plugin=_plugin(connection, cluster, fields.block("exec"), base) if fields.has("exec") else None,
        impersonation=_impersonation(fields),
    )
    if user.token and user.username:
        raise fields.error("username", "cannot be combined with a token")
    return replace(connection, user=user)


def _server(fields: Fields) -> str:
    server = fields.text("server").rstrip("/")
    try:
        parts = urlsplit(server)
        usable = parts.scheme in {"https", "http"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable or "@" in parts.netloc or parts.query or parts.fragment or not server.isprintable() or " " in server:
        raise fields.error("server", "is not a valid URL (expected https://host:port without a user name or query)")
    return server


def _proxy(fields: Fields) -> str:
    proxy = fields.text("proxy-url")
    if proxy and not proxy.startswith(("http://", "https://")):
        raise fields.error("proxy-url", "must begin with http:// or https:// (other proxies are not supported)")
    return proxy


def _data_or_file(fields: Fields, inline: str, file: str, base: Path | None) -> DataOrFile:
    """Prefer inline content to a file, as kubectl does."""
    if content := fields.decoded(inline):
        return DataOrFile(content)
    return DataOrFile(file=_path(fields, file, base))


def _path(fields: Fields, name: str, base: Path | None) -> Path | None:
    text = fields.text(name)
    if not text:
        return None
    if base is None and not Path(text).is_absolute():
        raise fields.error(name, "must be an absolute path")
    return base / text if base else Path(text)


def _token(fields: Fields, base: Path | None) -> DataOrFile:
    """Prefer a token file to a token, as kubectl does."""
    if file := _path(fields, "tokenFile", base):
        return DataOrFile(file=file)
    token = fields.text("token").strip()
    if not token.isascii() or not token.isprintable():
        raise fields.error("token", "contains invalid characters")
    return DataOrFile(token.encode())


def _check_certificate(fields: Fields, certificate: DataOrFile, key: DataOrFile) -> None:
    if bool(certificate) != bool(key):
        missing = "client-key-data" if certificate else "client-certificate-data"
        raise fields.error(missing, "is missing: a client certificate requires both")
    if certificate.content and key.content:
        try:
            check_pair(certificate.content, key.content)
        except (ssl.SSLError, ValueError):
            raise fields.error("client-certificate-data", "and client-key-data are not a matching PEM pair") from None


def _impersonation(fields: Fields) -> tuple[tuple[str, str], ...]:
    """Return the impersonation headers; ignoring them would use more permissions than requested."""
    user = fields.text("as")
    headers = [("Impersonate-User", user)] if user else []
    if uid := fields.text("as-uid"):
        headers.append(("Impersonate-Uid", uid))
    headers += [("Impersonate-Group", group) for group in fields.texts("as-groups")]
    extra = fields.block("as-user-extra")
    headers += [
        (f"Impersonate-Extra-{quote(name.lower(), safe=_HEADER_SIGNS)}", value)
        for name in extra.content
        for value in extra.texts(name)
    ]
    if headers and not user:
        raise fields.error("as", "is missing: as-uid, as-groups and as-user-extra require it")
    if not all(part.isascii() and part.isprintable() for header in headers for part in header):
        raise fields.error("as", "and its companions must contain only printable ASCII characters")
    return tuple(headers)


def _plugin(connection: Connection, cluster: Fields, fields: Fields, base: Path | None) -> ExecPlugin:
    version = fields.text("apiVersion")
    if version not in EXEC_VERSIONS:
        raise fields.error("apiVersion", f"must be one of {', '.join(sorted(EXEC_VERSIONS))}")
    command = fields.text("command")
    if not command:
        raise fields.error("command", "is missing")
    if fields.text("interactiveMode") == "Always":
        raise fields.error("interactiveMode", "Always requires a terminal: use Never or IfAvailable")
    if base and "/" in command:
        command = str(base / command)
    return ExecPlugin(
        api_version=version,
        command=command,
        arguments=fields.texts("args"),
        environ={entry.text("name"): entry.text("value") for entry in fields.blocks("env")},
        cluster=_cluster_info(connection, cluster) if fields.flag("provideClusterInfo") else None,
        install_hint=fields.text("installHint").strip(),
    )


def _cluster_info(connection: Connection, cluster: Fields) -> dict[str, Any]:
    info: dict[str, Any] = {
        "server": connection.server,
        "tls-server-name": connection.server_name,
        "insecure-skip-tls-verify": not connection.verify,
        "certificate-authority-data": base64.b64encode(_ca_content(connection.ca, cluster)).decode(),
        "proxy-url": connection.proxy,
        "config": next(
            (
                extension.content.get("extension")
                for extension in cluster.blocks("extensions")
                if extension.text("name") == _EXEC_EXTENSION
            ),
            None,
        ),
    }
    return {name: value for name, value in info.items() if value}


def _ca_content(ca: DataOrFile, cluster: Fields) -> bytes:
    if ca.file is None:
        return ca.content
    try:
        return ca.file.read_bytes()
    except OSError as error:
        raise cluster.error("certificate-authority", f"cannot be read: {error.strerror}") from None
