"""A toy provider: the node image of a release is a file in a directory, downloaded and compared with its SHA-256.

Run it with ``python provider.py KUBECONFIG DIRECTORY``. docs/how-to/write-a-provider.md explains it.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

from clusterstacks.model.objects import rfc3339
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.errors import Conflict, NotFound
from clusterstacks.net.kube.kubeconfig import load_kubeconfig
from clusterstacks.net.pool import Pool
from clusterstacks.runtime.cache import CacheChange, key_of
from clusterstacks.runtime.controller import Controller
from clusterstacks.runtime.informer import Informer
from clusterstacks.runtime.metrics import Metrics
from clusterstacks.runtime.process import run_until_signal

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest, ObjectKey

GROUP = "infrastructure.clusterstack.x-k8s.io"
FINALIZER = f"toy.{GROUP}"
PAUSED = "cluster.x-k8s.io/paused"
MOVED = "clusterctl.cluster.x-k8s.io/delete-for-move"
RETRY = timedelta(seconds=30)


class ToyProvider:
    """Downloads the image of each object, and deletes it with the object."""

    def __init__(self, client: Client, directory: Path) -> None:
        self.client = client
        self.directory = directory
        self.objects = Informer(client, GROUP, "ToyClusterStackRelease")
        self.controller = Controller("toy", self.reconcile, workers=1, metrics=Metrics())
        self.objects.subscribe(self.changed)

    def changed(self, change: CacheChange) -> None:
        """Reconcile an object unless only its status changed, which this provider writes itself."""
        wishes = [(one["metadata"]["generation"], annotations_of(one)) for one in (change.old, change.new) if one]
        if len(wishes) == 1 or wishes[0] != wishes[1]:
            self.controller.enqueue(change.key)

    async def reconcile(self, key: ObjectKey) -> timedelta | None:
        """Bring the image of one object to the state that the object wants; return when to try again."""
        live = self.objects.cache.get(key)
        if live is None or PAUSED in annotations_of(live):
            return None
        with suppress(NotFound):  # deleted in the meantime
            return await (self.delete(live) if "deletionTimestamp" in live["metadata"] else self.provide(live))
        return None

    async def provide(self, live: Manifest) -> timedelta | None:
        """Download the image unless it is there."""
        live = await self.hold(live, held=True)
        image, url, wanted = image_of(self.directory, live), live["spec"]["url"], live["spec"]["sha256"]
        if sha256(image) != wanted:
            live = await self.report(live, "False", "Downloading", f"downloading {url}")
            fault = await asyncio.to_thread(download, url, wanted, image)
            if fault:
                await self.report(live, "False", "DownloadFailed", f"{fault}; trying again every {RETRY.seconds} s")
                return RETRY
        await self.report(live, "True", "Available", "")
        return None

    async def delete(self, live: Manifest) -> None:
        """Delete the image, unless the object was moved: then another management cluster has it."""
        if MOVED not in annotations_of(live):
            image_of(self.directory, live).unlink(missing_ok=True)
        await self.hold(live, held=False)

    async def hold(self, live: Manifest, *, held: bool) -> Manifest:
        """Add or remove our finalizer; the resource version keeps those that others write at the same time."""
        while (FINALIZER in (names := live["metadata"].get("finalizers") or [])) != held:
            other = [*names, FINALIZER] if held else [one for one in names if one != FINALIZER]
            metadata = {"finalizers": other, "resourceVersion": live["metadata"]["resourceVersion"]}
            try:
                live = await self.patch(live, {"metadata": metadata})
            except Conflict:
                live = await self.client.get(self.objects.resource, *reversed(key_of(live)))
        return live

    async def report(self, live: Manifest, ready: str, reason: str, message: str) -> Manifest:
        """Write the status, unless it is the same as before."""
        before = (live.get("status") or {}).get("conditions") or [{}]
        changed = before[0].get("status") != ready
        since = rfc3339(datetime.now(UTC)) if changed else before[0]["lastTransitionTime"]
        condition = {"type": "Ready", "status": ready, "reason": reason, "message": message}
        status = {"ready": ready == "True", "conditions": [{**condition, "lastTransitionTime": since}]}
        return live if live.get("status") == status else await self.patch(live, {"status": status}, "status")

    async def patch(self, live: Manifest, patch: Manifest, subresource: str = "") -> Manifest:
        """Patch an object and return it."""
        namespace, name = key_of(live)
        return await self.client.merge_patch(self.objects.resource, name, patch, namespace, subresource=subresource)


def annotations_of(live: Manifest) -> Manifest:
    """Return the annotations; of PAUSED and MOVED only the presence counts, not the value."""
    return live["metadata"].get("annotations") or {}


def image_of(directory: Path, live: Manifest) -> Path:
    """Return the file of an object: the same in every management cluster, as it does not depend on the uid."""
    return directory / ".".join(key_of(live))


def sha256(image: Path) -> str:
    """Return the digest of an image; empty if there is none."""
    if not image.exists():
        return ""
    with image.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def download(url: str, wanted: str, image: Path) -> str:
    """Download an image; return why it cannot be used, or an empty text. A file that is there is complete."""
    part = image.with_name(f"{image.name}.part")
    try:
        with urlopen(url, timeout=60) as response, part.open("wb") as file:
            shutil.copyfileobj(response, file)
    except (OSError, ValueError) as error:
        return f"{url} cannot be downloaded: {error}"
    if sha256(part) != wanted:
        return f"{url} has the SHA-256 {sha256(part)}, not {wanted}"
    part.rename(image)
    return ""


async def main(kubeconfig: Path, directory: Path) -> None:
    """Run until SIGTERM."""
    async with Pool() as pool:
        provider = ToyProvider(Client(load_kubeconfig([kubeconfig]), pool, user_agent="toy-provider"), directory)
        await run_until_signal({"watch": provider.objects.run, "controller": provider.controller.run})


if __name__ == "__main__":
    asyncio.run(main(*map(Path, sys.argv[1:3])))
