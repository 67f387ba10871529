"""What two releases differ in: files, versions, values and rendered objects."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from clusterstacks.api import yaml
from clusterstacks.building.change_detection import chart_facts
from clusterstacks.charts.chart import CHART_FILE, read_addons, read_chart
from clusterstacks.domain.objects import object_id
from clusterstacks.releases.release import HASHES, METADATA, SINGLE_ADDON, addon_file, class_chart_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from clusterstacks.authoring.render_release import RenderedRelease
    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.domain.objects import Manifest
    from clusterstacks.releases.release import Release

CLASS = "class"
"""What objects of the class chart are said to be part of."""
ADDON = "addon "
"""What comes before an addon's name in what its objects are said to be part of."""

RANDOM = "<random>"
"""What is shown instead of a value that differs between two renderings of the same chart."""

_WRITTEN = {METADATA, HASHES}
_WRITTEN_CHARTS = {f"cluster-class/{CHART_FILE}", f"cluster-addon/{CHART_FILE}"}
"""Files that csctl writes or rewrites."""
_SECRET_FIELDS = ("data", "stringData")
_SHOWN_DIGITS = 12
"""Hex digits of the digest a secret value is shown as (arbitrary: enough to tell two apart)."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two.

    Args:
        release: The release.
        rendered: What it renders to.
    """

    release: Release
    rendered: RenderedRelease


@dataclass(frozen=True, slots=True, order=True)
class ReleaseChange:
    """One difference; what is not on a side is None there.

    Args:
        place: Where it is, e.g. ``metadata.yaml``, ``spec.replicas``.
        before: What is on the first side.
        after: What is on the second.
    """

    place: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """A rendered object that is on one side only, or differs.

    Args:
        part: ``class``, or ``addon <name>``.
        identity: As ``Deployment.apps kube-system/coredns``; the name of the class is ``<class>`` in it.
        before: The object on the first side, Secrets masked; None when it is not there.
        after: The same of the second side.
        fields: Differing fields, of an object that is on both sides.
    """

    part: str
    identity: str
    before: Manifest | None
    after: Manifest | None
    fields: tuple[ReleaseChange, ...] = ()

    @property
    def kind(self) -> str:
        """Whether it was added, removed or changed."""
        if self.before is None:
            return "added"
        return "removed" if self.after is None else "changed"


@dataclass(frozen=True, slots=True)
class Difference:
    """Everything two releases differ in.

    Args:
        before: Name of the first release.
        after: Name of the second.
        versions: Of metadata.yaml, and of the charts.
        files: Files of the release and of its charts; digests of their contents.
        values: Texts of the addons' values, by addon.
        objects: Rendered objects.
    """

    before: str
    after: str
    versions: tuple[ReleaseChange, ...]
    files: tuple[ReleaseChange, ...]
    values: tuple[ReleaseChange, ...]
    objects: tuple[ObjectChange, ...]

    @property
    def empty(self) -> bool:
        """Whether there is none; other versions of the same content are one."""
        return not (self.versions or self.files or self.values or self.objects)


def compare(before: Side, after: Side, again: RenderedRelease | None = None) -> Difference:
    """Compare two releases.

    The objects of a class are called after the release, and csctl written in Go writes metadata.yaml, hashes.json and
    Chart.yaml with other blanks: that counts as no difference.

    Args:
        before: The first.
        after: The second.
        again: The second, rendered once more, where that is worth it: what differs between the two renderings, like a
            generated certificate, counts as no difference.
    """
    files = [_files(side.release) for side in (before, after)]
    versions = [_versions(side.release) for side in (before, after)]
    values = [{name: addon.values for name, addon in side.rendered.addons.items()} for side in (before, after)]
    return Difference(
        before.release.name.release,
        after.release.name.release,
        tuple(_changes(*versions)),
        tuple(_changes(*files)),
        tuple(_changes(*values)),
        tuple(_objects(*map(_identified, (before, after, replace(after, rendered=again or after.rendered))))),
    )


def masked(manifest: Manifest) -> Manifest:
    """Return a manifest whose secret values are shown as digests: equal ones alike, and none of them readable."""
    if manifest.get("kind") != "Secret":
        return manifest
    secret = {field: _masked(manifest[field]) for field in _SECRET_FIELDS if field in manifest}
    metadata = manifest.get("metadata")
    if isinstance(metadata, dict) and "annotations" in metadata:
        # kubectl's annotation of the last apply repeats the data.
        secret["metadata"] = {**metadata, "annotations": _masked(metadata["annotations"])}
    return {**manifest, **secret}


