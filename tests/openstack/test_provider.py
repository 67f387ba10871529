"""The operator as the OpenStack provider: the sample manifests of the provider written in Go, with a real Glance."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.openstack.conftest import IMAGE, without_operator
from tests.support.running.kubectl import Kubectl
from tests.support.running.operator_process import OPERATOR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.openstack.conftest import Cloud, Origin, Tenant

DEFINITIONS = Path(__file__).parents[2] / "charts" / "cluster-stack-operator" / "files" / "crds-openstack"
API = "infrastructure.clusterstack.x-k8s.io/v1alpha1"
TEMPLATE = "OpenStackClusterStackReleaseTemplate"
UPLOADED, PRESENT = "ubuntu-capi-image-v1.27.8", "Present Image"


@pytest.fixture
def provider(cloud: Cloud, tmp_path: Path) -> Iterator[None]:
    """Replace the operator of the environment by one with ``--providers openstack``."""
    Kubectl(cloud.state.kubeconfig, "default")("apply", "--server-side", f"--filename={DEFINITIONS}")
    log = tmp_path / "operator.log"
    with without_operator(cloud) as arguments, log.open("wb") as output:
        command = [sys.executable, *OPERATOR, *arguments, "--providers=openstack"]
        with subprocess.Popen(command, stderr=output) as running:
            yield
            running.terminate()


@pytest.mark.usefixtures("provider")
async def test_sample_manifests_upload_one_image_and_use_the_other_and_neither_is_deleted(
    cloud: Cloud, origin: Origin, tenant: Callable[[str], Tenant], tmp_path: Path
) -> None:
    (tmp_path / "present.raw").write_bytes(b"uploaded by somebody else")
    formats = ("--disk-format=raw", "--container-format=bare", f"--file={tmp_path / 'present.raw'}")
    cloud.client("image", "create", PRESENT, *formats)
    one = tenant("ferrol")
    one.add_secret()
    reference = {"apiVersion": API, "kind": TEMPLATE, "name": "cspotemplate"}
    spec = {"template": {"spec": {"identityRef": {"kind": "Secret", "name": "openstack"}}}}
    template = {"apiVersion": API, "kind": TEMPLATE, "metadata": {"name": "cspotemplate"}, "spec": spec}
    one.kubectl("apply", "-f-", manifest=template)
    sha256 = hashlib.sha256(IMAGE).hexdigest()
    one.create_listed({UPLOADED: f"{origin.url}/image", PRESENT: f"{origin.url}/nothing"}, sha256, tmp_path)
    one.subscribe("v1", providerRef=reference)
    await one.ready(seconds=120)

    (release,) = one.kubectl.get("oscsr")["items"]
    images = {item["spec"]["image"]["createOpts"]["name"]: item for item in one.kubectl.get("osnir")["items"]}
    assert [item["status"]["ready"] for item in (release, *images.values())] == [True] * 3
    name = "openstack-ferrol-1-35-ubuntu-capi-image-v1.27.8-v1"
    assert images[UPLOADED]["metadata"]["name"] == name
    uploaded = cloud.image(one.image(name)["status"]["id"])
    assert uploaded["properties"]["os_hash_value"] == hashlib.sha512(IMAGE).hexdigest()
    (present,) = json.loads(cloud.client("image", "list", f"--name={PRESENT}", "--format=json"))
    assert one.image(images[PRESENT]["metadata"]["name"])["status"]["id"] == present["ID"]

    one.kubectl("delete", "clusterstack", one.name)
    one.kubectl("wait", "--for=delete", "osnir", "--all", "--timeout=60s")
    one.kubectl("wait", "--for=delete", "images.openstack.k-orc.cloud", "--all", "--timeout=60s")
    assert {uploaded["id"], present["ID"]} <= {*cloud.images()}
