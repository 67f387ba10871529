"""``csctl demo --openstack`` as its users type it: a release waits for its images, and clients show both."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from clusterstacks.dev.demo.openstack_scenario import BUILT_NAME, IMAGE_NAME
from tests.support.running.csctl import demo_output

if TYPE_CHECKING:
    from pathlib import Path


def test_release_waits_for_its_images_and_the_clients_show_it(tmp_path: Path) -> None:
    told = demo_output(tmp_path, "--openstack")

    assert f"Image {IMAGE_NAME}: Starting image upload" in told
    assert "building worker" in told
    assert re.search(r"openstack-demo-1-35-v1 +True +Ready +v1\.35\.4 +2/2 ", told)
    assert re.search(r"default +imaged +True +openstack-demo-1-35-v1 ", told)
    for image in (IMAGE_NAME, BUILT_NAME):
        assert re.search(rf"\| {image} +\| active \|", told)
    assert "need Nova and Neutron, which do not run here" in told
