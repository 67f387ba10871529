"""Builds the ValidatingWebhookConfiguration, which the operator applies itself."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from clusterstacks.model.kinds.clusteraddon import addon_name
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_KIND, GROUP, SHARD_LABEL, WATCH_FILTER_LABEL
from clusterstacks.model.kinds.provider_refs import DEFAULT_KINDS, TEMPLATE_SUFFIX, KindPattern

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clusterstacks.model.objects import Manifest, ObjectKey

NAME: Final = "cluster-stack-operator"
CONFIGURATION: Final = ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration")
LABELS: Final = {"app.kubernetes.io/managed-by": NAME}
"""Labels of the ValidatingWebhookConfiguration, whose name depends on the namespace that the operator watches."""
OWNER: Final = ("rbac.authorization.k8s.io", "ClusterRole")
"""API group and kind of the owner of the ValidatingWebhookConfiguration."""
SECRET_NAME: Final = "cluster-stack-operator-webhook"  # noqa: S105 - the name of an object
PATH: Final = "/validate"
PORT: Final = 443
"""Port of the Service; the default of the API server."""

CLUSTER_SECONDS: Final = 5
OWN_SECONDS: Final = 10
"""Timeouts of the API server in seconds: short for Clusters, which it then allows by default; its own default for our
kinds."""
IGNORE, FAIL = "Ignore", "Fail"
"""Failure policies: what the API server does with a write while the webhooks do not answer."""

# The regular expression is that of domain.names.parse_class; Clusters of other classes are not sent to the webhook.
_CLASS: Final = "^[a-z0-9]+-[a-z0-9]+-[0-9]+-[0-9]+-v[0-9]+(-[0-9A-Za-z_]+[.][0-9A-Za-z_]+)?$"
_ADDON: Final = "clusterstack.x-k8s.io/addon"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of the webhooks for the API server: a Service in the cluster (namespace and name), or a URL."""

    service: ObjectKey | None = None
    url: str = ""
    """``https://host:port``; empty for a Service."""

    @property
    def names(self) -> tuple[str, ...]:
        """The host name that the API server uses; the certificate must have it."""
        if self.service is not None:
            return (f"{self.service.name}.{self.service.namespace}.svc",)
        return (urlsplit(self.url).hostname or "",)

    def client_config(self, bundle: bytes) -> Manifest:
        """Return the ``clientConfig`` of a webhook that trusts a PEM bundle."""
        trust = {"caBundle": base64.b64encode(bundle).decode()}
        if self.service is None:
            return {"url": f"{self.url}{PATH}", **trust}
        name, namespace = self.service.name, self.service.namespace
        return {"service": {"name": name, "namespace": namespace, "path": PATH, "port": PORT}, **trust}


