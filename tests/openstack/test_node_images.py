"""Releases with node images on the real OpenStack Resource Controller (ORC), Keystone and Glance.

The first test needs an environment without Images, because it removes their definition.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from clusterstacks.dev import capi_managers, process_records, restart
from tests.openstack.conftest import IMAGE
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.openstack.conftest import Cloud, Tenant

SHA256 = hashlib.sha256(IMAGE).hexdigest()
OTHER = hashlib.sha256(b"another image").hexdigest()
CRD = "images.openstack.k-orc.cloud"


async def test_release_waits_for_orc_and_is_ready_after_its_installation(
    cloud: Cloud, origin: str, tenant: Callable[[str], Tenant], tmp_path: Path
) -> None:
    one = tenant("early")
    one.add_secret()
    record = process_records.read(cloud.state.records, "orc")
    assert record
    process_records.end([record])
    one.kubectl("delete", "crd", CRD)
    one.publish("v1", f"{origin}/image", SHA256, tmp_path)
    one.subscribe("v1")

    async def refused() -> str:
        seen = one.condition("Ready")
        assert "Image" in seen.get("message", ""), seen
        return str(seen["message"])

    print(await eventually(refused, seconds=60))
    manifests = capi_managers.manifests(capi_managers.ORC)
    one.kubectl("apply", "--server-side", "-f", str(manifests / "crds" / "openstack.k-orc.cloud_images.yaml"))
    print(await one.reason("NodeImagesPending"))
    restart.ask(cloud.state, restart.RestartRequest("orc"))
    await one.ready()


async def test_release_is_ready_when_glance_has_the_image_with_its_hash(
    cloud: Cloud, origin: str, tenant: Callable[[str], Tenant], tmp_path: Path
) -> None:
    one = tenant("happy")
    one.add_secret()
    one.publish("v1", f"{origin}/image", SHA256, tmp_path)
    one.subscribe("v1")
    await one.ready()

    image = cloud.image(one.image()["status"]["id"])
    assert (image["status"], image["size"]) == ("active", len(IMAGE))
    assert image["properties"]["os_hash_value"] == hashlib.sha512(IMAGE).hexdigest()
    assert one.condition("NodeImagesAvailable")["status"] == "True"
    table = one.kubectl("get", "clusterstackreleases")
    assert "1/1" in table, table


async def test_wrong_hash_truncated_file_and_missing_file_are_failures_with_a_remedy(
    cloud: Cloud, origin: str, tenant: Callable[[str], Tenant], tmp_path: Path
) -> None:
    faults = {"wronghash": ("/image", OTHER), "truncated": ("/truncated", SHA256), "missing": ("/missing", SHA256)}
    tried = [tenant(name) for name in faults]
    for one, (path, sha256) in zip(tried, faults.values(), strict=True):
        one.add_secret()
        one.publish("v1", f"{origin}{path}", sha256, tmp_path)
        one.subscribe("v1")
    for one in tried:
        message = await one.reason("NodeImagesFailed", seconds=120)
        print(one.name, message)
        assert "delete the Image to begin again" in message
        assert one.condition("Ready")["status"] == "False"
        assert cloud.image(one.image()["status"]["id"])["status"] != "active"


async def test_release_of_a_failed_image_is_ready_after_the_remedy(
    origin: str, tenant: Callable[[str], Tenant], tmp_path: Path
) -> None:
    """TODO: publish the right file, delete the Image."""


async def test_secret_that_comes_late(origin: str, tenant: Callable[[str], Tenant], tmp_path: Path) -> None:
    one = tenant("late")
    one.publish("v1", f"{origin}/image", SHA256, tmp_path)
    one.subscribe("v1")

    async def named() -> str:
        seen = one.condition("NodeImagesAvailable")
        assert "Secret" in seen.get("message", ""), seen
        return str(seen)

    print(await eventually(named, seconds=60))
    one.add_secret()
    await one.ready()


async def test_image_stays_while_one_of_two_releases_has_it(
    cloud: Cloud, origin: str, tenant: Callable[[str], Tenant], tmp_path: Path
) -> None:
    one = tenant("shared")
    one.add_secret()
    for version in ("v1", "v2"):
        one.publish(version, f"{origin}/image", SHA256, tmp_path)
    one.subscribe("v1", "v2")
    await one.ready("v1")
    await one.ready("v2")
    before = one.image()

    one.subscribe("v2")

    async def gone() -> bool:
        return not one.condition("Ready", "v1")

    await eventually(gone, seconds=60)
    await one.ready("v2")
    after = one.image()
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["status"]["id"] in cloud.images()


async def test_image_deleted_in_glance(
    cloud: Cloud, origin: str, tenant: Callable[[str], Tenant], tmp_path: Path
) -> None:
    one = tenant("deleted")
    one.add_secret()
    one.publish("v1", f"{origin}/image", SHA256, tmp_path)
    one.subscribe("v1")
    await one.ready()
    cloud.client("image", "delete", one.image()["status"]["id"])
