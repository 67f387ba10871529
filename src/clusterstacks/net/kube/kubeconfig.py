"""Loads connections from kubeconfig files, from kubeconfigs in Secrets, and from the service account of a pod.

Rules of the format: https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clusterstacks.model.errors import SpecError
from clusterstacks.net.kube.connection import Connection, DataOrFile, User
from clusterstacks.net.kube.kubeconfig_fields import Fields, parse_yaml, read_cluster, read_user, refusal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Directory with the token, CA and namespace of a pod."""

MAX_SECRET_BYTES = 512 * 1024
"""Maximum size of a kubeconfig in a Secret (arbitrary; control plane providers write 3 to 10 KB, and all public CAs of
a Linux distribution add 300 KB)."""

MAX_SECRET_VALUES = 2_000
"""Maximum number of values in such a kubeconfig (arbitrary; one cluster, user and context have about 20)."""

_UNSAFE = {
    "exec": "runs a command",
    "auth-provider": "runs a command",
    "certificate-authority": "reads a file",
    "client-certificate": "reads a file",
    "client-key": "reads a file",
    "tokenFile": "reads a file",
    "proxy-url": "uses a proxy",
    "insecure-skip-tls-verify": "trusts any server",
}


def load_kubeconfig(paths: Sequence[Path], context: str = "") -> Connection:
    """Load and merge files as kubectl does: the first entry of a name and the first current-context win.

    Relative paths inside a file are relative to it. Missing files are skipped, as in KUBECONFIG. Raises SpecError if
    all are missing, or a file or field is not valid; the message names both.
    """
    return _connection(_documents(paths), context)


def parse_kubeconfig(document: Mapping[str, Any], *, base: Path | None, context: str = "") -> Connection:
    """Read a kubeconfig that is already a mapping; its relative paths are relative to ``base``."""
    return _connection([_Document(Fields(document, "kubeconfig"), base)], context)


def parse_secret_kubeconfig(data: bytes, *, origin: str) -> Connection:
    """Read a kubeconfig whose author may not access this machine.

    It must not run commands, read files, use a proxy or disable TLS. Size, depth and number of values are limited
    before it is parsed, so that parsing takes only milliseconds. A SpecError names the field and ``origin`` (such as
    ``Secret default/prod-kubeconfig``), never the content.
    """
    fields = parse_yaml(data, origin, max_bytes=MAX_SECRET_BYTES, max_values=MAX_SECRET_VALUES)
    return _connection([_Document(fields, None)], "", restricted=True)


def pod_namespace(root: Path = SERVICE_ACCOUNT) -> str:
    """Return the namespace of this pod; empty outside a pod. ``root`` is the directory of the service account."""
    try:
        return (root / "namespace").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def in_cluster(root: Path = SERVICE_ACCOUNT, environ: Mapping[str, str] | None = None) -> Connection:
    """Return the connection of the pod's service account; token and CA are reread when Kubernetes renews them.

    Raises SpecError if the process does not run in a pod, or the service account is not mounted.
    """
    environ = environ or {}
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not (root / "token").exists():
        raise SpecError("NotInCluster", f"not in a cluster: KUBERNETES_SERVICE_HOST or {root / 'token'} is missing")
    namespace = root / "namespace"
    return Connection(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        ca=DataOrFile(file=root / "ca.crt"),
        namespace=(namespace.read_text(encoding="ascii").strip() if namespace.exists() else "") or "default",
        user=User(token=DataOrFile(file=root / "token")),
    )


def default_connection(environ: Mapping[str, str], kubeconfig: str = "", context: str = "") -> Connection:
    """Choose as kubectl does: the flag's file, KUBECONFIG, the pod's service account, ``~/.kube/config``."""
    if files := _named_files(environ, kubeconfig):
        return load_kubeconfig(files, context)
    if _is_pod(environ) and not context:
        return in_cluster(environ=environ)
    return load_kubeconfig([_home_file(environ)], context)


def context_names(environ: Mapping[str, str], kubeconfig: str = "") -> list[str]:
    """Return the contexts that can be given to :func:`default_connection`."""
    documents = _documents(_named_files(environ, kubeconfig) or [_home_file(environ)])
    contexts = (context for document in documents for context in document.fields.blocks("contexts"))
    return [*dict.fromkeys(context.text("name") for context in contexts)]


