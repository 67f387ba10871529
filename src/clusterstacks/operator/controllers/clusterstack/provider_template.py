"""Builds the provider object of a release from the template that the ClusterStack names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from clusterstacks.deliver.apply.ownership import FIELD_MANAGER
from clusterstacks.model.digests import sha256_digest
from clusterstacks.model.documents import mapping
from clusterstacks.model.errors import DependencyError, SpecError
from clusterstacks.model.kinds.meta import ObjectReference
from clusterstacks.model.kinds.names import EventReason, Reason
from clusterstacks.model.kinds.provider_refs import CODE, TEMPLATE_SUFFIX, template_refusal
from clusterstacks.model.objects import Manifest, split_api_version
from clusterstacks.operator.controllers.provider_objects import check_namespaced, to_decide

if TYPE_CHECKING:
    from collections.abc import Collection

    from clusterstacks.model.kinds.clusterstack import ClusterStack
    from clusterstacks.model.kinds.provider_refs import KindPattern
    from clusterstacks.net.kube.client import Client
    from clusterstacks.runtime.events import EventRecorder

TEMPLATE_DIGEST_ANNOTATION = "clusterstack.x-k8s.io/template-digest"


async def read_template(client: Client, stack: ClusterStack, kinds: Collection[KindPattern]) -> Manifest:
    """Read the template that ``spec.providerRef`` names, in the ClusterStack's own namespace.

    Raises a SpecError if the reference is missing or not allowed by ``kinds``, DependencyError if the object
    does not exist, and KindNotServed if its CustomResourceDefinition does not.
    """
    reference = stack.spec.provider_ref
    if reference is None:
        raise SpecError(
            Reason.PROVIDER_TEMPLATE_NOT_FOUND,
            f"ClusterStack {stack.key}: spec.providerRef is missing; name the provider's template, "
            "or set spec.noProvider where the stack needs none",
        )
    refusal = template_refusal(to_decide(reference), stack.key.namespace, kinds)
    if refusal:
        raise SpecError(CODE, f"ClusterStack {stack.key}: {refusal}")
    group, version = split_api_version(reference.api_version)
    resource = await client.resource(group, reference.kind, version)
    check_namespaced(resource)
    template = await client.find(resource, reference.name, stack.key.namespace)
    if template is None:
        title = f"{reference.kind} {stack.key.namespace}/{reference.name}"
        raise DependencyError(
            Reason.PROVIDER_TEMPLATE_NOT_FOUND,
            f"ClusterStack {stack.key}: {title}, which spec.providerRef names, does not exist; create it",
        )
    return template


def provider_object(template: Manifest, stack: Manifest, release: str) -> Manifest:
    """Build the provider object of one release.

    Its kind is the template's without "Template", its name the release's, its spec the template's. Labels and
    annotations of the ClusterStack are copied, except those of clusterctl and kubectl.
    """
    body = mapping(template, "spec", "template")
    inherited = stack["metadata"]
    annotations = {
        key: value
        for key, value in (inherited.get("annotations") or {}).items()
        if not key.startswith(("kubectl.kubernetes.io/", "clusterctl.cluster.x-k8s.io/"))
    }
    metadata = {
        "name": release,
        "namespace": inherited["namespace"],
        "labels": {**(inherited.get("labels") or {}), **mapping(body, "metadata", "labels")},
        "annotations": {**annotations, **mapping(body, "metadata", "annotations")},
    }
    return {
        "apiVersion": template["apiVersion"],
        "kind": template["kind"].removesuffix(TEMPLATE_SUFFIX),
        "metadata": {key: value for key, value in metadata.items() if value},
        "spec": mapping(body, "spec"),
    }


async def ensure_provider_object(
    client: Client, events: EventRecorder, stack: Manifest, wanted: Manifest
) -> ObjectReference:
    """Create or update the provider object and return the reference to it; an unchanged template causes no write.

    An annotation of the object holds the digest of what was sent: a comparison of fields would fight the provider's
    defaults. Raises a SpecError if the kind is cluster-scoped, or the template is nested too deep.
    """
    reference = ObjectReference(
        api_version=wanted["apiVersion"],
        kind=wanted["kind"],
        name=wanted["metadata"]["name"],
        namespace=wanted["metadata"]["namespace"],
    )
    group, version = split_api_version(wanted["apiVersion"])
    resource = await client.resource(group, wanted["kind"], version)
    check_namespaced(resource)
    metadata = wanted["metadata"]
    live = await client.find(resource, metadata["name"], metadata["namespace"])
    digest = _digest(wanted)
    if live is not None and (live["metadata"].get("annotations") or {}).get(TEMPLATE_DIGEST_ANNOTATION) == digest:
        return reference
    marked = {**metadata, "annotations": {**metadata.get("annotations", {}), TEMPLATE_DIGEST_ANNOTATION: digest}}
    await client.apply(
        resource, {**wanted, "metadata": marked}, manager=FIELD_MANAGER, namespace=metadata["namespace"], force=True
    )
    title = f"{wanted['kind']} {metadata['namespace']}/{metadata['name']}"
    if live is None:
        await events.record(stack, "Normal", EventReason.PROVIDER_RELEASE_CREATED, f"created {title}")
    else:
        await events.record(stack, "Normal", EventReason.PROVIDER_RELEASE_UPDATED, f"updated {title} from its template")
    return reference


def _digest(wanted: Manifest) -> str:
    try:
        text = orjson.dumps(wanted, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError as error:
        metadata = wanted["metadata"]
        raise SpecError(
            "TemplateInvalid",
            f"{wanted['kind']} {metadata['namespace']}/{metadata['name']} cannot be made from its template: {error}; "
            "flatten the template",
        ) from None
    return sha256_digest(text)
