"""Renders two releases and compares them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.authoring.release_diff import ADDON, Side, compare
from clusterstacks.authoring.render_release import render_release
from clusterstacks.releases.release import addon_label

if TYPE_CHECKING:
    from clusterstacks.authoring.example_objects import Roots
    from clusterstacks.authoring.release_diff import Difference
    from clusterstacks.releases.release import Release
    from clusterstacks.render.renderer import Renderer


async def difference(
    before: Release, after: Release, renderer: Renderer, roots: Roots | None = None
) -> tuple[Difference, tuple[str, ...]]:
    """Compare two releases.

    Addons whose objects differ are rendered a second time: what changes from one rendering of the same chart to the
    next, like a generated certificate, is no difference.

    Args:
        before: The first release.
        after: The second one.
        renderer: Renders.
        roots: What values templates see; None for samples made for the classes.

    Returns:
        The difference, and the addons whose values and objects are not compared, as a chart lacks its dependencies.

    Raises:
        SpecError: A chart or values template is wrong.
        DependencyError: A render worker failed, or a release changed on disk.
    """
    incomplete = tuple(sorted({*_incomplete(before), *_incomplete(after)}))
    one, other = [
        Side(release, await render_release(release, renderer, roots=roots, without=incomplete))
        for release in (before, after)
    ]
    found = compare(one, other)
    parts = {one.part.removeprefix(ADDON) for one in found.objects if one.kind == "changed"} & {*after.addons()}
    if parts:
        found = compare(one, other, await render_release(after, renderer, roots=roots, only=sorted(parts)))
    return found, incomplete


def _incomplete(release: Release) -> set[str]:
    return {addon for addon in release.addons() if addon_label(addon, staged=release.staged) in release.lacking}
