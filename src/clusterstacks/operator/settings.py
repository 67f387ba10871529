"""Parses the operator's command line, which also accepts the arguments of the Go operator."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NoReturn
from urllib.parse import urlsplit

from clusterstacks.model.drift_settings import DEFAULT_INTERVAL, parse_interval
from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.provider_refs import DEFAULT_KINDS, KindPattern
from clusterstacks.model.kinds.shards import MAIN, lease_name
from clusterstacks.model.kinds.shards import NAME as SHARD_NAME
from clusterstacks.model.kinds.source import DirectoryPlace, SourceSpec
from clusterstacks.model.objects import ObjectKey
from clusterstacks.net.http.allowlist import AllowedHosts
from clusterstacks.net.kube.kubeconfig import SERVICE_ACCOUNT, pod_namespace
from clusterstacks.operator.controllers.registered import PROVIDERS, REGISTRATIONS
from clusterstacks.operator.go_operator import RELEASE_DIR as GO_RELEASE_DIR
from clusterstacks.operator.go_operator import add_go_flags, notices, started_as_manager, two_dashes
from clusterstacks.operator.lease_settings import ElectionSettings, add_election_options, election_settings
from clusterstacks.operator.source_flags import add_source_options, read_text, source_of
from clusterstacks.operator.webhooks.configuration import FAIL, IGNORE
from clusterstacks.release.sources.stack_source import NOTHING_ALLOWED
from clusterstacks.runtime.log_format import FORMATS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

LEVELS: Final = {"warn": "warning"}
"""Other names of log levels, as in zap."""

OWN_DIRECTORY: Final = SourceSpec(directory=DirectoryPlace())

NAME: Final = "cluster-stack-operator"

DESCRIPTION: Final = (
    "Installs releases of cluster stacks in a management cluster, and delivers their addons to workload clusters. It "
    "also accepts the arguments of the Go operator."
)
RELEASE_DIR: Final = Path("/releases")
CACHE_DIR: Final = Path("/var/cache/cluster-stacks")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSettings:
    """The settings of the operator."""

    kubeconfig: str = ""
    source: SourceSpec = OWN_DIRECTORY
    source_ca: str = field(default="", repr=False)
    allowed_sources: AllowedHosts = NOTHING_ALLOWED
    plain_http_credentials: AllowedHosts = NOTHING_ALLOWED
    chart_repositories: AllowedHosts = NOTHING_ALLOWED
    release_dir: Path = RELEASE_DIR
    cache_dir: Path = CACHE_DIR
    namespace: str = ""
    operator_namespace: str = ""
    watch_filter: str = ""
    shard: str = MAIN
    shards: frozenset[str] = frozenset()
    metrics_address: tuple[str, int] = ("", 8080)
    probe_address: tuple[str, int] = ("", 9440)
    node_image_address: tuple[str, int] = ("", 0)
    node_image_url: str = ""
    node_image_cert_dir: Path | None = None
    webhook_port: int = 0
    webhook_service: ObjectKey | None = None
    webhook_url: str = ""
    webhook_cluster_failure_policy: str = IGNORE
    class_kinds: frozenset[str] = frozenset()
    provider_kinds: frozenset[KindPattern] = frozenset(DEFAULT_KINDS)
    providers: tuple[str, ...] = ()
    drift_interval: timedelta | None = DEFAULT_INTERVAL
    election: ElectionSettings | None = None
    workers: dict[str, int] = field(default_factory=dict)
    log_level: str = "info"
    log_format: str = "json"
    as_manager: bool = False
    take_over: bool = False
    release_upgrades: bool = False
    observe: bool = False
    once: bool = False
    notices: tuple[str, ...] = ()


def parse_settings(
    arguments: Sequence[str],
    environ: Mapping[str, str] = MappingProxyType({}),
    service_account: Path = SERVICE_ACCOUNT,
    program: str = NAME,
) -> OperatorSettings:
    """Read the command line and the environment; exits with status 2 and the reason when they are invalid.

    ``service_account`` is the directory in which Kubernetes mounts the service account of a pod; ``program`` the path
    with which the program was started: ``manager`` is that of the Go operator.
    """
    parser = option_parser(RELEASE_DIR if not started_as_manager(program) else GO_RELEASE_DIR)
    flags = parser.parse_args(two_dashes(arguments))
    try:
        settings = _settings(flags, environ, service_account, as_manager=started_as_manager(program))
        return _of_shard(settings) if settings.shard else settings
    except SpecError as error:
        parser.error(error.message)


def _of_shard(settings: OperatorSettings) -> OperatorSettings:
    """Leave to the main instance what is not about single Clusters."""
    if (settings.election is None and not settings.observe) or settings.shards:
        raise SpecError("InvalidShard", "--shard needs leader election, and --shards is for the main instance")
    return replace(settings, webhook_port=0, node_image_address=("", 0), providers=(), take_over=False)


def _settings(
    flags: argparse.Namespace, environ: Mapping[str, str], service_account: Path, *, as_manager: bool
) -> OperatorSettings:
    own = flags.operator_namespace or environ.get("POD_NAMESPACE", "") or pod_namespace(service_account)
    if flags.node_image_bind_address[1] and not (flags.node_image_url and own):
        raise SpecError(
            "NodeImageServerIncomplete",
            "--node-image-bind-address needs --node-image-url, and --operator-namespace for the Secret of its key",
        )
    if flags.once and not flags.observe:
        raise SpecError("ObserveMissing", "--once is for --observe")
    # As the Go operator, whose Lease does not depend on the filter.
    lease = lease_name(flags.shard, "" if as_manager else flags.watch_filter)
    return OperatorSettings(
        kubeconfig=flags.kubeconfig,
        source=source_of(flags, environ),
        source_ca=read_text("--source-ca", flags.source_ca),
        allowed_sources=AllowedHosts.parse(flags.allowed_sources),
        plain_http_credentials=AllowedHosts.parse(flags.plain_http_credentials),
        chart_repositories=AllowedHosts.parse(flags.chart_repositories),
        release_dir=flags.release_dir,
        cache_dir=flags.cache_dir,
        namespace=flags.namespace,
        operator_namespace=own,
        watch_filter=flags.watch_filter,
        shard=flags.shard,
        shards=flags.shards,
        metrics_address=flags.metrics_bind_address,
        probe_address=flags.health_probe_bind_address,
        node_image_address=flags.node_image_bind_address,
        node_image_url=flags.node_image_url,
        node_image_cert_dir=flags.node_image_cert_dir,
        webhook_port=0 if flags.observe else flags.webhook_port,
        webhook_service=flags.webhook_service,
        webhook_url=flags.webhook_url,
        webhook_cluster_failure_policy=flags.webhook_cluster_failure_policy,
        class_kinds=frozenset(kind for kind in flags.class_kinds.split(",") if kind),
        provider_kinds=_provider_kinds(flags.provider_kinds or ()),
        providers=tuple(dict.fromkeys(flags.providers)),
        drift_interval=flags.drift_interval,
        election=None if flags.observe else election_settings(flags, own, lease),
        workers={
            registration.name: getattr(flags, f"{registration.name}_concurrency")
            for registration in REGISTRATIONS
            if registration.concurrency
        },
        log_level=LEVELS.get(flags.log_level, flags.log_level),
        log_format=flags.log_format,
        as_manager=as_manager,
        take_over=flags.take_over,
        release_upgrades=flags.release_upgrades,
        observe=flags.observe,
        once=flags.once,
        notices=notices(flags),
    )


class _ArgumentParser(argparse.ArgumentParser):
    """Exits with the reason only; the usage of all flags would scroll it off the screen."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message}; '{self.prog} --help' lists the flags\n")