@dataclass(frozen=True, slots=True)
class WebhookScope:
    """The objects that are validated: those the operator handles."""

    namespace: str = ""
    """The only namespace; empty for all."""
    watch_filter: str = ""
    """Value of the watch filter label; empty for all objects."""
    provider_kinds: tuple[KindPattern, ...] = DEFAULT_KINDS
    cluster_failure_policy: str = IGNORE
    """For Clusters; writes of our kinds always fail."""

    @property
    def name(self) -> str:
        """The name of the configuration; an operator for one namespace has its own configuration."""
        return f"{NAME}-{self.namespace}" if self.namespace else NAME

    def selectors(self) -> Manifest:
        """Return the selectors of a webhook; empty if it validates all objects."""
        selectors: Manifest = {}
        if self.namespace:
            selectors["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}}
        if self.watch_filter:
            selectors["objectSelector"] = {"matchLabels": {WATCH_FILTER_LABEL: self.watch_filter}}
        return selectors


def configuration(endpoint: Endpoint, scope: WebhookScope, bundle: bytes) -> Manifest:
    """Return the ValidatingWebhookConfiguration; ``bundle`` has the PEM certificates of the CAs to trust."""
    common = {
        "clientConfig": endpoint.client_config(bundle),
        "admissionReviewVersions": ["v1"],
        "sideEffects": "NoneOnDryRun",
        "matchPolicy": "Equivalent",
        **scope.selectors(),
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": scope.name, "labels": LABELS},
        "webhooks": [{**common, **webhook} for webhook in (*_own_kinds(scope.provider_kinds), _clusters(scope))],
    }


def _own_kinds(provider_kinds: Iterable[KindPattern]) -> list[Manifest]:
    spec, reference = _updated("spec"), _updated("spec", "spec.clusterRef")
    return [
        _own("clusterstacks", ["CREATE", "UPDATE", "DELETE"], spec),
        _own("clusterstackreleases", ["CREATE", "UPDATE", "DELETE"], _provider_named(provider_kinds)),
        _own("clusteraddons", ["CREATE", "UPDATE"], f"({reference}) && !({_canonical()})"),
        _own("compatibilityrules", ["CREATE", "UPDATE"], spec),
        _own("clusterupgrades", ["CREATE", "UPDATE"], spec),
    ]


def _updated(*fields: str) -> str:
    """Return CEL for: the last of the fields changed, or one of them is missing (which should not happen).

    An expression that fails would refuse the write, even the removal of a finalizer.
    """
    missing = [f"!has({version}.{field})" for field in fields for version in ("object", "oldObject")]
    changed = f"object.{fields[-1]} != oldObject.{fields[-1]}"
    return " || ".join(["request.operation != 'UPDATE'", *missing, changed])


def _canonical() -> str:
    """Return CEL for: a ClusterAddon is created for a Cluster and with the name that the operator gives it.

    Every user may create it, so the API server need not call the webhook: the operator can create ClusterAddons while
    its webhooks are not reachable or not served yet. The operator's user is not excluded instead, because people may
    share it (in a development environment all use one administrator's kubeconfig) and must be validated.
    """
    reference = "object.spec.clusterRef"
    there = " && ".join(
        f"has({field})" for field in ("object.spec", reference, f"{reference}.kind", f"{reference}.name")
    )
    # addon_name of api.clusteraddon, in CEL.
    named = f"object.metadata.name == '{addon_name('')}' + {reference}.name"
    return (
        f"request.operation == 'CREATE' && {there} && {reference}.kind == '{CLUSTER_KIND}' && {reference}.name != '' "
        f"&& has(object.metadata.name) && {named}"
    )


def _provider_named(kinds: Iterable[KindPattern]) -> str:
    """Return CEL for: a ClusterStackRelease is deleted, or names another provider object than before.

    Objects that every user may name are excluded, so the operator can create its ClusterStackReleases while its
    webhooks are not reachable.
    """
    named, before = "has(object.spec) && has(object.spec.providerRef)", "oldObject.spec.providerRef"
    unchanged = f"has(oldObject.spec) && has({before}) && object.spec.providerRef == {before}"
    changed = f"(request.operation == 'CREATE' || !({unchanged}))"
    return f"request.operation == 'DELETE' || ({named} && {changed} && !({_allowed_provider(kinds)}))"


def _allowed_provider(kinds: Iterable[KindPattern]) -> str:
    """Return CEL for what ``model.kinds.provider_refs.release_refusal`` allows; false in cases of doubt."""
    reference = "object.spec.providerRef"
    there = " && ".join(f"has({reference}.{field})" for field in ("apiVersion", "kind"))
    own = f"(!has({reference}.namespace) || {reference}.namespace in ['', request.namespace])"
    made = f"!{reference}.kind.endsWith('{TEMPLATE_SUFFIX}')"
    matches = [
        f"{reference}.apiVersion.startsWith({json.dumps(f'{pattern.group}/')}) && {reference}.kind"
        + (
            f".endsWith({json.dumps(pattern.kind[1:])})"
            if pattern.kind.startswith("*")
            else f" == {json.dumps(pattern.kind)}"
        )
        for pattern in kinds
    ]
    return f"{there} && {own} && {made} && ({' || '.join(f'({match})' for match in matches) or 'false'})"


def _own(plural: str, operations: list[str], changed: str = "") -> Manifest:
    """Return a webhook that fails closed; it is not called for changes that it does not validate."""
    conditions = [{"name": "changed", "expression": changed}] if changed else []
    return {
        "name": f"{plural}.{GROUP}",
        "rules": [_rule(GROUP, plural, operations)],
        "failurePolicy": FAIL,
        "timeoutSeconds": OWN_SECONDS,
        **({"matchConditions": conditions} if conditions else {}),
    }


def _clusters(scope: WebhookScope) -> Manifest:
    return {
        "name": f"clusters.{GROUP}",
        "rules": [_rule(CLUSTER_API_GROUP, "clusters", ["CREATE", "UPDATE"])],
        "failurePolicy": scope.cluster_failure_policy,
        "timeoutSeconds": CLUSTER_SECONDS,
        "matchConditions": [
            {"name": name, "expression": f"({_other_shard()}) || ({expression})"}
            for name, expression in (
                ("topology", "has(object.spec) && has(object.spec.topology)"),
                ("class", f"{_class('object')}.matches('{_CLASS}')"),
                ("changed", _changed()),
            )
        ],
    }


def _rule(group: str, plural: str, operations: list[str]) -> dict[str, Any]:
    return {"apiGroups": [group], "apiVersions": ["*"], "resources": [plural], "operations": operations, "scope": "*"}


def _class(cluster: str) -> str:
    """Return CEL for the name of the class: v1beta2 has ``classRef.name``, v1beta1 ``class``."""
    topology = f"{cluster}.spec.topology"
    return (
        f"(has({topology}.classRef) && has({topology}.classRef.name) ? {topology}.classRef.name : "
        f"has({topology}.class) ? {topology}.class : '')"
    )


def _other_shard() -> str:
    """Return CEL for: a Cluster, of whatever class, asks for another shard than before."""
    labels, before = "object.metadata.labels", "oldObject.metadata.labels"
    named = f"has({labels}) && '{SHARD_LABEL}' in {labels}"
    same = f"{before}['{SHARD_LABEL}'] == {labels}['{SHARD_LABEL}']"
    return f"{named} && !(oldObject != null && has({before}) && '{SHARD_LABEL}' in {before} && {same})"


def _changed() -> str:
    """Return CEL for: class, version, variables, labels or annotations about addons changed."""
    fields = [
        f"{_optional('object', field)} != {_optional('oldObject', field)}"
        for field in ("classRef", "class", "classNamespace", "version", "variables")
    ]
    # Rules of the provider look at labels and variables.
    fields.append(f"{_labels('object')} != {_labels('oldObject')}")
    annotations = [f"!({_same_annotations(*pair)})" for pair in (("object", "oldObject"), ("oldObject", "object"))]
    had_none = "oldObject == null || !has(oldObject.spec) || !has(oldObject.spec.topology)"
    return " || ".join([had_none, *fields, *annotations])


def _optional(cluster: str, field: str) -> str:
    place = f"{cluster}.spec.topology.{field}"
    return f"(has({place}) ? dyn({place}) : dyn(''))"


def _labels(cluster: str) -> str:
    return f"(has({cluster}.metadata.labels) ? dyn({cluster}.metadata.labels) : dyn(''))"


def _same_annotations(cluster: str, other: str) -> str:
    annotations, others = f"{cluster}.metadata.annotations", f"{other}.metadata.annotations"
    same = f"has({others}) && key in {others} && {others}[key] == {annotations}[key]"
    return f"!has({annotations}) || {annotations}.all(key, !key.startsWith('{_ADDON}') || ({same}))"
