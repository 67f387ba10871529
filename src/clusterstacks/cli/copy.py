"""``csctl copy``: copy a release to another registry."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from clusterstacks.cli.shared import output
from clusterstacks.cli.shared.options import FILE, JSON, form_option
from clusterstacks.cli.shared.registry_options import ServerTrust, open_registry, trust_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.oci.reference import Reference
    from clusterstacks.oci.registry import Registry
    from clusterstacks.sources.oci_copy import Copied

LIST_FILE = click.Path(dir_okay=False, writable=True, allow_dash=True, path_type=Path)
STANDARD_OUTPUT = Path("-")


@click.command(short_help="Copy a release to another repository.")
@click.argument("origin", metavar="REF")
@click.argument("target", metavar="REF")
@trust_options
@click.option("--from-ca", type=FILE, help="Like --ca, for the first REF only.")
@click.option("--to-ca", type=FILE, help="Like --ca, for the second REF only.")
@click.option("--from-plain-http", is_flag=True, help="Like --plain-http, for the first REF only.")
@click.option("--to-plain-http", is_flag=True, help="Like --plain-http, for the second REF only.")
@form_option()
@click.option(
    "--images", type=LIST_FILE, metavar="FILE", help="Write its container images to FILE; - for standard output."
)
def copy(
    origin: str,
    target: str,
    *,
    ca: Path | None,
    plain_http: bool,
    images: Path | None,
    form: str,
    **sides: Path | bool | None,
) -> None:
    """Copy a release from one registry to another, byte for byte, with its signatures.

    The first REF is registry/repository:release. The second REF is registry/repository, with the same tag or without a
    tag. Existing content is not sent again; a tag with other content is never overwritten. --images lists the images of
    pod templates only: it cannot find images that an operator in the cluster takes from a custom resource.
    """
    import asyncio

    from clusterstacks.domain.names import parse_release
    from clusterstacks.oci.reference import Reference

    source, sink = Reference.parse(origin), Reference.parse(target)
    if not source.tag or source.digest or sink.digest:
        raise click.UsageError("expected a release, REF:<release name>, and a target repository")
    name = parse_release(source.tag)
    if sink.tag not in ("", source.tag):
        raise click.UsageError(f"the tag of a release is its name: remove :{sink.tag}")
    trusts = [_trust(side, ca, sides, plain_http=plain_http) for side in ("from", "to")]
    copied, found = asyncio.run(_copy(source, sink.at(source.tag), trusts, name if images else None))
    if form == JSON:
        _print_json(name, sink.at(source.tag), copied, found if images == STANDARD_OUTPUT else None)
        if images not in (None, STANDARD_OUTPUT):
            output.print_text("".join(f"{image}\n" for image in found), images)
        return
    # With the list on standard output, everything else goes to standard error.
    report = output.note if images == STANDARD_OUTPUT else output.say
    what = "copied to" if copied.new else "already exists with the same content:"
    report(f"{name} {what} {sink.at(source.tag)}@{copied.digest}")
    report(f"signatures and other attached documents: {copied.signatures}")
    output.note_some("not copied", copied.problems)
    if images:
        output.print_text("".join(f"{image}\n" for image in found), None if images == STANDARD_OUTPUT else images)


def _print_json(name: ReleaseName, place: Reference, copied: Copied, images: Sequence[str] | None) -> None:
    document = {
        "release": name.release,
        "reference": str(place),
        "manifestDigest": copied.digest,
        "new": copied.new,
        "signatures": copied.signatures,
        "problems": copied.problems,
    }
    output.print_json(document if images is None else {**document, "images": images})


def _trust(side: str, ca: Path | None, sides: dict[str, Path | bool | None], *, plain_http: bool) -> ServerTrust:
    own = sides[f"{side}_ca"]
    return ServerTrust(own if isinstance(own, Path) else ca, plain_http=plain_http or bool(sides[f"{side}_plain_http"]))


async def _copy(
    source: Reference, target: Reference, trusts: Sequence[ServerTrust], name: ReleaseName | None
) -> tuple[Copied, Sequence[str]]:
    from clusterstacks.sources import oci_copy

    async with open_registry(source, trusts[0]) as here, open_registry(target, trusts[1]) as there:
        copied = await oci_copy.copy(here, source.tag, there, target.tag)
        return copied, await _images(there, name) if name else ()


async def _images(registry: Registry, name: ReleaseName) -> Sequence[str]:
    """Render a release for an example cluster, and return the images of its objects."""
    from tempfile import TemporaryDirectory

    from clusterstacks.authoring.render_release import images_of, render_release
    from clusterstacks.render.renderer import Renderer
    from clusterstacks.sources.download_release import pull
    from clusterstacks.sources.oci_repository import OCISource

    renderer = Renderer()
    try:
        with TemporaryDirectory(prefix="csctl-") as scratch:
            pulled = await pull(OCISource(registry), name, Path(scratch))
            return images_of((await render_release(pulled.release, renderer)).objects())
    finally:
        await renderer.close()
