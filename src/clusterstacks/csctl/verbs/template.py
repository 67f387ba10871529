"""``csctl template``: print the objects of a stack or release as the operator renders them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.options import (
    JSON,
    chart_dependencies,
    dependency_options,
    example_objects_option,
    form_option,
    kubernetes_option,
)
from clusterstacks.csctl.shared.registry_options import ServerTrust, trust_options
from clusterstacks.csctl.shared.release_ref import DIRECTORY_OR_REF, open_release_directory

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from clusterstacks.csctl.authoring.example_objects import ExampleObjects
    from clusterstacks.csctl.shared.release_ref import DirectoryOrRef
    from clusterstacks.deliver.render.renderer import Renderer
    from clusterstacks.model.objects import Manifest
    from clusterstacks.release.release import Release


def _charts(options: TemplateOptions) -> tuple[str, ...] | None:
    """Return the directories of the charts to render; None for all."""
    if options.class_only or options.sample:
        return ("cluster-class",)
    if not options.addons:
        return None
    return ("cluster-class", "cluster-addon", *(f"cluster-addon/{addon}" for addon in options.addons))


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateOptions:
    """Options of the command line."""

    source: DirectoryOrRef
    cluster: Path | None
    addons: tuple[str, ...]
    class_only: bool
    values: bool
    images: bool
    sample: bool
    kubernetes: str
    dependencies: str
    offline: bool
    trust: ServerTrust
    form: str


@dataclass(frozen=True, slots=True)
class Objects:
    """Manifests; ``written`` is their YAML text if it has comments."""

    objects: tuple[Manifest, ...]
    written: str = ""

    def text(self) -> str:
        """Return a stream of YAML documents, with their comments if there are any."""
        from clusterstacks.model import yaml

        return self.written or "".join(f"---\n{yaml.dump(manifest)}" for manifest in self.objects)

    def document(self) -> object:
        """Return a Kubernetes list, as 'kubectl get -o json' prints."""
        return {"apiVersion": "v1", "kind": "List", "items": self.objects}


@dataclass(frozen=True, slots=True)
class Values:
    """Values of addons: YAML text by addon."""

    texts: Mapping[str, str]

    def text(self) -> str:
        """Return a stream of YAML documents."""
        texts = {name: text.strip() or "{}" for name, text in self.texts.items()}
        return "".join(f"---\n# values of addon {name}\n{text}\n" for name, text in texts.items())

    def document(self) -> object:
        """Return the values by addon."""
        from clusterstacks.model import yaml

        return {name: yaml.load(text, name=f"values of addon {name}") or {} for name, text in self.texts.items()}


@dataclass(frozen=True, slots=True)
class Images:
    """References of container images, sorted."""

    images: tuple[str, ...]

    def text(self) -> str:
        """Return one image per line."""
        return "".join(f"{image}\n" for image in self.images)

    def document(self) -> object:
        """Return the references as a JSON list."""
        return self.images


@click.command(short_help="Print the rendered objects of a stack or release.")
@click.argument("source", metavar="DIR|REF", type=DIRECTORY_OR_REF)
@example_objects_option
@click.option("--addon", "addons", metavar="NAME", multiple=True, help="Print only this addon; repeatable.")
@click.option("--class", "class_only", is_flag=True, help="Print only the class.")
@click.option("--values", is_flag=True, help="Print the values of the addons instead of objects.")
@click.option("--images", is_flag=True, help="Print the container images of the objects, one per line.")
@click.option("--sample", is_flag=True, help="Print the example objects as a file for --cluster.")
@kubernetes_option
@dependency_options
@trust_options
@form_option("yaml", JSON)
def template(trust: ServerTrust, **arguments: Any) -> None:  # noqa: ANN401 - click passes the options above
    """Print the objects of the class and the addons as the operator renders them.

    DIR is a stack directory or a release directory. REF is a reference to a release as for 'csctl pull'; --ca and
    --plain-http are for its server.

    Values templates (overwrite.yaml) are rendered with the objects of --cluster, otherwise with example objects made
    for the class. Values of Secrets are printed.
    """
    options = TemplateOptions(**arguments, trust=trust)
    if options.class_only + options.values + options.images + options.sample > 1:
        raise click.UsageError("--class, --values, --images and --sample cannot be combined")
    if options.addons and (options.class_only or options.sample):
        raise click.UsageError("--addon cannot be combined with --class or --sample")
    result = output.run_counted(_result(options))
    if options.form == JSON:
        output.print_json(result.document())
    else:
        output.print_text(result.text())


async def _result(options: TemplateOptions) -> Objects | Values | Images:
    import asyncio
    from contextlib import AsyncExitStack
    from functools import partial

    from clusterstacks.csctl.authoring.example_objects import read_example_objects
    from clusterstacks.csctl.authoring.open_directory import open_as_release
    from clusterstacks.csctl.building.discover import newest_patch
    from clusterstacks.deliver.render.renderer import Renderer

    async with AsyncExitStack() as resources:
        file = options.cluster
        examples = read_example_objects(await asyncio.to_thread(file.read_bytes), str(file)) if file else None
        web = await resources.enter_async_context(ServerTrust().web())
        newest = partial(newest_patch, web)
        dependencies = chart_dependencies(web, options.dependencies, offline=options.offline)
        directory = await resources.enter_async_context(open_release_directory(options.source, options.trust))
        opened = open_as_release(
            directory, newest, kubernetes=options.kubernetes, dependencies=dependencies, charts=_charts(options)
        )
        release = await resources.enter_async_context(opened)
        renderer = Renderer()
        resources.push_async_callback(renderer.close)
        return await _rendered(options, release, renderer, examples)


async def _rendered(
    options: TemplateOptions, release: Release, renderer: Renderer, examples: ExampleObjects | None
) -> Objects | Values | Images:
    from clusterstacks.csctl.authoring.example_objects import make_example_objects
    from clusterstacks.csctl.authoring.render_release import render_class, render_release
    from clusterstacks.model import yaml

    if options.sample:
        made = make_example_objects(release.name, release.metadata.kubernetes, await render_class(release, renderer))
        return Objects(tuple(yaml.load_all(made.text())), made.text())
    if options.class_only:
        return Objects(await render_class(release, renderer))
    rendered = await render_release(release, renderer, examples=examples, only=options.addons)
    if options.values:
        return Values({name: addon.values for name, addon in rendered.addons.items()})
    if options.images:
        return Images(rendered.images)
    addon_objects = [manifest for addon in rendered.addons.values() for manifest in addon.objects]
    return Objects(tuple(addon_objects if options.addons else [*rendered.class_objects, *addon_objects]))
