"""``csctl copy``: copy releases to another registry, or to and from a directory."""

from __future__ import annotations

import fnmatch
import re
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.options import FILE, TEXT, form_option
from clusterstacks.csctl.shared.registry_options import ServerTrust, open_registry, trust_options
from clusterstacks.csctl.shared.release_ref import sorted_releases

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from clusterstacks.deliver.render.renderer import Renderer
    from clusterstacks.model.errors import ClusterStacksError
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.net.oci.reference import Reference
    from clusterstacks.release.sources.oci_copy import Copied, Repository

LIST_FILE = click.Path(dir_okay=False, writable=True, allow_dash=True, path_type=Path)
STANDARD_OUTPUT = Path("-")

_LAYOUT: Final = re.compile(r"oci-layout:(?P<path>.+?)(?::(?P<tag>[^/:@]+))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?")
_WILDCARDS: Final = frozenset("*?[")
SHOWN_TAGS: Final = 5
"""Tags in a message (arbitrary)."""


@dataclass(frozen=True, slots=True)
class CopyPlace:
    """A repository of a registry or a directory in OCI image layout, and the releases that are named in it."""

    repository: Reference | Path
    """The repository, without tag and digest, or the directory."""
    tag: str
    """Name of a release, or a shell pattern for names; empty for none."""
    digest: str
    """Digest of the manifest; empty for none."""

    @classmethod
    def parse(cls, text: str) -> CopyPlace:
        """Parse ``registry/repository[:tag][@digest]`` or ``oci-layout:directory[:tag][@digest]``."""
        from clusterstacks.net.oci.reference import Reference

        if layout := _LAYOUT.fullmatch(text):
            return cls(Path(layout["path"]), layout["tag"] or "", layout["digest"] or "")
        place, _, pattern = text.rpartition(":")
        if _WILDCARDS.isdisjoint(pattern) or "/" in pattern:
            reference = Reference.parse(text)
            return cls(reference.at(""), reference.tag, reference.digest)
        return cls(Reference.parse(place), pattern, "")

    @property
    def is_pattern(self) -> bool:
        """True if the tag is a pattern."""
        return not _WILDCARDS.isdisjoint(self.tag)

    def __str__(self) -> str:
        return f"oci-layout:{self.repository}" if isinstance(self.repository, Path) else str(self.repository)

    async def releases(self, source: Repository) -> list[ReleaseName]:
        """Return the releases that the tag selects, sorted; one that is named may not exist.

        Raises:
            SpecError: The repository has no release that matches the pattern.
        """
        from clusterstacks.model.documents import and_more
        from clusterstacks.model.errors import SpecError
        from clusterstacks.model.names import parse_release

        if not self.is_pattern:
            return [parse_release(self.tag)]
        tags = await source.tags()
        releases, _ = sorted_releases(fnmatch.filter(tags, self.tag))
        if not releases:
            what = "no release" if self.tag == "*" else f"no release with a name like {self.tag}"
            raise SpecError("NoReleaseMatches", f"{self} has {what}; its tags: {and_more(tags, SHOWN_TAGS) or 'none'}")
        return releases


