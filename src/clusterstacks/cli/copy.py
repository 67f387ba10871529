"""``csctl copy``: copy releases to another registry."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from clusterstacks.cli.shared import output
from clusterstacks.cli.shared.options import FILE, JSON, form_option
from clusterstacks.cli.shared.registry_options import ServerTrust, open_registry, trust_options
from clusterstacks.cli.shared.release_ref import ReleaseSelection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusterstacks.domain.errors import ClusterStacksError
    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.oci.reference import Reference
    from clusterstacks.sources.oci_copy import Copied

LIST_FILE = click.Path(dir_okay=False, writable=True, allow_dash=True, path_type=Path)
STANDARD_OUTPUT = Path("-")


@dataclass(frozen=True, slots=True)
class CopiedRelease:
    """A release that was copied.

    Args:
        name: The release.
        place: Where it is now.
        result: What was copied.
        images: Its container images; empty unless they were requested.
    """

    name: ReleaseName
    place: Reference
    result: Copied
    images: Sequence[str]

    def document(self) -> dict[str, object]:
        """Return the JSON form, without images."""
        return {
            "release": self.name.release,
            "reference": str(self.place),
            "manifestDigest": self.result.digest,
            "new": self.result.new,
            "signatures": self.result.signatures,
            "problems": self.result.problems,
        }


@dataclass(frozen=True, slots=True)
class CopyRun:
    """The results of a copy: the copied releases, and the errors of the others."""

    copied: tuple[CopiedRelease, ...]
    failed: tuple[tuple[ReleaseName, ClusterStacksError], ...]

    @property
    def images(self) -> list[str]:
        """The images of all releases, sorted, without duplicates."""
        return sorted({image for one in self.copied for image in one.images})


@click.command(short_help="Copy releases to another repository.")
@click.argument("origin", metavar="REF")
@click.argument("target", metavar="REF")
@click.option("--all", "every", is_flag=True, help="Copy every release of the first REF, which is a repository.")
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
    trust: ServerTrust,
    origin: str,
    target: str,
    *,
    every: bool,
    images: Path | None,
    form: str,
    **sides: Path | bool | None,
) -> int:
    """Copy releases from one registry to another, byte for byte, with their signatures.

    The first REF is registry/repository:release; the release can be a pattern such as 'local-shop-1-3*', in quotes, and
    a digest (@sha256:...) can follow its name. The second REF is registry/repository, with the same tag or without a
    tag. Existing content is not sent again; a tag with other content is never overwritten.

    With a pattern or --all, a failure does not stop the other releases. The failures are listed at the end.

    --images lists the images of pod templates only: it cannot find images that an operator in the cluster takes from a
    custom resource.
    """
    import asyncio

    from clusterstacks.oci.reference import Reference

    chosen, sink = ReleaseSelection.parse(origin, every=every), Reference.parse(target)
    if sink.digest:
        raise click.UsageError("expected a target repository without a digest")
    if sink.tag and sink.tag != chosen.pattern:
        raise click.UsageError(f"the tag of a release is its name: remove :{sink.tag}")
    trusts = [_trust(side, trust, sides) for side in ("from", "to")]
    run = asyncio.run(_copy(chosen, sink.at(""), trusts, list_images=images is not None))
    if form == JSON:
        _print_json(run, images, single=chosen.single)
    else:
        _print(run, images)
    return _exit_code(run)


def _print(run: CopyRun, images: Path | None) -> None:
    # With the list on standard output, everything else goes to standard error.
    report = output.note if images == STANDARD_OUTPUT else output.say
    for one in run.copied:
        what = "copied to" if one.result.new else "already exists with the same content:"
        report(f"{one.name} {what} {one.place}@{one.result.digest}")
        report(f"signatures and other attached documents: {one.result.signatures}")
        output.note_some("not copied", one.result.problems)
    if images:
        output.print_text(_lines(run.images), None if images == STANDARD_OUTPUT else images)


def _print_json(run: CopyRun, images: Path | None, *, single: bool) -> None:
    if single:
        document = run.copied[0].document()
    else:
        failed = [{"release": name.release, "error": error.message} for name, error in run.failed]
        document = {"releases": [one.document() for one in run.copied], "failed": failed}
    listed = {"images": run.images} if images == STANDARD_OUTPUT else {}
    output.print_json(document | listed)
    if images not in (None, STANDARD_OUTPUT):
        output.print_text(_lines(run.images), images)


def _lines(images: Sequence[str]) -> str:
    return "".join(f"{image}\n" for image in images)


def _exit_code(run: CopyRun) -> int:
    if not run.failed:
        return 0
    return output.show_failures(
        [f"{name}: {error.message}" for name, error in run.failed],
        f"{len(run.failed)} of {len(run.failed) + len(run.copied)} releases were not copied",
        [error for _, error in run.failed],
    )


def _trust(side: str, both: ServerTrust, sides: dict[str, Path | bool | None]) -> ServerTrust:
    own = sides[f"{side}_ca"]
    plain_http = both.plain_http or bool(sides[f"{side}_plain_http"])
    return ServerTrust(own if isinstance(own, Path) else both.ca, plain_http=plain_http)


async def _copy(
    chosen: ReleaseSelection, target: Reference, trusts: Sequence[ServerTrust], *, list_images: bool
) -> CopyRun:
    from clusterstacks.authoring.render_release import published_images
    from clusterstacks.domain.errors import ClusterStacksError
    from clusterstacks.render.renderer import Renderer
    from clusterstacks.sources import oci_copy

    copied: list[CopiedRelease] = []
    failed: list[tuple[ReleaseName, ClusterStacksError]] = []
    renderer = Renderer()
    async with (
        AsyncExitStack() as resources,
        open_registry(chosen.repository, trusts[0]) as here,
        open_registry(target, trusts[1]) as there,
    ):
        resources.push_async_callback(renderer.close)
        for name in await chosen.releases(here):
            try:
                result = await oci_copy.copy(here, chosen.digest or name.release, there, name.release)
                images = await published_images(there, name, renderer) if list_images else ()
            except ClusterStacksError as error:
                if chosen.single:
                    raise
                failed.append((name, error))
                output.note(f"{name} was not copied")
            else:
                copied.append(CopiedRelease(name, target.at(name.release), result, images))
    return CopyRun(tuple(copied), tuple(failed))
