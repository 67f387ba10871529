"""``csctl bundle``: an image layout from one real registry to another one."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from clusterstacks.http.client import HTTPClient
from clusterstacks.oci.credentials import RegistryCredentials
from clusterstacks.oci.reference import Reference
from clusterstacks.oci.registry import Registry
from clusterstacks.sources.image_layout import ImageLayout
from tests.support.builders.image_layouts import push_image
from tests.support.servers.registries import PASSWORD, USERNAME, registry, secure_registry

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.servers.registries import RegistryServer

__all__ = ["registry", "secure_registry"]  # fixtures

NAME = "local-shop-1-35-v1"
PODS = """\
apiVersion: v1
kind: Pod
metadata: {{name: web, namespace: default}}
spec:
  containers:
  - {{name: web, image: "{host}/apps/web:1.0"}}
  - {{name: pinned, image: "{host}/apps/db@{digest}"}}
"""


@dataclass(frozen=True, slots=True)
class Site:
    """The connected side: a signed release in a registry, whose pod has an image of two platforms."""

    root: Path
    registry: RegistryServer
    web: str
    pinned: str

    @property
    def sources(self) -> tuple[str, ...]:
        return (f"{self.registry.host}/connected/stacks:*", "--image", f"{self.registry.host}/kaas/operator:v1")

    def run(self, *arguments: object, typed: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "clusterstacks.cli.main", *map(str, arguments)],
            cwd=self.root,
            env={"PATH": os.environ["PATH"], "HOME": str(self.root)},
            input=typed,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    def done(self, *arguments: object, typed: str = "") -> str:
        run = self.run(*arguments, typed=typed)
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, registry: RegistryServer) -> Site:
    root = tmp_path_factory.mktemp("site")
    web, pinned = (asyncio.run(push_image(registry, f"apps/{name}", "1.0")) for name in ("web", "db"))
    asyncio.run(push_image(registry, "kaas/operator", "v1"))
    site = Site(root, registry, web, pinned)
    site.done("init", "local/shop/1-35")
    stack = root / "providers/local/shop/1-35"
    (stack / "cluster-addon/info/templates/pod.yaml").write_text(PODS.format(host=registry.host, digest=pinned))
    site.done("create", stack, "--remote", "none")
    site.done("sign", "--new-key", "key")
    site.done("sign", f".release/{NAME}", "--key", "key")
    site.done("push", f".release/{NAME}", f"{registry.host}/connected/stacks")
    return site


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_release_images_and_installation_arrive_behind_an_air_gap(
    site: Site, secure_registry: RegistryServer, tmp_path: Path
) -> None:
    ca, isolated = tmp_path / "ca.pem", f"{secure_registry.host}/behind"
    ca.write_text(secure_registry.ca)
    login = ("login", secure_registry.host, "-u", USERNAME, "--password-stdin", "--ca", ca)
    site.done(*login, typed=PASSWORD)
    images = f"{site.registry.host.replace(':', '_')}/apps"

    planned = json.loads(site.done("bundle", "create", "carried", *site.sources, "--dry-run", "-o", "json"))
    assert not (site.root / "carried").exists()
    made = json.loads(site.done("bundle", "create", "carried", *site.sources, "-o", "json"))
    listed = json.loads(site.done("bundle", "push", "carried", isolated, "--dry-run", "-o", "json"))
    pushed = json.loads(site.done("bundle", "push", "carried", isolated, "--ca", ca, "-o", "json"))
    again = json.loads(site.done("bundle", "push", "carried", isolated, "--ca", ca, "-o", "json"))

    assert {entry["name"] for entry in made["entries"]} >= {
        "charts/cluster-stack-operator:0.1.0",
        "cluster-stack-files:0.1.0",
        "cluster-stack-operator:v1",
        f"stacks:{NAME}",
        f"{images}/web:1.0",
        f"{images}/db@{site.pinned}",
    }
    assert planned["bytes"] == made["bytes"] == listed["bytes"] == pushed["bytes"] > 2_000_000
    new = [entry["new"] for entry in pushed["entries"] if "new" in entry]
    assert new
    assert all(new)
    assert not any(entry.get("new") for entry in again["entries"])
    site.done("verify", f"{isolated}/stacks:{NAME}", "--key", "key.pub", "--ca", ca)

    async def found(repository: str, target: str) -> str | None:
        async with HTTPClient(ca=secure_registry.ca) as web:
            reference = Reference(secure_registry.host, f"behind/{repository}")
            return await Registry(web, reference, RegistryCredentials(USERNAME, PASSWORD)).head(target)

    assert asyncio.run(found(f"{images}/web", "1.0")) == site.web
    assert asyncio.run(found(f"{images}/db", site.pinned)) == site.pinned
    assert asyncio.run(found(f"{images}/db", "1.0")) is None
    assert asyncio.run(found("cluster-stack-operator", "v1")) is not None
    assert asyncio.run(found("charts/cluster-stack-operator", "0.1.0")) is not None


def test_layout_is_reproducible_and_continues_where_it_stopped(site: Site) -> None:
    first = json.loads(site.done("bundle", "create", "first", *site.sources, "-o", "json"))
    before = files(site.root / "first")
    largest = max((site.root / "first" / "blobs" / "sha256").iterdir(), key=lambda file: file.stat().st_size)
    largest.write_bytes(b"cut off")
    (site.root / "first" / "blobs" / "sha256" / ("0" * 64)).write_bytes(b"not needed")

    repaired = json.loads(site.done("bundle", "create", "first", *site.sources, "-o", "json"))
    second = json.loads(site.done("bundle", "create", "second", *site.sources, "-o", "json"))
    local = json.loads(site.done("bundle", "create", "local", ".release", *site.sources[1:], "-o", "json"))

    assert first["digest"] == repaired["digest"] == second["digest"] == local["digest"]
    assert files(site.root / "first") == files(site.root / "second") == before


def test_layout_of_an_interrupted_run_is_not_pushed(site: Site) -> None:
    ImageLayout.create(site.root / "interrupted")

    refused = site.run("bundle", "push", "interrupted", f"{site.registry.host}/nothing")

    assert (refused.returncode, refused.stdout) == (2, "")
    assert "interrupted has no entries, because 'csctl bundle create' did not end: run it again" in refused.stderr


def test_damaged_layout_is_not_pushed(site: Site) -> None:
    site.done("bundle", "create", "damaged", ".release")
    blobs = site.root / "damaged" / "blobs" / "sha256"
    layer = max(blobs.iterdir(), key=lambda file: file.stat().st_size)
    layer.write_bytes(layer.read_bytes()[:-1] + b"x")

    run = site.run("bundle", "push", "damaged", f"{site.registry.host}/damaged")

    assert run.returncode == 2
    assert f"blob sha256:{layer.name} has other content; create or copy the layout again" in run.stderr


def test_failure_of_an_image_is_listed_and_does_not_stop_the_others(site: Site) -> None:
    image = f"{site.registry.host}/kaas/operator:missing"

    run = site.run("bundle", "create", "partial", ".release", "--image", image)

    assert run.returncode == 1
    assert f"Error: 1 failed; run the command again:\n  {image}: " in run.stderr
    assert f"stacks:{NAME}" in run.stdout
    assert "apps/web:1.0" in run.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("create", ".", ".release"), "has other content: choose a new or empty directory"),
        (("create", "new", "providers"), "is not a release and contains none"),
        (("create", "new", "registry.example.org/kaas/stacks"), "the release is missing"),
        (("push", "providers", "mirror.example.net"), "is not a layout of 'csctl bundle create'"),
    ],
)
def test_wrong_argument_is_refused_before_anything_is_written(
    site: Site, arguments: tuple[str, ...], message: str
) -> None:
    run = site.run("bundle", *arguments)

    assert run.returncode == 2
    assert message in run.stderr
    assert not (site.root / "blobs").exists()
