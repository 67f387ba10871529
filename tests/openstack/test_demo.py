"""``csctl demo --openstack`` as its users type it: a release waits for its image, and clients show both."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from clusterstacks.dev.demo.openstack_scenario import IMAGE, IMAGE_NAME
from tests.support.running.csctl import demo_output

if TYPE_CHECKING:
    from pathlib import Path


def test_release_waits_for_its_image_and_the_clients_show_it(tmp_path: Path) -> None:
    told = demo_output(tmp_path, "--openstack")

    assert f"Image {IMAGE_NAME}: Starting image upload" in told
    assert re.search(r"openstack-demo-1-35-v1 +True +Ready +v1\.35\.4 +1/1 ", told)
    assert re.search(r"default +imaged +True +openstack-demo-1-35-v1 ", told)
    assert re.search(rf"\| {IMAGE_NAME} +\| active \|", told)
    assert f"os_hash_value='{hashlib.sha512(IMAGE).hexdigest()}'" in re.sub(r"[ |\n]+", "", told)
    assert "need Nova and Neutron, which do not run here" in told
