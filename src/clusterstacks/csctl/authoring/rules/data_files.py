"""Rules for node-images.yaml and compatibility.yaml."""

from __future__ import annotations

import shlex
from contextlib import suppress
from typing import TYPE_CHECKING

from clusterstacks.csctl.authoring.findings import (
    LintProblem,
    LintRule,
    LintSeverity,
    line_of_field,
    problem_of_error,
    problems_of_error,
)
from clusterstacks.csctl.authoring.infer_compat import detect_components
from clusterstacks.csctl.authoring.read_compat import stack_compatibility
from clusterstacks.deliver.apply.orc_images import ignored_fields, orc_images
from clusterstacks.model import yaml
from clusterstacks.model.errors import SpecError
from clusterstacks.model.files.compatibility import FILE
from clusterstacks.model.files.definitions import field_path
from clusterstacks.model.files.node_images import FILE as NODE_IMAGES
from clusterstacks.model.files.node_images import OPENSTACK, SOURCE, read_node_images
from clusterstacks.model.semver import SemVer
from clusterstacks.plan.compat.library import facts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.csctl.authoring.stack import LintedStack
    from clusterstacks.model.files.compatibility import Compatibility
    from clusterstacks.model.files.node_images import OpenStackImage


def node_images(stack: LintedStack) -> Iterator[LintProblem]:
    """Report lists of node images that are not valid for the provider, and downloads that anybody may change."""
    if stack.settings is None:
        return
    for path in _lists(stack):
        try:
            images = read_node_images(yaml.load(stack.content(path), name=NODE_IMAGES), stack.settings.provider)
            orc_images(images, ())
        except SpecError as error:
            message = error.message.replace(NODE_IMAGES, path, 1)
            may_be_built = ".url is missing" in message or ".url is ''" in message
            if path == NODE_IMAGES or not may_be_built:
                yield problem_of_error(stack, message, path, "correct it as the format of node-images.yaml requires")
    for path, at, image in _unverified(stack):
        if image.url.startswith("http://"):
            yield _unchecked(stack, path, at, image)


def image_checksums(stack: LintedStack) -> Iterator[LintProblem]:
    """Report node images without a checksum; ``node-images`` reports those that are downloaded without TLS."""
    for path, at, image in _unverified(stack):
        if not image.url.startswith("http://"):
            yield _unchecked(stack, path, at, image)


def image_fields(stack: LintedStack) -> Iterator[LintProblem]:
    """Report fields of node images for which the OpenStack Resource Controller has none."""
    for path, images in _openstack_images(stack):
        for field in ignored_fields(images):
            problem = f"{field_path(field)} has no effect: the OpenStack Resource Controller has no field for it"
            yield LintProblem(path, line_of_field(stack.content(path), field), problem, "remove it")


def _lists(stack: LintedStack) -> list[str]:
    return [path for path in (SOURCE, NODE_IMAGES) if path in stack.tree]


def _openstack_images(stack: LintedStack) -> Iterator[tuple[str, tuple[OpenStackImage, ...]]]:
    """Yield each list of images for OpenStack that is valid."""
    for path in _lists(stack) if stack.settings is not None and stack.settings.provider == OPENSTACK else ():
        with suppress(SpecError):
            yield path, read_node_images(stack.document(path), OPENSTACK).open_stack_node_images


def _unverified(stack: LintedStack) -> Iterator[tuple[str, int, OpenStackImage]]:
    for path, images in _openstack_images(stack):
        for at, image in enumerate(images):
            if not image.checksum and not image.create_opts.id and not image.file:
                yield path, at, image


def _unchecked(stack: LintedStack, path: str, at: int, image: OpenStackImage) -> LintProblem:
    line = line_of_field(stack.content(path), ("openStackNodeImages", at, "url"))
    problem = f"image {image.create_opts.name} has no checksum: nothing verifies what is downloaded from its URL"
    command = f"curl -fsSL {shlex.quote(image.url)} | sha256sum"
    return LintProblem(path, line, problem, f"add checksum: sha256:HEX, with the digits that this prints: {command}")


def readable(stack: LintedStack) -> Iterator[LintProblem]:
    """Report a compatibility.yaml that is not valid."""
    try:
        stack_compatibility(stack)
    except SpecError as error:
        yield from problems_of_error(stack, error, FILE, "correct it as the format of compatibility.yaml requires")


