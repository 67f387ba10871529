"""Reads the annotations of a Cluster that take addons from another release than that of its class.

``clusterstack.x-k8s.io/addon-release`` names the release of all addons, ``clusterstack.x-k8s.io/addon.<addon>`` that of
one addon. The latter takes precedence over the former, and the former over the class.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING

from clusterstacks.model.documents import and_more, shown
from clusterstacks.model.errors import SpecError
from clusterstacks.model.files.addon_config import AddonConfig, LifecycleHook, Stage, StageAction
from clusterstacks.model.names import InvalidName, ReleaseName, parse_class, parse_release

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

RELEASE_ANNOTATION = "clusterstack.x-k8s.io/addon-release"
ADDON_ANNOTATION = "clusterstack.x-k8s.io/addon."
"""Followed by the addon's name."""

NO_RELEASE = "none"
"""Value that excludes an addon."""

MOST_ANNOTATIONS = 512
"""Most annotations about addons that are read from one Cluster. Arbitrary: far above the addons of any release; each
costs some microseconds whenever Clusters are listed."""

MOST_RELEASES = 32
"""Most releases for the addons of one cluster. Arbitrary: far above any use. Each may cost a request to the API server,
and the 256 KiB of an object's annotations could name thousands."""

SHOWN_FAULTS = 3
"""Ineffective annotations that a message lists (arbitrary)."""

SHOWN_ADDONS = 10
"""Addons that a message lists (arbitrary: most releases have fewer)."""

COMPARED_ADDONS = 50
"""Addons that a misspelt annotation is compared with. Arbitrary: this takes at most 20 ms."""


class AddonReleaseRefused(SpecError):
    """An annotation names a release that cannot provide the addons."""

    def __init__(self, message: str) -> None:
        super().__init__("AddonReleaseRefused", message)


@dataclass(frozen=True, slots=True)
class RequestedReleases:
    """The releases that the addons of a cluster should come from."""

    release: ReleaseName
    """Release of all addons without an annotation of their own; by default that of the class."""
    addons: Mapping[str, ReleaseName | None]
    """Releases of single addons; None excludes an addon."""

    def releases(self) -> tuple[ReleaseName, ...]:
        """Return all needed releases, sorted."""
        return tuple(sorted({self.release, *(name for name in self.addons.values() if name is not None)}))

    def sources(self, offered: Mapping[ReleaseName, Collection[str]]) -> dict[str, ReleaseName]:
        """Return the release of each addon; ``offered`` are the addons of each release.

        Raises AddonReleaseRefused if a release does not contain an addon that an annotation takes from it.
        """
        sources = dict.fromkeys(offered[self.release], self.release)
        for addon, release in self.addons.items():
            if release is None:
                sources.pop(addon, None)
                continue
            if addon not in offered[release]:
                present = ", ".join(sorted(offered[release])) or "none"
                problem = f"release {release} has no addon {addon}, it has {present}"
                raise AddonReleaseRefused(f"annotation {ADDON_ANNOTATION}{addon}: {problem}; correct the annotation")
            sources[addon] = release
        return dict(sorted(sources.items()))


def without_effect(annotations: Mapping[str, str], addons: Collection[str]) -> list[str]:
    """Return messages about annotations without effect, with what to write instead; sorted and limited in number.

    These are misspelt annotations (``.../addons.network``) and those that exclude an addon that does not exist.
    ``addons`` are those of the Cluster's releases; empty if they are unknown.
    """
    faults = [(key, fault) for key in sorted(annotations) if (fault := _fault(key, annotations[key], addons))]
    written = [ADDON_ANNOTATION + addon for addon in islice(sorted(addons), COMPARED_ADDONS)]
    messages = [f"{fault}: {_advice(key, written)}" for key, fault in faults[:SHOWN_FAULTS]]
    if not faults:
        return []
    if addons:
        messages[-1] += f"; the addons are {and_more(sorted(addons), SHOWN_ADDONS)}"
    return [*messages, *([f"and {len(faults) - SHOWN_FAULTS} more"] if len(faults) > SHOWN_FAULTS else [])]


def _fault(key: str, value: str, addons: Collection[str]) -> str:
    if key.startswith(ADDON_ANNOTATION):
        excluded = key.removeprefix(ADDON_ANNOTATION)
        absent = value == NO_RELEASE and addons and excluded not in addons
        return f"annotation {key} excludes addon {shown(excluded)}, which does not exist" if absent else ""
    is_near = key.lower().startswith(ADDON_ANNOTATION.removesuffix("."))
    return f"annotation {key} is not read" if is_near and key != RELEASE_ANNOTATION else ""


def _advice(key: str, written: Sequence[str]) -> str:
    """Return the nearest annotation; names are compared without the group, which all of them share."""
    names = {name.rpartition("/")[2]: name for name in (*written, RELEASE_ANNOTATION)}
    near = get_close_matches(key.rpartition("/")[2].lower(), names, 1)
    if near:
        return f"write {names[near[0]]}"
    return f"write {ADDON_ANNOTATION}<addon>, or {RELEASE_ANNOTATION} for all addons"