def named_connection(environ: Mapping[str, str], kubeconfig: str = "") -> tuple[Connection, str]:
    """Choose for a program that writes on its own: the flag's file, KUBECONFIG, or the pod's service account.

    ``~/.kube/config`` is not used, because its current context is the cluster that a person used last. Returns the
    connection and a description of its source; raises SpecError if no cluster is configured.
    """
    if files := _named_files(environ, kubeconfig):
        chooser = "--kubeconfig" if kubeconfig else "KUBECONFIG"
        return load_kubeconfig(files), f"{chooser} {':'.join(map(str, files))}"
    if _is_pod(environ):
        return in_cluster(environ=environ), "the service account of the pod"
    raise SpecError(
        "NoManagementCluster",
        "no management cluster is configured: --kubeconfig and KUBECONFIG are not set, and the process does not run in "
        "a pod with a service account; set --kubeconfig FILE (~/.kube/config is not used by default)",
    )


def _named_files(environ: Mapping[str, str], kubeconfig: str) -> list[Path]:
    if kubeconfig:
        return [Path(kubeconfig)]
    return [Path(part) for part in environ.get("KUBECONFIG", "").split(":") if part]


def _home_file(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME", "/")) / ".kube" / "config"


def _is_pod(environ: Mapping[str, str]) -> bool:
    return bool(environ.get("KUBERNETES_SERVICE_HOST")) and (SERVICE_ACCOUNT / "token").exists()


@dataclass(frozen=True, slots=True)
class _Document:
    """A kubeconfig and the base directory of its relative paths."""

    fields: Fields
    base: Path | None


def _documents(paths: Sequence[Path]) -> list[_Document]:
    documents = [
        _Document(parse_yaml(_content(path), f"kubeconfig {path}"), path.absolute().parent)
        for path in paths
        if path.exists()
    ]
    if not documents:
        names = ", ".join(str(path) for path in paths)
        raise SpecError(
            "KubeconfigMissing",
            f"no kubeconfig: {names or 'no file'} does not exist; name one with --kubeconfig or with KUBECONFIG",
        )
    return documents


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise refusal(f"kubeconfig {path}", f"cannot be read: {error.strerror}") from None


def _connection(documents: Sequence[_Document], context: str, *, restricted: bool = False) -> Connection:
    name, chooser = _choose_context(documents, context)
    entry = _entry(documents, "contexts", name)
    if entry is None:
        raise refusal(chooser, "names a context that does not exist" if not context else f"has no context {context}")
    fields = entry.fields.block("context")
    cluster = _entry(documents, "clusters", fields.text("cluster"))
    if cluster is None:
        raise fields.error("cluster", "names a cluster that does not exist")
    user = _entry(documents, "users", fields.text("user"))
    if user is None and fields.text("user"):
        raise fields.error("user", "names a user that does not exist")
    cluster_fields = cluster.fields.block("cluster")
    user_fields = user.fields.block("user") if user else Fields({}, fields.where)
    if restricted:
        _refuse_unsafe(cluster_fields, user_fields)
    connection = read_cluster(cluster_fields, cluster.base, fields.text("namespace"))
    return read_user(connection, cluster_fields, user_fields, user.base if user else None)


def _choose_context(documents: Sequence[_Document], context: str) -> tuple[str, str]:
    """Return the name of the context and the place that names it."""
    where = documents[0].fields.where
    if context:
        return context, where
    for document in documents:
        if name := document.fields.text("current-context"):
            return name, f"{document.fields.where}: current-context"
    raise refusal(where, "has no current-context: specify a context")


def _entry(documents: Sequence[_Document], kind: str, name: str) -> _Document | None:
    """Find a named entry in the first file that has it; a duplicate name in one file is an error."""
    for document in documents:
        entries = [entry for entry in document.fields.blocks(kind) if entry.text("name") == name]
        if len(entries) > 1:
            raise refusal(entries[1].where, "has the same name as another entry")
        if entries:
            return _Document(entries[0], document.base)
    return None


def _refuse_unsafe(cluster: Fields, user: Fields) -> None:
    """Refuse fields that are not allowed in a kubeconfig from a Secret; the message names the first one."""
    for fields in (cluster, user):
        for name, effect in _UNSAFE.items():
            if fields.has(name):
                raise fields.error(name, f"{effect}, which is not allowed in a kubeconfig from a Secret")
    if not cluster.text("server").startswith("https://"):
        raise cluster.error("server", "must begin with https:// in a kubeconfig from a Secret")