def complete(stack: LintedStack) -> Iterator[LintProblem]:
    """Report addons without a component in compatibility.yaml, and components of addons that do not exist."""
    stated = _readable(stack)
    if stated is None:
        return
    named = set(stated.addons())
    addons = {chart.addon for chart in stack.addons}
    for addon in sorted(addons - named):
        yield LintProblem(FILE, 1, f"has no component for addon {addon}", f"add a component with addon: {addon}")
    for addon in sorted(named - addons):
        yield LintProblem(
            FILE, 1, f"names addon {addon}, which has no chart", "correct the name, or remove the component"
        )


def own_version(stack: LintedStack) -> Iterator[LintProblem]:
    """Report a range of compatibility.yaml without the Kubernetes version of the stack."""
    stated = _readable(stack)
    if stated is None or stack.settings is None:
        return
    kubernetes = stack.settings.kubernetes
    if not stated.kubernetes.holds((kubernetes.major, kubernetes.minor, kubernetes.patch), kubernetes.pre):
        line = line_of_field(stack.content(FILE), ("kubernetes",))
        problem = f"states the range {stated.kubernetes}, but the stack is made for {kubernetes}"
        yield LintProblem(FILE, line, problem, "widen the range, or correct the Kubernetes version of the stack")


def known_names(stack: LintedStack) -> Iterator[LintProblem]:
    """Report components without a range, and required components, about which there are no upstream facts."""
    stated = _readable(stack)
    if stated is None:
        return
    known = facts().components
    for at, component in enumerate(stated.components):
        if component.kubernetes is None and component.name not in known:
            line = line_of_field(stack.content(FILE), ("components", at, "name"))
            yield LintProblem(
                FILE, line, f"no range is known for {component.name}", "add its kubernetes range, or correct the name"
            )
    stated_names = {component.name for component in stated.components}
    for at, component in enumerate(stated.components):
        for other in sorted(component.requires.keys() - stated_names - known.keys()):
            line = line_of_field(stack.content(FILE), ("components", at, "requires", other))
            yield LintProblem(
                FILE, line, f"{component.name} requires {other}, which is not a known component", "correct the name"
            )


def versions(stack: LintedStack) -> Iterator[LintProblem]:
    """Report components with another version than their chart names."""
    stated = _readable(stack)
    if stated is None:
        return
    try:
        in_charts = {
            (detected.addon, detected.name): detected
            for detected in detect_components(stack, facts())
            if detected.certain
        }
    except SpecError:
        return  # the rule ``dependencies`` reports it
    for at, component in enumerate(stated.components):
        detected = in_charts.get((component.addon, component.name))
        if detected is not None and SemVer.parse(detected.version) != component.version:
            line = line_of_field(stack.content(FILE), ("components", at, "version"))
            problem = f"says {component.name} {component.text}, but {detected.origin} says {detected.version}"
            yield LintProblem(FILE, line, problem, f"write version: {detected.version}")


def _readable(stack: LintedStack) -> Compatibility | None:
    """Read the file; None if it does not exist or is broken, which ``compatibility`` reports."""
    try:
        return stack_compatibility(stack)
    except SpecError:
        return None


RULES = (
    LintRule(
        "node-images",
        LintSeverity.ERROR,
        "The list of node images is valid for the provider, and http URLs have a checksum.",
        node_images,
    ),
    LintRule(
        "image-checksum",
        LintSeverity.WARNING,
        "Every entry of the list of node images has a checksum.",
        image_checksums,
    ),
    LintRule("image-field", LintSeverity.WARNING, "Every field of a node image has an effect.", image_fields),
    LintRule("compatibility", LintSeverity.ERROR, "compatibility.yaml is valid.", readable),
    LintRule(
        "compatibility-addons",
        LintSeverity.ERROR,
        "compatibility.yaml names every addon of the stack and no other.",
        complete,
    ),
    LintRule(
        "compatibility-kubernetes",
        LintSeverity.ERROR,
        "The range of compatibility.yaml contains the Kubernetes version of the stack.",
        own_version,
    ),
    LintRule(
        "compatibility-name",
        LintSeverity.WARNING,
        "Every component has a range, in compatibility.yaml or in the upstream facts.",
        known_names,
    ),
    LintRule(
        "compatibility-version", LintSeverity.WARNING, "Every component has the version that its chart names.", versions
    ),
)