def read_requested_releases(annotations: Mapping[str, str], own: ReleaseName) -> RequestedReleases:
    """Parse the annotations of a Cluster; ``own`` is the release of its class.

    Raises AddonReleaseRefused if a value is not a release of the class's provider and stack, or there are more than
    :data:`MOST_ANNOTATIONS` annotations or :data:`MOST_RELEASES` releases.
    """
    release = own
    addons: dict[str, ReleaseName | None] = {}
    read = list(islice(_about_addons(annotations), MOST_ANNOTATIONS + 1))
    if len(read) > MOST_ANNOTATIONS:
        raise AddonReleaseRefused(
            f"more than {MOST_ANNOTATIONS} annotations {ADDON_ANNOTATION}* are not read: remove those of addons that "
            "come from the release of the class"
        )
    for key, value in sorted(read):
        if key == RELEASE_ANNOTATION:
            release = _release(key, value, own)
        else:
            named = None if value == NO_RELEASE else _release(key, value, own)
            addons[key.removeprefix(ADDON_ANNOTATION)] = named
    requested = RequestedReleases(release, addons)
    if (count := len(requested.releases())) > MOST_RELEASES:
        raise AddonReleaseRefused(
            f"the annotations {ADDON_ANNOTATION}* take addons from {count} releases, but a cluster can have addons of "
            f"at most {MOST_RELEASES} releases: use fewer releases"
        )
    return requested


def releases_named(annotations: Mapping[str, str], own: ReleaseName) -> tuple[ReleaseName, ...]:
    """Return all releases whose addons a Cluster may have, including that of its class; invalid values are skipped.

    If there are more annotations than the limit, the first ones count.
    """
    named = {own}
    for key, value in islice(_about_addons(annotations), MOST_ANNOTATIONS):
        with suppress(AddonReleaseRefused):
            named.add(_release(key, value, own))
        if len(named) > MOST_RELEASES:
            break
    return tuple(sorted(named))


def annotations_digest(annotations: Mapping[str, str]) -> str:
    """Return a short digest of a Cluster's annotations about addons; other annotations do not change it.

    It has only 64 bits, because users copy it into commands; it compares two states of a Cluster and is not used for
    security.
    """
    text = json.dumps(sorted(_about_addons(annotations)), separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _about_addons(annotations: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    return (
        (key, value)
        for key, value in annotations.items()
        if key == RELEASE_ANNOTATION or key.startswith(ADDON_ANNOTATION)
    )


def combined_config(
    own: AddonConfig, sources: Mapping[str, ReleaseName], configs: Mapping[ReleaseName, AddonConfig], home: ReleaseName
) -> AddonConfig:
    """Return the stages of a cluster: in the order of its class, with the conditions of each addon's own release.

    ``own`` and ``home`` are the stages and the name of the class's release. An addon without a release in ``sources``
    is excluded. An addon that the class does not contain comes last, with the stages of its own release.
    """
    borrowed = {addon: configs[release] for addon, release in sources.items() if release != home}
    stages = {hook: list(_ordered(own, hook, sources, borrowed)) for hook in LifecycleHook}
    for addon in sorted(borrowed.keys() - set(own.addons())):
        for hook in LifecycleHook:
            stages[hook] += [stage for stage in borrowed[addon].stages[hook] if stage.addon == addon]
    return replace(own, stages={hook: tuple(ordered) for hook, ordered in stages.items()})


def _ordered(
    own: AddonConfig, hook: LifecycleHook, sources: Mapping[str, ReleaseName], borrowed: Mapping[str, AddonConfig]
) -> list[Stage]:
    stages: list[Stage] = []
    for stage in own.stages[hook]:
        if stage.addon in borrowed:
            # A stage of the class that deletes an addon means the class's own addon.
            if stage.action is StageAction.APPLY:
                stages.append(_conditions_of(stage, borrowed[stage.addon].stages[hook]))
        elif stage.addon in sources or stage.action is StageAction.DELETE:
            stages.append(stage)
    return stages


def _conditions_of(stage: Stage, theirs: Collection[Stage]) -> Stage:
    same = next((other for other in theirs if (other.addon, other.action) == (stage.addon, stage.action)), None)
    return Stage(stage.addon, stage.action) if same is None else same


def _release(key: str, value: str, own: ReleaseName) -> ReleaseName:
    release = _named(value)
    if release is None:
        raise AddonReleaseRefused(
            f"annotation {key}: {shown(value)} is not a valid release (expected for example {own.release}); correct or "
            "remove the annotation"
        )
    if not release.same_stack(own):
        raise AddonReleaseRefused(
            f"annotation {key}: release {release} belongs to another cluster stack than {own}; name a release of "
            f"{own.provider}-{own.stack}"
        )
    return release


def _named(value: str) -> ReleaseName | None:
    """Parse the name of a release or of its class."""
    for parse in (parse_release, parse_class):
        with suppress(InvalidName):
            return parse(value)
    return None
