"""Takes over an installation of the Go operator: its flags, its Service, and the objects it leaves in the cluster.

Its ValidatingWebhookConfiguration makes every write of a Cluster and of our kinds fail once its webhooks no longer
answer, and Cluster API still calls the runtime extension that its ExtensionConfig registers.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import tempfile
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from clusterstacks.model.documents import mapping, mappings, text
from clusterstacks.model.errors import DependencyError
from clusterstacks.model.objects import ObjectKey
from clusterstacks.net.kube.errors import Conflict, Forbidden, KindNotServed, NotFound
from clusterstacks.release.sources.source_kinds import DIRECTORY, GITHUB, KINDS, OCI

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from clusterstacks.net.kube.resources import Resource
    from clusterstacks.release.sources.spec import SourceKind

WEBHOOKS: Final = ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration")
EXTENSIONS: Final = ("runtime.cluster.x-k8s.io", "ExtensionConfig")

_PATHS: Final = ("/validate-clusterstack-x-k8s-io-v1alpha1-", "/validate-cluster-x-k8s-io-v1beta1-cluster")
"""Prefixes of the paths of the Go operator's webhooks."""
_EXTENSION: Final = "hook-server-extensionconfig"
"""Suffix of the name of the Go operator's ExtensionConfig, in its manifests and in its chart."""
_SERVICE_PORT: Final = 443

RETRY: Final = timedelta(seconds=30)
"""Interval of attempts to list the leftovers while the API server does not answer. Arbitrary."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Leftover:
    """An object of the Go operator that makes the API server or Cluster API call it; it has no namespace."""

    group: str
    kind: str
    name: str
    uid: str
    services: frozenset[ObjectKey]

    def belongs_to(self, namespace: str) -> bool:
        """Return whether it calls only this namespace, so that it cannot belong to another operator."""
        return bool(namespace) and {service.namespace for service in self.services} == {namespace}

    def describe(self) -> str:
        """Describe the object and its effect."""
        calls = " and ".join(sorted(f"{service.namespace}/{service.name}" for service in self.services))
        effect = (
            "while it does not answer, writes of Clusters, ClusterStacks, ClusterStackReleases and ClusterAddons fail"
            if self.kind == WEBHOOKS[1]
            else "Cluster API calls it at each upgrade, and may wait for its answer"
        )
        return f"{self.kind} {self.name} of the Go operator calls Service {calls}: {effect}"

    def command(self) -> str:
        """Return the kubectl command that removes it."""
        return f"kubectl delete {self.kind.lower()} {self.name}"


def leftover(manifest: Manifest) -> Leftover | None:
    """Recognize a ValidatingWebhookConfiguration or ExtensionConfig of the Go operator; None for others."""
    group = text(manifest, "apiVersion").partition("/")[0]
    kind, name = text(manifest, "kind"), text(manifest, "metadata", "name")
    clients = list(_clients(manifest))
    services = frozenset(
        ObjectKey(text(client, "service", "namespace"), text(client, "service", "name"))
        for client in clients
        if mapping(client, "service")
    )
    paths = [text(client, "service", "path") for client in clients]
    is_go = (
        bool(paths) and all(path.startswith(_PATHS) for path in paths)
        if kind == WEBHOOKS[1]
        else name.endswith(_EXTENSION)
    )
    return Leftover(group, kind, name, text(manifest, "metadata", "uid"), services) if is_go and services else None


def _clients(manifest: Manifest) -> Iterator[Manifest]:
    for webhook in mappings(manifest, "webhooks"):
        yield mapping(webhook, "clientConfig")
    if own := mapping(manifest, "spec", "clientConfig"):
        yield own


@dataclass(frozen=True, slots=True, kw_only=True)
class GoLeftovers:
    """Reports the leftovers of the Go operator, or removes them."""

    client: Client
    namespace: str
    """The operator's own namespace; only objects that call Services of this namespace are removed."""
    remove: bool
    """True to remove them (``--take-over``)."""

    async def run(self) -> None:
        """Check once, as soon as this process leads, then wait until cancelled."""
        for group, kind in (WEBHOOKS, EXTENSIONS):
            await self._check(group, kind)
        await asyncio.Event().wait()

    async def _check(self, group: str, kind: str) -> None:
        """Report or remove the leftovers of a kind; wait while the API server does not answer."""
        while True:
            try:
                return await self._report_or_remove(group, kind)
            except KindNotServed:
                return None
            except Forbidden:
                return log.warning(
                    "Leftovers of the Go operator of kind %s are not checked, because the right to list them is "
                    "missing: check 'kubectl get %s'",
                    kind,
                    kind.lower(),
                )
            except DependencyError as error:
                log.warning("Leftovers of the Go operator of kind %s are not checked yet: %s", kind, error)
            await asyncio.sleep(RETRY.total_seconds())

    async def _report_or_remove(self, group: str, kind: str) -> None:
        resource = await self.client.resource(group, kind)
        for manifest in (await self.client.list_readable(resource)).items:
            found = leftover({"apiVersion": resource.api_version, "kind": kind, **manifest})
            if found is None:
                continue
            if not self.remove:
                log.warning("%s. Remove it with '%s', or start with --take-over", found.describe(), found.command())
            elif not found.belongs_to(self.namespace):
                why = "it calls another namespace than this operator's, so --take-over leaves it"
                log.warning("%s. Remove it with '%s': %s", found.describe(), found.command(), why)
            else:
                await self._delete(resource, found)

    async def _delete(self, resource: Resource, found: Leftover) -> None:
        try:
            await self.client.delete(resource, found.name, uid=found.uid)
        except NotFound:
            return
        except (Conflict, Forbidden) as error:
            log.warning("%s. --take-over cannot delete it: %s. Run '%s'", found.describe(), error, found.command())
        else:
            log.warning("%s. It was deleted (--take-over)", found.describe())


