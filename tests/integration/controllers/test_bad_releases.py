"""Damaged releases: reported with file, cause and remedy, isolated, and usable once corrected."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from clusterstacks.model.kinds.names import Kind
from tests.support.builders.releases import gzipped, tar_of
from tests.support.builders.stacks import TinyStack, config_map, templates
from tests.support.running.world import is_ready, is_unready

if TYPE_CHECKING:
    from collections.abc import Callable

    from clusterstacks.model.names import ReleaseName
    from tests.support.running.world import World

CLASS, ADDON = "cluster-class", "cluster-addon-"
FILES = {"metadata.yaml": "", "clusteraddon.yaml": "", CLASS: "-cluster-class-v1.tgz", ADDON: "-cluster-addon-v1.tgz"}


def gone(_: bytes) -> None:
    """The file is not there."""


def half(content: bytes) -> bytes:
    return content[: len(content) // 2]


def holding(content: bytes) -> Callable[[bytes], bytes]:
    return lambda _: content


def climbing(_: bytes) -> bytes:
    return gzipped(tar_of(("../../evil", b"x")))


def linked(_: bytes) -> bytes:
    def link(member: object) -> None:
        member.type, member.linkname, member.size = b"2", "/etc/passwd", 0  # type: ignore[attr-defined]

    return gzipped(tar_of(("cni/passwd", b""), change=link))


def exploding(_: bytes) -> bytes:
    return gzipped(tar_of(("cni/zeros", b"\0" * 200_000_000)))


def bomb() -> bytes:
    """A billion items in a few hundred bytes."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 9)]
    return "\n".join(lines).encode()


CASES: dict[str, tuple[str, Callable[[bytes], bytes | None], str]] = {
    "metadata.yaml is missing": ("metadata.yaml", gone, "metadata.yaml is missing (the release contains"),
    "metadata.yaml is truncated": ("metadata.yaml", half, "metadata.yaml, line 2:"),
    "metadata.yaml is empty": (
        "metadata.yaml",
        holding(b""),
        "metadata.yaml: the document is missing: write a mapping",
    ),
    "metadata.yaml is a list": (
        "metadata.yaml",
        holding(b"[]"),
        "metadata.yaml: the document is a list: write a mapping",
    ),
    "metadata.yaml has no versions": (
        "metadata.yaml",
        holding(b"apiVersion: metadata.clusterstack.x-k8s.io/v1alpha1"),
        "versions is missing: write a mapping",
    ),
    "metadata.yaml has numbers for versions": (
        "metadata.yaml",
        holding(b'{"versions": {"clusterStack": 1, "kubernetes": 1.35}}'),
        "versions.clusterStack is 1: write a version like v3",
    ),
    "metadata.yaml is not text": ("metadata.yaml", holding(b"\xff\xfe\x00"), "metadata.yaml: is not UTF-8 at byte 0"),
    "metadata.yaml is of another version": (
        "metadata.yaml",
        lambda content: content.replace(b'"v1"', b'"v7"', 1),
        "publish the release under its own name",
    ),
    "metadata.yaml multiplies itself": ("metadata.yaml", holding(bomb()), "metadata.yaml"),
    "clusteraddon.yaml is missing": ("clusteraddon.yaml", gone, "a release contains one of them, so build it again"),
    "clusteraddon.yaml is truncated": ("clusteraddon.yaml", half, "clusteraddon.yaml, line 1:"),
    "clusteraddon.yaml is a list": (
        "clusteraddon.yaml",
        holding(b"[1]"),
        "clusteraddon.yaml: the document is a list: write a mapping",
    ),
    "clusteraddon.yaml has text for stages": (
        "clusteraddon.yaml",
        holding(b"addonStages: none"),
        "addonStages is 'none': write a mapping",
    ),
    "clusteraddon.yaml has an unknown action": (
        "clusteraddon.yaml",
        holding(b"addonStages: {AfterControlPlaneInitialized: [{name: cni, action: explode}]}"),
        "[0].action is 'explode': write apply or delete",
    ),
    "clusteraddon.yaml names a path": (
        "clusteraddon.yaml",
        holding(b"addonStages: {AfterControlPlaneInitialized: [{name: ../cni, action: apply}]}"),
        "name is '../cni': use the name of the chart's directory",
    ),
    "the class chart is missing": (CLASS, gone, "-cluster-class-v1.tgz is missing (the release contains"),
    "the class chart is truncated": (CLASS, half, "-cluster-class-v1.tgz is truncated; build the release again"),
    "the class chart is empty": (CLASS, holding(b""), "-cluster-class-v1.tgz is truncated; build the release again"),
    "the class chart is no archive": (
        CLASS,
        holding(b"#!/bin/sh\nrm -rf /\n"),
        "is damaged or not a gzip file; build the release again",
    ),
    "the class chart climbs out": (CLASS, climbing, "member '../../evil' leaves the archive; build"),
    "the addons are missing": (ADDON, gone, "-cluster-addon-v1.tgz is missing (the release contains"),
    "the addons are truncated": (ADDON, half, "-cluster-addon-v1.tgz is truncated; build the release again"),
    "the addons are no archive": (
        ADDON,
        holding(b"PK\x03\x04"),
        "is damaged or not a gzip file; build the release again",
    ),
    "the addons climb out": (ADDON, climbing, "member '../../evil' leaves the archive; build"),
    "the addons hold a link": (ADDON, linked, "member 'cni/passwd' is a symbolic link; build"),
    "the addons explode": (ADDON, exploding, "more than the limit of 16777216; build the release again"),
    "the addons lack a chart": (
        ADDON,
        holding(gzipped(tar_of(("csi/Chart.yaml", b"apiVersion: v2\nname: csi\nversion: 1.0.0\n")))),
        "add the chart or remove the stage",
    ),
}


def file_of(name: ReleaseName, file: str) -> str:
    return f"{name.series}{FILES[file]}" if FILES[file] else file


async def damaged_until_corrected(world: World, stack: TinyStack, case: str) -> None:
    file, spoil, words = CASES[case]
    name = stack.release("v1")
    good = stack.files("v1", {"cni": templates(config_map(stack.word))})
    content = spoil(good[file_of(name, file)])
    damaged = {} if content is None else {file_of(name, file): content}
    sound = {path: content for path, content in good.items() if path != file_of(name, file)}
    world.publish(name, sound | damaged)
    await world.create(stack.manifest(world.namespace, "v1"))

    reason = "IssueWithReleaseAssets"
    condition = await world.says(Kind.CLUSTER_STACK_RELEASE, name.release, "ClusterStackReleaseDownloaded", reason)
    assert name.release in condition["message"]
    assert words in condition["message"]
    assert is_unready(await world.get(Kind.CLUSTER_STACK_RELEASE, name.release))

    world.publish(name, good)
    await world.until(Kind.CLUSTER_STACK_RELEASE, name.release, is_ready, nudging=True)


async def test_releases_with_damaged_files_are_not_ready_until_they_are_corrected(world: World) -> None:
    """All at the same time, with one operator: the damaged releases do not delay a sound one."""
    stacks = {case: TinyStack(f"{world.namespace}x{number}") for number, case in enumerate(CASES)}
    async with world.operator():
        work = (damaged_until_corrected(world, stack, case) for case, stack in stacks.items())
        outcomes = await asyncio.gather(*work, world.another_is_ready(), return_exceptions=True)

    failures = zip([*CASES, "a sound release"], outcomes, strict=True)
    assert {case: error for case, error in failures if isinstance(error, BaseException)} == {}
