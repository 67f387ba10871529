"""Releases with node images on the real OpenStack Resource Controller (ORC), Keystone and Glance.

The first test needs an environment without Images, because it removes their definition.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from clusterstacks.dev import capi_managers, process_records, restart
from tests.openstack.conftest import IMAGE, without_operator
from tests.support.running.operator_process import MORTAL, ROOT
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.openstack.conftest import Cloud, Origin, Tenant

SHA256 = hashlib.sha256(IMAGE).hexdigest()
OTHER = hashlib.sha256(b"another image").hexdigest()
SIZE = 200_000_000
"""Of an image that takes a second or more; in bytes."""
CRD = "images.openstack.k-orc.cloud"


async def test_release_says_that_orc_is_missing_and_is_ready_after_its_installation(
    cloud: Cloud, origin: Origin, tenant: Callable[[str], Tenant], tmp_path: Path
) -> None:
    one = tenant("early")
    one.add_secret()
    record = process_records.read(cloud.state.records, "orc")
    assert record
    process_records.end([record])
    definition = capi_managers.manifests(capi_managers.ORC) / "crds" / "openstack.k-orc.cloud_images.yaml"
    one.kubectl("delete", "crd", CRD)
    try:
        one.publish("v1", f"{origin.url}/image", SHA256, tmp_path)
        one.subscribe("v1")
        await one.says("Ready", "install the OpenStack Resource Controller (ORC)")
    finally:
        one.kubectl("apply", "--server-side", f"--filename={definition}")
    message = await one.says("NodeImagesAvailable", "Image early has no state yet")
    assert message.endswith("it downloads one image after the other")

    restart.ask(cloud.state, restart.RestartRequest("orc"))
    await one.ready()


async def test_release_is_ready_when_glance_has_the_image_with_its_hash(
    cloud: Cloud, origin: Origin, tenant: Callable[[str], Tenant], tmp_path: Path
) -> None:
    one = tenant("happy")
    one.add_secret()
    one.publish("v1", f"{origin.url}/image", SHA256, tmp_path)
    one.subscribe("v1")
    await one.ready()

    image = cloud.image(one.image()["status"]["id"])
    assert (image["status"], image["size"]) == ("active", len(IMAGE))
    assert image["properties"]["os_hash_value"] == hashlib.sha512(IMAGE).hexdigest()
    assert one.condition("NodeImagesAvailable")["status"] == "True"
    assert "1/1" in one.kubectl("get", "clusterstackreleases")


async def test_forty_images_of_node_images_yaml_are_uploaded_from_a_server_and_from_the_operator(
    cloud: Cloud, origin: Origin, tenant: Callable[[str], Tenant], tmp_path: Path
) -> None:
    one = tenant("listed")
    one.add_secret()
    by_url = {f"url-{number}": f"{origin.url}/image" for number in range(20)}
    files = {f"file-{number}": tmp_path / str(number) for number in range(20)}
    for number, file in enumerate(files.values()):
        file.write_bytes(b"%d" % number * 100_000)
    one.create_listed({**by_url, **files}, SHA256, tmp_path)
    one.subscribe("v1")
    await one.says("NodeImagesAvailable", " more")
    await one.ready(seconds=180)
    assert "40/40" in one.kubectl("get", "clusterstackreleases")
    assert one.condition("NodeImagesAsStated")["status"] == "True"
    for image in ("url-19", "file-19"):
        assert cloud.image(one.image(image)["status"]["id"])["status"] == "active"


async def test_server_that_sends_a_byte_a_second_delays_the_next_image_until_its_image_is_deleted(
    cloud: Cloud, origin: Origin, tenant: Callable[[str], Tenant], tmp_path: Path
) -> None:
    """ORC 2.6 has one worker and no time limit: docs/how-to/quickstart-openstack.md says what to do."""
    slow, moved = tenant("slow"), tenant("moved")
    for one, state in ((slow, "Starting image upload"), (moved, "one image after the other")):
        one.add_secret()
        one.publish("v1", f"{origin.url}/{one.name}", SHA256, tmp_path)
        one.subscribe("v1")
        await one.says("NodeImagesAvailable", state)

    slow.kubectl("delete", "clusterstack", slow.name)
    restart.ask(cloud.state, restart.RestartRequest("orc"))
    slow.kubectl("wait", "--for=delete", f"{CRD}/{slow.name}", "--timeout=60s")
    await moved.ready()  # its server redirects


async def test_operator_that_is_killed_while_it_serves_an_image_serves_it_again(
    cloud: Cloud, tenant: Callable[[str], Tenant], tmp_path: Path
) -> None:
    one = tenant("served")
    one.add_secret()
    file = tmp_path / "large"
    file.write_bytes(b"x" * SIZE)
    one.create_listed({"large": file}, "", tmp_path)
    one.subscribe("v1")
    await one.says("NodeImagesAvailable", "Starting image upload")
    record = process_records.read(cloud.state.records, "operator")
    assert record
    os.kill(record.pid, signal.SIGKILL)
    restart.ask(cloud.state, restart.RestartRequest("operator"))
    await one.ready()
    assert cloud.image(one.image("large")["status"]["id"])["size"] == SIZE


def test_operator_that_is_killed_after_one_write_then_two_and_so_on_uploads_one_image_and_removes_it(
    cloud: Cloud, tenant: Callable[[str], Tenant], tmp_path: Path
) -> None:
    one = tenant("killed")
    one.add_secret()
    file, before = tmp_path / "file", cloud.images()
    file.write_bytes(IMAGE)
    delete = ("delete", "clusterstack", one.name, "--ignore-not-found", "--wait=false")
    one.create_listed({"kept": file}, "", tmp_path)

    def killed_until(done: Callable[[], object]) -> int:
        """Start operators until this is done, each of which may write once more than the one before."""
        lives = 0
        while not done():
            with subprocess.Popen(
                [sys.executable, *MORTAL, str(lives + 1), "of=/killed/", "quick", *arguments], cwd=ROOT
            ) as victim:
                while victim.poll() is None and not done():
                    time.sleep(0.5)
                victim.kill()
            lives += 1
        return lives

    with without_operator(cloud) as arguments:
        # The webhook of an operator that runs is needed for both.
        killed_until(lambda: one.kubectl.tried("apply", "-f-", manifest=one.stack("v1")).returncode == 0)
        lives = killed_until(lambda: one.condition("Ready").get("status") == "True")
        (uploaded,) = {*cloud.images()} - {*before}
        assert cloud.image(uploaded)["status"] == "active"
        killed_until(lambda: one.kubectl.tried(*delete).returncode == 0)
        lives += killed_until(lambda: not one.kubectl.get(f"cskr,{CRD}")["items"])
    assert lives > 4
    assert uploaded not in cloud.images()


async def test_wrong_hash_truncated_file_and_missing_file_are_failures_with_cause_and_remedy(
    cloud: Cloud, origin: Origin, tenant: Callable[[str], Tenant], tmp_path: Path
) -> None:
    faults = {"wronghash": ("/image", OTHER), "truncated": ("/truncated", SHA256), "late": ("/late", SHA256)}
    tried = [tenant(name) for name in faults]
    for one, (path, sha256) in zip(tried, faults.values(), strict=True):
        one.add_secret()
        one.publish("v1", f"{origin.url}{path}", sha256, tmp_path)
        one.subscribe("v1")
    for one in tried:
        message = await one.says("NodeImagesAvailable", "Unable to download content after 5 attempts")
        assert message.startswith(f"Image {one.name}: ")
        assert "download hash verification failed. got: " in message  # ORC also hashes the page of a 404
        assert message.endswith("ORC does not try again: remove the cause, then delete the Image to begin again")
        assert one.condition("NodeImagesAvailable")["reason"] == one.condition("Ready")["reason"] == "NodeImagesFailed"
        assert cloud.image(one.image()["status"]["id"])["status"] == "queued"

    origin.files["/late"] = IMAGE
    one.kubectl("delete", CRD, one.name)
    await one.ready()


async def test_release_waits_for_the_secret_by_name_and_for_its_correction(
    origin: Origin, tenant: Callable[[str], Tenant], tmp_path: Path
) -> None:
    one = tenant("unauthorized")
    one.publish("v1", f"{origin.url}/image", SHA256, tmp_path)
    one.subscribe("v1")
    await one.says("NodeImagesAvailable", "Waiting for Secret/openstack to be created")

    one.add_secret(password="expired")  # a wrong one
    message = await one.says("NodeImagesAvailable", "requires authentication")
    assert "expired" not in message

    one.add_secret()
    await one.ready()


async def test_image_stays_while_one_of_two_releases_has_it(
    cloud: Cloud, origin: Origin, tenant: Callable[[str], Tenant], tmp_path: Path
) -> None:
    one = tenant("shared")
    one.add_secret()
    for version in ("v1", "v2"):
        one.publish(version, f"{origin.url}/image", SHA256, tmp_path)
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
    assert cloud.image(after["status"]["id"])["status"] == "active"

    one.kubectl("delete", "clusterstack", one.name)
    one.kubectl("wait", "--for=delete", f"{CRD}/{one.name}", "--timeout=60s")
    assert after["status"]["id"] not in cloud.images()


async def test_image_that_was_deleted_in_glance_comes_back_when_its_image_object_is_deleted(
    cloud: Cloud, origin: Origin, tenant: Callable[[str], Tenant], tmp_path: Path
) -> None:
    """ORC 2.6 does not look at an available image again, so the release stays ready until then."""
    one = tenant("deleted")
    one.add_secret()
    one.publish("v1", f"{origin.url}/image", SHA256, tmp_path)
    one.subscribe("v1")
    await one.ready()
    lost = one.image()["status"]["id"]
    cloud.client("image", "delete", lost)
    assert one.condition("Ready")["status"] == "True"

    one.kubectl("delete", CRD, one.name)

    async def uploaded() -> bool:
        return bool(one.image().get("status", {}).get("id", lost) != lost)

    await eventually(uploaded, seconds=60)
    await one.ready()
    assert cloud.image(one.image()["status"]["id"])["status"] == "active"


async def test_namespaces_of_one_project_share_an_image_of_one_name(
    origin: Origin, tenant: Callable[[str], Tenant], tmp_path: Path
) -> None:
    """ORC adopts what has the name, and deletes it with either Image: docs/how-to/quickstart-openstack.md warns."""
    first, second = tenant("first"), tenant("second")
    for one in (first, second):
        one.add_secret()
    first.publish("v1", f"{origin.url}/image", SHA256, tmp_path)
    first.subscribe("v1")
    await first.ready()

    second.publish("v1", f"{origin.url}/nothing", OTHER, tmp_path, image=first.name)
    second.subscribe("v1")
    await second.ready()
    (adopted,) = second.kubectl.get(CRD)["items"]
    assert adopted["status"]["id"] == first.image()["status"]["id"]
