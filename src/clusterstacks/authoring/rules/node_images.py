"""The list of node images (FORMATS 12), as a build will check it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.authoring.findings import LintRule, LintSeverity
from clusterstacks.authoring.rules.messages import fault_of
from clusterstacks.building.node_image_list import check_node_images
from clusterstacks.domain.errors import SpecError
from clusterstacks.releases.release import NODE_IMAGES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.authoring.findings import Fault
    from clusterstacks.authoring.stack import LintedStack

PLUGIN_LIST = "node-images/config.yaml"
"""What the OpenStack plugin copies to node-images.yaml, once it has filled in addresses of images it built."""


def listed(stack: LintedStack) -> Iterator[Fault]:
    """The list of node images is one its readers take."""
    if stack.settings is None:
        return
    for path in (PLUGIN_LIST, NODE_IMAGES):
        if path not in stack.tree:
            continue
        try:
            check_node_images(stack.content(path), stack.settings.provider)
        except SpecError as error:
            message = error.message.replace(NODE_IMAGES, path, 1)
            if path == NODE_IMAGES or ".url is " not in message:
                yield fault_of(stack, message, path, "see the format of node-images.yaml")


RULES = (
    LintRule("node-images", LintSeverity.ERROR, "The node images are listed as the provider's format wants.", listed),
)