def _masked(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        return {key: _digest(inner) for key, inner in value.items()}
    return _digest(value)


def _digest(value: object) -> str:
    return f"sha256:{sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:_SHOWN_DIGITS]}"


def _files(release: Release) -> dict[str, str]:
    """Digest every file, those of charts one by one instead of their archives."""
    class_file, addons_file = class_chart_file(release.name), addon_file(release.name, release.metadata)
    plain = {name: digest for name, digest in release.contents.files.items() if name not in (class_file, addons_file)}
    plain |= {name: _content_digest(name, release.contents.read(name)) for name in _WRITTEN & plain.keys()}
    return plain | {path: _content_digest(path, content) for path, content in _charts(release, class_file, addons_file)}


def _content_digest(path: str, content: bytes) -> str:
    """Digest a file; those csctl writes count by what they say, and csctl written in Go says less in hashes.json."""
    if path in _WRITTEN or path in _WRITTEN_CHARTS:
        facts = chart_facts(path, content)
        if path == HASHES and isinstance(facts, dict):
            facts = {key: value for key, value in facts.items() if value and key != "nodeImagesDir"}
        content = json.dumps(facts, sort_keys=True, default=str).encode()
    return sha256(content).hexdigest()


def _charts(release: Release, class_file: str, addons_file: str) -> Iterator[tuple[str, bytes]]:
    for path, content in read_chart(release.class_chart(), class_file).items():
        yield f"cluster-class/{path}", content
    if not release.staged:
        for path, content in read_chart(release.addon(SINGLE_ADDON).chart, addons_file).items():
            yield f"cluster-addon/{path}", content
        return
    for name, files in read_addons(release.contents.read(addons_file), addons_file).items():
        for path, content in files.items():
            yield f"cluster-addon/{name}/{path}", content


def _versions(release: Release) -> dict[str, str]:
    metadata = release.metadata
    found = {
        "clusterStack": metadata.cluster_stack.dot,
        "kubernetes": metadata.kubernetes.text,
        "clusterAddon": metadata.cluster_addon.dot,
    }
    if metadata.node_image is not None:
        found["nodeImage"] = metadata.node_image.dot
    for name in release.addons():
        chart = yaml.load(read_chart(release.addon(name).chart, name)["Chart.yaml"], name=f"{name}/Chart.yaml")
        version, app = chart.get("version"), chart.get("appVersion") or ""
        found[f"addon {name}"] = f"{version} (of {app})" if app not in ("", version) else str(version)
    return found


def _identified(side: Side) -> dict[tuple[str, str], Manifest]:
    parts = [(CLASS, side.rendered.class_objects)]
    parts += [(f"{ADDON}{name}", addon.objects) for name, addon in side.rendered.addons.items()]
    own = _OwnNames.of(side.release.name)
    return {
        (part, str(object_id(manifest))): manifest
        for part, objects in parts
        for manifest in (own.hidden(masked(one)) if part == CLASS else masked(one) for one in objects)
    }


@dataclass(frozen=True, slots=True)
class _OwnNames:
    """The names that tell a release from another one of equal content."""

    class_name: re.Pattern[str]
    version: re.Pattern[str]

    @classmethod
    def of(cls, name: ReleaseName) -> _OwnNames:
        whole = r"(?![0-9A-Za-z_]|\.[0-9A-Za-z])"  # v1, but neither v10 nor v1.35
        return cls(re.compile(re.escape(name.class_name) + whole), re.compile(re.escape(f"-{name.version}") + whole))

    def hidden(self, value: Any) -> Any:  # noqa: ANN401 - JSON
        """Put ``<class>`` and ``<version>`` in their places."""
        if isinstance(value, dict):
            return {key: self.hidden(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.hidden(inner) for inner in value]
        return (
            self.version.sub("-<version>", self.class_name.sub("<class>", value)) if isinstance(value, str) else value
        )


def _objects(
    before: Mapping[tuple[str, str], Manifest],
    after: Mapping[tuple[str, str], Manifest],
    again: Mapping[tuple[str, str], Manifest],
) -> Iterator[ObjectChange]:
    for part, identity in sorted({*before, *after}, key=lambda key: (key[0] != CLASS, key)):
        old, new = before.get((part, identity)), after.get((part, identity))
        if old is None or new is None:
            yield ObjectChange(part, identity, old, new)
        elif old != new:
            old, new = _without_random(old, new, again.get((part, identity), new))
            if old != new:
                yield ObjectChange(part, identity, old, new, tuple(_fields(old, new, "")))


def _without_random(old: Any, new: Any, again: Any) -> tuple[Any, Any]:  # noqa: ANN401 - JSON
    """Put ``<random>`` where a rendering differs from the next one of the same chart, on both sides."""
    if new in (old, again):
        return old, new
    if isinstance(old, dict) and isinstance(new, dict) and isinstance(again, dict):
        pairs = {key: _without_random(old[key], new[key], again.get(key)) for key in new if key in old}
        return (
            {**old, **{key: pair[0] for key, pair in pairs.items()}},
            {**new, **{key: pair[1] for key, pair in pairs.items()}},
        )
    lists = isinstance(old, list) and isinstance(new, list) and isinstance(again, list)
    if lists and len(old) == len(new) == len(again):
        items = [_without_random(*one) for one in zip(old, new, again, strict=True)]
        return [one for one, _ in items], [one for _, one in items]
    # What is built differently is no other value of the same field.
    return (old, new) if isinstance(old, dict | list) or isinstance(new, dict | list) else (RANDOM, RANDOM)


def _fields(before: Any, after: Any, place: str) -> Iterator[ReleaseChange]:  # noqa: ANN401 - JSON
    """Find the fields that differ, as deep as both sides have the same shape."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            inner = f"{place}.{key}" if place else key
            yield from _pair(before, after, key, inner)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            if old != new:
                yield from _fields(old, new, f"{place}[{number}]")
    else:
        yield ReleaseChange(place, before, after)


def _pair(before: Manifest, after: Manifest, key: str, place: str) -> Iterator[ReleaseChange]:
    if key not in after or key not in before:
        yield ReleaseChange(place, before.get(key), after.get(key))
    elif before[key] != after[key]:
        yield from _fields(before[key], after[key], place)


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> Sequence[ReleaseChange]:
    places = [place for place in sorted({*before, *after}) if before.get(place) != after.get(place)]
    return [ReleaseChange(place, before.get(place), after.get(place)) for place in places]