@dataclass(frozen=True, slots=True)
class CopiedRelease:
    """A release that was copied, and its name in the target."""

    name: ReleaseName
    place: str
    result: Copied
    images: Sequence[str]
    """Its container images; empty unless they were requested."""

    def document(self) -> dict[str, object]:
        """Return the JSON form, without images."""
        return {
            "release": self.name.release,
            "reference": self.place,
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
        return sorted({image for release in self.copied for image in release.images})


@click.command(short_help="Copy releases to another registry or a directory.")
@click.argument("origin", metavar="REF|oci-layout:DIR")
@click.argument("target", metavar="REF|oci-layout:DIR")
@click.option("--all", "every", is_flag=True, help="Copy every release of the first REF or DIR, without a name.")
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
    """Copy releases from one registry to another, or to and from a directory, byte for byte.

    Their signatures and the files of their node images are copied as well.

    The first REF is registry/repository:release; the release can be a pattern such as 'local-shop-1-3*', in quotes, and
    a digest (@sha256:...) can follow its name. The second REF is registry/repository, with the same tag or without a
    tag. Existing content is not sent again; a tag with other content is never overwritten.

    oci-layout:DIR is a directory in OCI image layout, for example on a disk that crosses an air gap, in place of either
    REF; ':release' or a pattern can follow DIR. Digests are verified when it is read. Nothing in it is deleted.

    With a pattern or --all, a failure does not stop the other releases. The failures are listed at the end.

    --images lists the images of pod templates only, with their registries: it cannot find images that an operator in
    the cluster takes from a custom resource.
    """
    chosen, sink = selected(CopyPlace.parse(origin), every=every), CopyPlace.parse(target)
    if sink.digest:
        raise click.UsageError("expected a target without a digest")
    if sink.tag not in ("", chosen.tag):
        raise click.UsageError(f"the tag of a release is its name: remove :{sink.tag}")
    if isinstance(chosen.repository, Path) and isinstance(sink.repository, Path):
        raise click.UsageError("both are directories (expected a registry as origin or target)")
    trusts = [_trust(side, trust, sides) for side in ("from", "to")]
    run = output.run_counted(_copy(chosen, sink, trusts, list_images=images is not None))
    if form != TEXT:
        _print_document(run, images, form, single=not chosen.is_pattern)
    else:
        _print(run, images)
    return _exit_code(run)


def selected(place: CopyPlace, *, every: bool) -> CopyPlace:
    """Return the place with a name or pattern of releases.

    Raises:
        SpecError: The name is not the name of a release.
        UsageError: It is missing, or cannot be combined with ``every``.
    """
    from clusterstacks.model.names import parse_release

    if every and (place.tag or place.digest):
        raise click.UsageError(f"--all cannot be combined with a release (expected {place})")
    if not every and not place.tag:
        raise click.UsageError(f"the release is missing (expected {place}:<release name>, a pattern, or --all)")
    if not every and not place.is_pattern:
        parse_release(place.tag)
    return CopyPlace(place.repository, place.tag or "*", place.digest)


def _print(run: CopyRun, images: Path | None) -> None:
    # With the list on standard output, everything else goes to standard error.
    report = output.note if images == STANDARD_OUTPUT else output.say
    for release in run.copied:
        what = "copied to" if release.result.new else "already exists with the same content:"
        report(f"{release.name} {what} {release.place}@{release.result.digest}")
        report(f"signatures and other attached documents: {release.result.signatures}")
        output.note_some("not copied", release.result.problems)
    if images:
        output.print_text(_lines(run.images), None if images == STANDARD_OUTPUT else images)


def _print_document(run: CopyRun, images: Path | None, form: str, *, single: bool) -> None:
    if single:
        document = run.copied[0].document()
    else:
        failed = [{"release": name.release, "error": error.message} for name, error in run.failed]
        document = {"releases": [release.document() for release in run.copied], "failed": failed}
    listed = {"images": run.images} if images == STANDARD_OUTPUT else {}
    output.print_document(document | listed, form)
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


@asynccontextmanager
async def _opened(place: CopyPlace, trust: ServerTrust, *, new: bool) -> AsyncIterator[Repository]:
    from clusterstacks.release.sources.image_layout import ImageLayout

    if isinstance(place.repository, Path):
        yield ImageLayout.open(place.repository, new=new)
        return
    async with open_registry(place.repository, trust) as registry:
        yield registry


async def _copy(chosen: CopyPlace, target: CopyPlace, trusts: Sequence[ServerTrust], *, list_images: bool) -> CopyRun:
    from clusterstacks.deliver.render.renderer import Renderer
    from clusterstacks.model.errors import ClusterStacksError
    from clusterstacks.release.sources import oci_copy

    copied: list[CopiedRelease] = []
    failed: list[tuple[ReleaseName, ClusterStacksError]] = []
    renderer = Renderer()
    async with (
        AsyncExitStack() as resources,
        _opened(chosen, trusts[0], new=False) as source,
        _opened(target, trusts[1], new=True) as sink,
    ):
        resources.push_async_callback(renderer.close)
        for name in await chosen.releases(source):
            try:
                result = await oci_copy.copy(source, chosen.digest or name.release, sink, name.release)
                images = await _images(result.digest, name, renderer, sink, source) if list_images else ()
            except ClusterStacksError as error:
                if not chosen.is_pattern:
                    raise
                failed.append((name, error))
                output.note(f"{name} was not copied")
            else:
                copied.append(CopiedRelease(name, sink.place(name.release), result, images))
    return CopyRun(tuple(copied), tuple(failed))


async def _images(digest: str, name: ReleaseName, renderer: Renderer, *places: Repository) -> list[str]:
    """Return the images of a release with their registries, as tools that copy images need them."""
    from clusterstacks.csctl.authoring.render_release import published_images
    from clusterstacks.net.oci.reference import Reference
    from clusterstacks.net.oci.registry import Registry

    registry = next(place for place in places if isinstance(place, Registry))
    images = await published_images(registry, digest, name, renderer)
    return [str(Reference.parse_image(image)) for image in images]
