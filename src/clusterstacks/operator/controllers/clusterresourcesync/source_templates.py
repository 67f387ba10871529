"""Renders the values of a source for one Cluster, as the values templates of addons."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from dataclasses import replace
from typing import TYPE_CHECKING

from clusterstacks.deliver.apply.source_objects import SourceObjects, read_source, source_texts
from clusterstacks.deliver.render.errors import NotStarted, RenderFailed, RenderTimeout, WorkerDied
from clusterstacks.model.kinds.clusterapi import root_objects, template_data
from clusterstacks.model.kinds.clusterresourcesync import SyncSourceKind

if TYPE_CHECKING:
    from clusterstacks.deliver.render.renderer import Renderer
    from clusterstacks.model.objects import Manifest, ObjectKey


async def render_source(
    renderer: Renderer, kind: str, key: ObjectKey, source: Manifest | None, cluster: Manifest
) -> SourceObjects:
    """Return the objects of a source, whose values are templates, for a Cluster.

    A value that cannot be rendered is a fault of the source.

    Raises:
        DependencyError: No render worker is free, or can be started.
    """
    if source is None:
        return await asyncio.to_thread(read_source, kind, key, None)
    # The objects that a Cluster refers to are not read for a sync.
    data = {"Cluster": template_data(root_objects(cluster, None, None))["Cluster"]}
    texts, faults = await asyncio.to_thread(source_texts, kind, key, source), []
    for name, text in texts.items():
        label = f"{kind} {key}, key {name}"
        try:
            texts[name] = await renderer.template(text, data, label=label, file=name)
        except NotStarted:
            raise
        except (RenderFailed, RenderTimeout, WorkerDied) as error:
            # A message of Helm quotes the template.
            is_quoted = kind == SyncSourceKind.SECRET and isinstance(error, RenderFailed)
            faults.append(f"{label}: is not a valid template (a Secret is not quoted)" if is_quoted else error.message)
            texts[name] = ""
    objects = await asyncio.to_thread(read_source, kind, key, _with_texts(kind, source, texts))
    return replace(objects, faults=(*faults, *objects.faults))


def _with_texts(kind: str, source: Manifest, texts: dict[str, str]) -> Manifest:
    """Return a source with other values; those that cannot be decoded stay, and are reported when it is read."""
    if kind == SyncSourceKind.SECRET:
        encoded = {name: b64encode(text.encode(errors="surrogatepass")).decode() for name, text in texts.items()}
        return {**source, "data": {**(source.get("data") or {}), **encoded}}
    binary = {name: value for name, value in (source.get("binaryData") or {}).items() if name not in texts}
    return {**source, "data": {**(source.get("data") or {}), **texts}, "binaryData": binary}
