"""``csctl bundle``: carry releases, images and the installation across an air gap in one image layout."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from clusterstacks.cli.shared import output
from clusterstacks.cli.shared.cluster_options import installed_facts_directory
from clusterstacks.cli.shared.options import DIRECTORY, JSON, NEW_DIRECTORY, form_option
from clusterstacks.cli.shared.registry_options import ServerTrust, open_registry, trust_options
from clusterstacks.cli.shared.release_ref import ReleaseSelection, sorted_releases

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from clusterstacks.domain.errors import ClusterStacksError
    from clusterstacks.oci.reference import Reference
    from clusterstacks.sources.image_layout import ImageLayout, LayoutRepository

STACKS = "stacks"
OPERATOR = "cluster-stack-operator"
CHART = f"charts/{OPERATOR}"
FILES = "cluster-stack-files"
"""Repositories in the layout. All others are those of images: ``<registry>/<repository>``."""

MAX_IMAGES = 2000
"""Most images of a bundle (arbitrary: ten times those of a large stack)."""


@dataclass(slots=True)
class BundleRun:
    """State of a run: the sizes of what it reads or writes, and what failed.

    Args:
        sizes: The sizes of the manifests and blobs of each entry, by name and digest.
        failed: Errors by the name of what failed.
        new: Whether an entry that was pushed did not exist before.
    """

    sizes: dict[str, dict[str, int]] = field(default_factory=dict)
    failed: dict[str, ClusterStacksError] = field(default_factory=dict)
    new: dict[str, bool] = field(default_factory=dict)

    @contextmanager
    def noting(self, name: str) -> Iterator[None]:
        """Note an error, so that the others are still done."""
        from clusterstacks.domain.errors import ClusterStacksError

        try:
            yield
        except ClusterStacksError as error:
            self.failed[name] = error
            output.note(f"{name} failed")

    @property
    def total(self) -> int:
        """Number of bytes of all entries; shared blobs count once."""
        return sum({digest: size for sizes in self.sizes.values() for digest, size in sizes.items()}.values())

    def document(self) -> dict[str, object]:
        """Return the JSON form."""
        entries = [{"name": name, "bytes": sum(sizes.values())} for name, sizes in sorted(self.sizes.items())]
        for entry in entries:
            if entry["name"] in self.new:
                entry["new"] = self.new[str(entry["name"])]
        failed = [{"name": name, "error": error.message} for name, error in sorted(self.failed.items())]
        return {"entries": entries, "bytes": self.total, "failed": failed}

    def exit_code(self) -> int:
        """Print the failures; return the exit code."""
        if not self.failed:
            return 0
        lines = [f"{name}: {error.message}" for name, error in sorted(self.failed.items())]
        return output.show_failures(lines, f"{len(lines)} failed; run the command again", [*self.failed.values()])


@click.group(short_help="Carry releases and images across an air gap.")
def bundle() -> None:
    """Write releases, the images that they name and the installation into one image layout, and push it elsewhere."""


@bundle.command(short_help="Write an image layout.")
@click.argument("layout", metavar="LAYOUT", type=NEW_DIRECTORY)
@click.argument("sources", metavar="DIR|REF...", nargs=-1, required=True)
@click.option("--image", metavar="REF", default="", help="The image of the operator, with its tag.")
@click.option("--dry-run", is_flag=True, help="Only list the content and its size.")
@trust_options
@form_option()
def create(trust: ServerTrust, layout: Path, sources: tuple[str, ...], image: str, *, dry_run: bool, form: str) -> int:
    """Write releases with their signatures, their container images, and the installation into the directory LAYOUT.

    DIR is a release directory or a directory of releases. REF is registry/repository:release; the release can be a
    pattern such as 'local-shop-1-3*' or '*', in quotes. Images are copied for all platforms. csctl cannot find images
    that an operator in the cluster takes from a custom resource. The layout also contains the chart of the operator,
    its CustomResourceDefinitions and the compatibility facts of this csctl.

    Existing blobs in LAYOUT are not downloaded again, so an interrupted run can be repeated. The same content gives the
    same layout digest. --ca and --plain-http are for the registries of REF and --image.
    """
    import asyncio
    from tempfile import TemporaryDirectory

    from clusterstacks.sources.image_layout import ImageLayout

    chosen = [Path(one) if Path(one).is_dir() else ReleaseSelection.parse(one, every=False) for one in sources]
    run = BundleRun()
    with TemporaryDirectory(prefix="csctl-") as scratch:
        target = ImageLayout.create(Path(scratch) if dry_run else layout)
        asyncio.run(_Bundling(target, run, trust, dry_run=dry_run).run(chosen, image))
        digest = target.save()
        run.sizes |= {name: target.sizes(entry) for name, entry in target.entries.items()}
    if form == JSON:
        output.print_json({"layout": str(layout), "digest": None if dry_run else digest, **run.document()})
    else:
        _print_sizes(run)
        what = f"would be written to {layout}" if dry_run else f"{layout} has the digest {digest}"
        output.say(f"{output.megabytes(run.total)} in {len(run.sizes)} entries: {what}")
    if not image:
        output.note("the image of the operator is not included: name it with --image")
    return run.exit_code()


@bundle.command(short_help="Push an image layout to a registry.")
@click.argument("layout", metavar="LAYOUT", type=DIRECTORY)
@click.argument("prefix", metavar="REGISTRY[/PREFIX]")
@click.option("--dry-run", is_flag=True, help="Only list the content and its size, without any request.")
@trust_options
@form_option()
def push(trust: ServerTrust, layout: Path, prefix: str, *, dry_run: bool, form: str) -> int:
    """Push a layout of 'csctl bundle create' to a registry.

    Releases are pushed to PREFIX/stacks, the image of the operator to PREFIX/cluster-stack-operator, its chart to
    PREFIX/charts/cluster-stack-operator, CustomResourceDefinitions and facts to PREFIX/cluster-stack-files, and other
    images to PREFIX/<registry>/<repository>. Digests are verified before anything is sent. Existing content is not sent
    again, so an interrupted run can be repeated. A release with other content is never overwritten.
    """
    import asyncio

    from clusterstacks.domain.errors import SpecError
    from clusterstacks.oci.reference import Reference
    from clusterstacks.sources.image_layout import ImageLayout

    opened, run = ImageLayout.open(layout), BundleRun()
    if not opened.entries:
        problem = f"{layout} has no entries, because 'csctl bundle create' did not end: run it again"
        raise SpecError("LayoutEmpty", problem)
    for name, entry in opened.entries.items():
        run.sizes[name] = opened.sizes(entry)
    targets = {name: Reference.parse(f"{prefix.rstrip('/')}/{name}") for name in opened.repositories()}
    if not dry_run:
        asyncio.run(_push(opened, targets, trust, run))
    if form == JSON:
        output.print_json({"layout": str(layout), "prefix": prefix, **run.document()})
    else:
        _print_sizes(run)
        what = f"would be pushed to {prefix}" if dry_run else f"pushed to {prefix}"
        output.say(f"{output.megabytes(run.total)} in {len(run.sizes)} entries: {what}")
    return run.exit_code()


def _print_sizes(run: BundleRun) -> None:
    entries = sorted(run.sizes.items())
    rows = [(name, output.megabytes(sum(sizes.values())), _state(run, name)) for name, sizes in entries]
    if any(state for _, _, state in rows):
        output.print_table(("NAME", "SIZE", "STATE"), rows)
    else:
        output.print_table(("NAME", "SIZE"), [row[:2] for row in rows])


def _state(run: BundleRun, name: str) -> str:
    if name in run.failed:
        return "failed"
    return {True: "pushed", False: "exists"}[run.new[name]] if name in run.new else ""


@dataclass(frozen=True, slots=True)
class _Bundling:
    """Fills a layout."""

    layout: ImageLayout
    result: BundleRun
    trust: ServerTrust
    dry_run: bool

    async def run(self, sources: Iterable[Path | ReleaseSelection], image: str) -> None:
        from clusterstacks.installer.bundle_artifacts import add_chart, add_files
        from clusterstacks.oci.reference import Reference

        own = set()
        for source in sources:
            if isinstance(source, Path):
                await self._add_directory(source)
            else:
                own.add(source.repository.registry)
                await self._add_published(source)
        await add_chart(self.layout.repository(CHART))
        await add_files(self.layout.repository(FILES), installed_facts_directory())
        images: dict[Reference, tuple[str, bool]] = {}
        if image:
            operator = Reference.parse_image(image)
            own.add(operator.registry)
            images[operator] = (OPERATOR, True)
        for reference in await self._images():
            images.setdefault(reference, (f"{reference.registry.replace(':', '_')}/{reference.repository}", False))
        for reference, (repository, signatures) in images.items():
            trust = self.trust if reference.registry in own else ServerTrust()
            with self.result.noting(str(reference)):
                await self._add_image(reference, repository, trust, signatures=signatures)

    async def _add_directory(self, directory: Path) -> None:
        import asyncio
        import os

        from clusterstacks.sources.oci_publish import publish_with_signatures

        for release in await asyncio.to_thread(_release_directories, directory):
            with self.result.noting(release.name):
                await publish_with_signatures(release, self.layout.repository(STACKS), os.environ)

    async def _add_published(self, chosen: ReleaseSelection) -> None:
        from clusterstacks.sources import oci_copy

        async with open_registry(chosen.repository, self.trust) as here:
            for name in await chosen.releases(here):
                with self.result.noting(name.release):
                    target = self.layout.repository(STACKS)
                    copied = await oci_copy.copy(here, chosen.digest or name.release, target, name.release)
                    output.note_some(f"{name}: not copied", copied.problems)

    async def _images(self) -> list[Reference]:
        """Return the images of all releases in the layout."""
        from clusterstacks.authoring.render_release import published_images
        from clusterstacks.domain.errors import SpecError
        from clusterstacks.oci.reference import Reference
        from clusterstacks.render.renderer import Renderer

        stacks, found = self.layout.repository(STACKS), set[Reference]()
        names, _ = sorted_releases(await stacks.tags())
        renderer = Renderer()
        try:
            for name in names:
                with self.result.noting(f"images of {name}"):
                    images = await published_images(stacks, name, renderer)
                    found |= {Reference.parse_image(image) for image in images}
        finally:
            await renderer.close()
        if len(found) > MAX_IMAGES:
            raise SpecError("TooManyImages", f"the releases name more than {MAX_IMAGES} images: choose fewer releases")
        return sorted(found, key=str)

    async def _add_image(self, reference: Reference, repository: str, trust: ServerTrust, *, signatures: bool) -> None:
        from clusterstacks.sources import oci_copy

        wanted = reference.digest or reference.tag
        async with open_registry(reference, trust) as here:
            if self.dry_run:
                name = str(reference.at(reference.tag or wanted)).replace(reference.place, repository, 1)
                self.result.sizes[name] = await oci_copy.image_sizes(here, wanted)
                return
            target = self.layout.repository(repository)
            await oci_copy.copy_image(here, wanted, target, reference.tag or wanted, signatures=signatures)


def _release_directories(directory: Path) -> list[Path]:
    """Return the directory itself if it is a release, otherwise the releases in it."""
    from clusterstacks.authoring.open_directory import is_release_directory
    from clusterstacks.domain.errors import SpecError

    root = directory.resolve()
    if is_release_directory(root):
        return [root]
    names, _ = sorted_releases(one.name for one in root.iterdir() if is_release_directory(one))
    if not names:
        problem = f"{directory} is not a release and contains none"
        raise SpecError("NoRelease", f"{problem}: use the directory of 'csctl create' or 'csctl pull'")
    return [root / name.release for name in names]


async def _push(layout: ImageLayout, targets: dict[str, Reference], trust: ServerTrust, run: BundleRun) -> None:
    from clusterstacks.sources import oci_copy

    for name, reference in targets.items():
        source = layout.repository(name)
        async with open_registry(reference, trust) as there:
            for target in [one for one in source.targets() if await _is_root(source, one)]:
                entry = f"{name}{'@' if target.startswith('sha256:') else ':'}{target}"
                with run.noting(entry):
                    if name == STACKS:
                        copied = await oci_copy.copy(source, target, there, target)
                    else:
                        copied = await oci_copy.copy_image(source, target, there, target, signatures=True)
                    run.new[entry] = copied.new
                    output.note_some(f"{entry}: not pushed", copied.problems)


async def _is_root(source: LayoutRepository, target: str) -> bool:
    """Return whether an entry is not a signature or another document, which is pushed with its subject."""
    if target.startswith("sha256-"):
        return False
    return not target.startswith("sha256:") or (await source.manifest(target)).subject is None