def option_parser(release_dir: Path = RELEASE_DIR) -> argparse.ArgumentParser:
    """Return the parser, also for the generated reference page; ``release_dir`` is the default of that flag."""
    parser = _ArgumentParser(prog=NAME, description=DESCRIPTION, allow_abbrev=False)
    parser.add_argument(
        "--version", action="version", version=f"{NAME} {version('cluster-stacks')}", help="print the version"
    )
    _add_cluster(parser)
    add_source_options(parser)
    _add_directories(parser, release_dir)
    _add_kinds(parser)
    _add_endpoints(parser)
    _add_node_images(parser)
    _add_webhooks(parser)
    add_election_options(parser)
    _add_concurrency(parser)
    other = parser.add_argument_group("other")
    levels = ["debug", "info", "warning", "warn", "error"]
    other.add_argument(
        "--drift-interval",
        type=_interval,
        default="60s",
        metavar="DURATION",
        help="interval at which delivered objects are compared with what was delivered, from 10s to 24h, or off; "
        "spec.drift.interval of a ClusterStack and an annotation of a Cluster precede it",
    )
    other.add_argument("--log-level", choices=levels, default="info", help="minimum level of log messages")
    other.add_argument("--log-format", choices=[*FORMATS], default="json", help="format of the lines of the log")
    other.add_argument(
        "--take-over",
        action="store_true",
        help="delete the webhooks and the runtime extension that the Go operator left in the operator's own namespace; "
        "without it a warning names them",
    )
    other.add_argument(
        "--release-upgrades",
        action="store_true",
        help="only release the upgrades of the Clusters that a deleted operator held, and exit; --namespace and "
        "--watch-filter select the Clusters",
    )
    other.add_argument(
        "--observe",
        action="store_true",
        help="write nothing, and report the first write for each object that this version would make, in the log and "
        "at /observed of the probes; runs beside another operator, without its Lease and without webhooks",
    )
    other.add_argument(
        "--once",
        action="store_true",
        help="with --observe: end when everything was compared, with 0 if nothing would be written, else with 3",
    )
    add_go_flags(other)
    return parser