async def webhook_service(client: Client, namespace: str, pod: str, port: int) -> ObjectKey | None:
    """Find the Service by which the API server reaches a port of a pod; None if there is none.

    Raises Forbidden if the right to read the pod or to list Services is missing.
    """
    manifest = await client.find(await client.resource("", "Pod"), pod, namespace)
    if manifest is None:
        return None
    services = (await client.list_readable(await client.resource("", "Service"), namespace)).items
    names = sorted(text(service, "metadata", "name") for service in services if leads_to(service, manifest, port))
    return ObjectKey(namespace, names[0]) if names else None


def leads_to(service: Manifest, pod: Manifest, port: int) -> bool:
    """Return whether a Service forwards port 443 to a port of a pod."""
    selector, labels = mapping(service, "spec", "selector"), mapping(pod, "metadata", "labels")
    named = {
        text(container_port, "name"): container_port.get("containerPort")
        for container in mappings(pod, "spec", "containers")
        for container_port in mappings(container, "ports")
    }
    targets = {
        named.get(str(service_port.get("targetPort")), service_port.get("targetPort"))
        for service_port in mappings(service, "spec", "ports")
        if service_port.get("port") == _SERVICE_PORT
    }
    return bool(selector) and selector.items() <= labels.items() and port in targets


def own_pod(environ: Mapping[str, str] = os.environ) -> str:
    """Return the name of the pod of this process, which is also its host name."""
    return environ.get("POD_NAME") or environ.get("HOSTNAME", "")


PROGRAM: Final = "manager"
"""Name of the Go operator's program in its image: ``/manager``."""

RELEASE_DIR: Final = Path("/tmp/downloads")  # noqa: S108 - the path of the Go operator, where its volumes are mounted
"""Directory in which the Go operator keeps releases."""

_TRUE: Final = frozenset({"1", "t", "true"})
_FALSE: Final = frozenset({"0", "f", "false"})
WITHOUT_MEANING: Final = {
    "qps": "requests are bounded by the number of concurrent reconciles, not by a rate",
    "burst": "requests are bounded by the number of concurrent reconciles, not by a rate",
    "hook-port": "this version serves no runtime hooks",
    "hook-cert-dir": "this version serves no runtime hooks",
}


def two_dashes(arguments: Iterable[str]) -> list[str]:
    """Return the arguments with two dashes before each long flag; Go programs accept one dash."""
    return [
        f"-{argument}" if argument[:1] == "-" and argument[1:2].isalpha() and len(argument) > 2 else argument
        for argument in arguments
    ]


def started_as_manager(program: str) -> bool:
    """Return whether the program was started with the name of the Go operator's program."""
    return Path(program).name == PROGRAM


def add_go_flags(group: argparse._ArgumentGroup) -> None:
    """Add the flags that only Deployments of the Go operator use."""
    for name in WITHOUT_MEANING:
        group.add_argument(f"--{name}", nargs="?", const="true", default=None, help=argparse.SUPPRESS)
    group.add_argument(
        "--local",
        type=boolean,
        nargs="?",
        const=True,
        default=False,
        metavar="true|false",
        help="the Go operator's flag for --source directory; it takes precedence over --source",
    )


def notices(flags: argparse.Namespace) -> tuple[str, ...]:
    """Return a notice for each given flag that has no effect."""
    return tuple(
        f"--{name} has no effect: {why}"
        for name, why in WITHOUT_MEANING.items()
        if getattr(flags, name.replace("-", "_")) is not None
    )


def without_place(flags: argparse.Namespace, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Choose the directory if neither flags nor variables name the place of ``--source``; return the notice.

    The Go operator starts in this case, and its objects report that they have no source.
    """
    if not flags.source or flags.source_location or KINDS[flags.source].from_flags("", environ) is not None:
        return ()
    missing, flags.source = flags.source, DIRECTORY.name
    return (f"--source {missing} has no effect, because its variables are not set: releases are read from a directory",)


def boolean(text: str) -> bool:
    """Read the value of a flag as Go's flag package does; an argparse.ArgumentTypeError for other texts."""
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is not true or false")


def source_kind(source: str, *, local: bool, environ: Mapping[str, str]) -> SourceKind[Any]:
    """Choose the source as the Go operator does, except that the default is the directory and not GitHub.

    ``source`` and ``local``, which takes precedence, are flags; empty variables of ``environ`` count as not set.
    """
    if local:
        return DIRECTORY
    if source:
        return KINDS[source]
    if environ.get("GIT_ORG_NAME") or environ.get("GIT_REPOSITORY_NAME"):
        return GITHUB
    if environ.get("OCI_REGISTRY") or environ.get("OCI_REPOSITORY"):
        return OCI
    return DIRECTORY


def writable_directory(wanted: Path) -> Path:
    """Return ``wanted`` if it is writable, else a directory of this user in the directory for temporary files.

    Deployments of the Go operator mount no volume for a cache. Raises OSError if that directory cannot be created
    either, or another user can write it.
    """
    try:
        wanted.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=wanted):
            return wanted
    except OSError:
        fallback = Path(tempfile.gettempdir()) / f"cluster-stacks-{os.getuid()}"
        fallback.mkdir(mode=0o700, exist_ok=True)
        status = fallback.lstat()
        if fallback.is_symlink() or status.st_uid != os.getuid() or status.st_mode & 0o022:
            raise PermissionError(13, "another user can write it", str(fallback)) from None
        return fallback
