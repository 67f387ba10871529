"""Asks a management cluster what it would say to the objects of a class; nothing is written there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from clusterstacks.authoring.example_objects import NAMESPACE
from clusterstacks.authoring.stack import ServerRefusal
from clusterstacks.domain.objects import split_api_version
from clusterstacks.kube.errors import ApiError, Forbidden, KindNotServed, TooMany, Unauthorized

if TYPE_CHECKING:
    from clusterstacks.authoring.stack import LintedStack
    from clusterstacks.kube.client import Client
    from clusterstacks.render.examination import RenderedDocument

MANAGER = "csctl-lint"
"""Field manager of the dry run; no object ever has it."""


async def asked(stack: LintedStack, client: Client) -> LintedStack:
    """Return the stack with what the server refuses.

    Raises:
        DependencyError: The server does not answer, or does not let us ask.
    """
    documents = stack.class_chart.documents if stack.class_chart else ()
    refusals = [refusal for document in documents if (refusal := await _refusal(document, client))]
    return replace(stack, refusals=tuple(refusals))


async def _refusal(document: RenderedDocument, client: Client) -> ServerRefusal | None:
    manifest = document.manifest
    kind, name = manifest["kind"], manifest["metadata"]["name"]
    group, version = split_api_version(manifest["apiVersion"])
    try:
        resource = await client.resource(group, kind, version)
        if resource.api_version != manifest["apiVersion"]:
            problem = f"it serves {resource.api_version}, not {manifest['apiVersion']}"
            return ServerRefusal(
                document.path,
                kind,
                name,
                problem,
                "write the served version, or install the provider's version that has it",
            )
        await client.apply(resource, manifest, manager=MANAGER, namespace=NAMESPACE, force=True, dry_run=True)
    except KindNotServed as error:
        return ServerRefusal(
            document.path, kind, name, error.message, "install the provider there, or correct apiVersion and kind"
        )
    except (Forbidden, TooMany, Unauthorized):
        raise
    except ApiError as error:
        return ServerRefusal(document.path, kind, name, error.message, "correct the template")
    return None
