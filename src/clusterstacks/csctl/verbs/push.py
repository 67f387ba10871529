"""``csctl push``: push a release to a registry."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.options import TEXT, form_option
from clusterstacks.csctl.shared.registry_options import (
    ServerTrust,
    open_registry,
    repository_or_environment,
    trust_options,
)
from clusterstacks.csctl.shared.release_ref import release_name_of

if TYPE_CHECKING:
    from clusterstacks.net.oci.reference import Reference
    from clusterstacks.release.sources.oci_publish import Publication


@click.command(short_help="Push a release to a registry.")
@click.argument(
    "directory", metavar="RELEASE_DIR", type=click.Path(exists=True, file_okay=False, path_type=Path, resolve_path=True)
)
@click.argument("reference", metavar="[REF]", required=False)
@trust_options
@form_option()
def push(trust: ServerTrust, directory: Path, reference: str | None, form: str) -> None:
    """Push a release directory to a repository, with the release name as tag, its signatures, and its node images.

    REF is registry/repository, with the release name as tag or without a tag. The default is the repository of
    OCI_REGISTRY and OCI_REPOSITORY. A published release never changes: to push the same content again has no effect,
    and other content is refused. After a lost connection, the upload of a large file goes on where it stopped.

    Credentials: OCI_USERNAME and OCI_PASSWORD, or OCI_ACCESS_TOKEN, for the registry OCI_REGISTRY; otherwise those of
    'docker login' or 'podman login'.
    """
    published, signatures = output.run_counted(_push(directory, repository_or_environment(reference), trust))
    if form != TEXT:
        place = published.reference
        output.print_document(
            {
                "release": published.release.release,
                "reference": str(place.at(place.tag)),
                "digest": place.digest,
                "contentDigest": published.content,
                "manifestDigest": place.digest,
                "new": published.new,
                "signatures": signatures,
            },
            form,
        )
        return
    what = "pushed to" if published.new else "already exists with the same content:"
    output.say(f"{published.release} {what} {published.reference}")
    output.say_digests(content=published.content, manifest=published.reference.digest)
    if signatures:
        output.say(f"signatures of {published.release} pushed: {signatures}")


def _refuse_leftovers(directory: Path) -> None:
    """Refuse a release with a leftover file of an editor or operating system."""
    from clusterstacks.csctl.authoring.rules.source_files import is_leftover
    from clusterstacks.model.errors import SpecError

    if leftovers := sorted(file.name for file in directory.iterdir() if is_leftover(file.name)):
        problem = f"{directory / leftovers[0]} is a leftover of an editor or operating system"
        raise SpecError("LeftoverInRelease", f"{problem} and would be published: delete it")


async def _push(directory: Path, reference: Reference, trust: ServerTrust) -> tuple[Publication, int]:
    import os

    from clusterstacks.release.sources.oci_publish import check_tag, publish_with_signatures

    name = release_name_of(directory)
    _refuse_leftovers(directory)
    check_tag(reference, name)
    async with open_registry(reference, trust) as registry:
        return await publish_with_signatures(directory, registry, os.environ)