def _add_cluster(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("management cluster").add_argument
    add(
        "--kubeconfig",
        default="",
        metavar="FILE",
        help="kubeconfig of the management cluster; default: KUBECONFIG, then the pod's service account, never "
        "~/.kube/config",
    )
    add("--namespace", default="", help="watch only this namespace; default: all")
    add(
        "--operator-namespace",
        default="",
        metavar="NAMESPACE",
        help="the operator's own namespace, for its Lease and the Secret of the webhooks; default: "
        "POD_NAMESPACE, then the pod's service account",
    )
    add(
        "--watch-filter",
        default="",
        metavar="VALUE",
        help="reconcile only objects whose label cluster.x-k8s.io/watch-filter has this value",
    )
    add(
        "--shard",
        type=_shard,
        default=MAIN,
        metavar="NAME",
        help="deliver only to Clusters whose label clusterstack.x-k8s.io/shard has this value; default: the main "
        "instance, which has those without the label, and for all Clusters the webhooks, ClusterStacks, releases, "
        "ClusterUpgrades and ClusterResourceSyncs",
    )
    add(
        "--shards",
        type=_shards,
        default=frozenset(),
        metavar="NAME,...",
        help="of the main instance: the shards that Clusters may name; its webhook refuses others",
    )


def _add_directories(parser: argparse.ArgumentParser, release_dir: Path) -> None:
    add = parser.add_argument_group("directories").add_argument
    add(
        "--release-dir",
        type=Path,
        default=release_dir,
        metavar="DIR",
        help=f"directory of releases, for sources of kind directory; {GO_RELEASE_DIR} when started as /manager",
    )
    add(
        "--cache-dir",
        type=Path,
        default=CACHE_DIR,
        metavar="DIR",
        help="directory for verified copies of releases, which may be deleted at any time; if the default is not "
        "writable, a directory for temporary files is used",
    )


def _add_kinds(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("allowed kinds").add_argument
    add(
        "--class-kinds",
        default="",
        metavar="KIND.GROUP,...",
        help="kinds that a class chart may contain besides ClusterClass, Cluster API's templates and ORC's Image",
    )
    add(
        "--provider-kinds",
        action="append",
        default=None,
        metavar="KIND.GROUP,...",
        help="kinds that spec.providerRef may name: provider templates and the kinds created from them; a leading * "
        f"matches any prefix; may be repeated; default: {' and '.join(map(str, DEFAULT_KINDS))}",
    )
    add(
        "--providers",
        action="append",
        choices=[*PROVIDERS],
        default=[],
        help="reconcile the kinds of this provider as well, instead of its own program, which must be stopped first",
    )


def _add_endpoints(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("metrics and probes").add_argument
    add(
        "--metrics-bind-address",
        type=_address,
        default=("", 8080),
        metavar="HOST:PORT",
        help="address of /metrics, over plain HTTP; without HOST all addresses; 0 disables it",
    )
    add(
        "--health-probe-bind-address",
        type=_address,
        default=("", 9440),
        metavar="HOST:PORT",
        help="address of /healthz and /readyz, over plain HTTP; without HOST all addresses; 0 disables them",
    )


def _add_node_images(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("node images").add_argument
    add(
        "--node-image-bind-address",
        type=_address,
        default=("", 0),
        metavar="HOST:PORT",
        help="address of the server of node images that are published with a release (artifact: in node-images.yaml), "
        "for ORC and other providers; without HOST all addresses; 0, the default, disables it",
    )
    add(
        "--node-image-url",
        type=_server_url,
        default="",
        metavar="URL",
        help="URL by which they reach that server, for example http://SERVICE.NAMESPACE.svc:9444",
    )
    add(
        "--node-image-cert-dir",
        type=Path,
        default=None,
        metavar="DIR",
        help="directory with tls.crt and tls.key of that server, which may be renewed; default: plain HTTP, because a "
        "hash verifies every image",
    )


def _add_webhooks(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("webhooks")
    group.add_argument(
        "--webhook-port",
        type=_port,
        default=9443,
        metavar="PORT",
        help="port of the validating webhooks; 0 disables them, and the leader deletes a "
        "ValidatingWebhookConfiguration that calls its own namespace",
    )
    place = group.add_mutually_exclusive_group()
    place.add_argument(
        "--webhook-service",
        type=_object_key,
        default=None,
        metavar="NAMESPACE/NAME",
        help="the Service, with port 443, by which the API server calls the webhooks; their Secret is in its namespace",
    )
    place.add_argument(
        "--webhook-url",
        type=_url,
        default="",
        metavar="https://HOST:PORT",
        help="URL of the webhooks if the API server does not call a Service; with a loopback address they listen only "
        "on it",
    )
    group.add_argument(
        "--webhook-cluster-failure-policy",
        choices=[IGNORE, FAIL],
        default=IGNORE,
        help="whether the API server accepts (Ignore) or refuses (Fail) Clusters of our classes while the webhooks do "
        "not answer; those that it accepts are checked later, and a condition reports what is wrong",
    )


def _add_concurrency(parser: argparse.ArgumentParser) -> None:
    # A reconcile mostly waits for others: many at a time keep one slow cluster from delaying the rest.
    group = parser.add_argument_group("concurrency")
    for registration in REGISTRATIONS:
        if registration.concurrency:
            group.add_argument(
                f"--{registration.name}-concurrency",
                type=_positive,
                default=registration.concurrency,
                metavar="N",
                help=registration.concurrency_help,
            )


def _interval(text: str) -> timedelta | None:
    try:
        return parse_interval(text)
    except SpecError as error:
        raise argparse.ArgumentTypeError(error.message) from None


def _provider_kinds(values: Sequence[str]) -> frozenset[KindPattern]:
    kinds = [kind for value in values for kind in value.split(",") if kind]
    return frozenset(map(KindPattern.parse, kinds)) or frozenset(DEFAULT_KINDS)


def _address(text: str) -> tuple[str, int]:
    """Read ``:8080``, ``127.0.0.1:8080`` or ``[::1]:8080``; ``0`` means off, as in controller-runtime."""
    host, _, port = text.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT, :PORT or 0")
    return host.strip("[]"), int(port)


def _port(text: str) -> int:
    if not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port")
    return int(text)


def _object_key(text: str) -> ObjectKey:
    namespace, _, name = text.partition("/")
    if not namespace or not name or "/" in name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAMESPACE/NAME")
    return ObjectKey(namespace, name)


def _url(text: str) -> str:
    parts = urlsplit(text)
    if text and (parts.scheme != "https" or not parts.hostname or parts.path not in ("", "/")):
        raise argparse.ArgumentTypeError(f"{text!r} is not https://HOST:PORT")
    return text.rstrip("/")


def _server_url(text: str) -> str:
    parts = urlsplit(text)
    if text and (parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment):
        raise argparse.ArgumentTypeError(f"{text!r} is not http://HOST:PORT or https://HOST:PORT")
    return text.rstrip("/")


def _shard(text: str) -> str:
    if text and not SHARD_NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a name of up to 30 of a-z, 0-9 and -, or it is main")
    return text


def _shards(text: str) -> frozenset[str]:
    return frozenset(map(_shard, filter(None, text.split(","))))


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return int(text)
