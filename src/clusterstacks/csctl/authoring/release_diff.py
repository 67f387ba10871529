"""Difference of two releases in versions, files, values and rendered objects, as text and as a document."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from difflib import unified_diff
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from clusterstacks.csctl.authoring.render_release import render_release
from clusterstacks.csctl.building.previous_release import chart_document
from clusterstacks.model import yaml
from clusterstacks.model.objects import object_id
from clusterstacks.release.charts.chart import CHART_FILE, read_addons, read_chart
from clusterstacks.release.release import HASHES, METADATA, SINGLE_ADDON, addon_file, addon_label, class_chart_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from clusterstacks.csctl.authoring.example_objects import ExampleObjects
    from clusterstacks.csctl.authoring.render_release import RenderedRelease
    from clusterstacks.deliver.render.renderer import Renderer
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from clusterstacks.release.release import Release

CLASS = "class"
"""Part of the objects of the class chart."""
ADDON = "addon "
"""Prefix of an addon's name in the part of its objects."""

RANDOM = "<random>"
"""Placeholder of a value that differs between two renderings of the same chart."""

_WRITTEN = {METADATA, HASHES}
_WRITTEN_CHARTS = {f"cluster-class/{CHART_FILE}", f"cluster-addon/{CHART_FILE}"}
"""Files that csctl writes or changes."""
_SECRET_FIELDS = ("data", "stringData")
_SHOWN_DIGITS = 12
"""Hex digits of the digest that replaces a secret value (arbitrary: enough to distinguish two values)."""


@dataclass(frozen=True, slots=True, order=True)
class ReleaseChange:
    """One difference: the value of a file, field or component in both releases, None where it does not exist."""

    place: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """A rendered object that was added, removed or changed; secret values are masked."""

    part: str
    """``class``, or ``addon <name>``."""
    identity: str
    """For example ``Deployment.apps kube-system/coredns``; ``<class>`` replaces the name of the class."""
    before: Manifest | None
    """The object in the first release; None if it does not exist."""
    after: Manifest | None
    fields: tuple[ReleaseChange, ...] = ()
    """Changed fields of an object in both releases."""

    @property
    def kind(self) -> str:
        """``added``, ``removed`` or ``changed``."""
        if self.before is None:
            return "added"
        return "removed" if self.after is None else "changed"


@dataclass(frozen=True, slots=True)
class ReleaseDiff:
    """The differences of two releases, by what they are about."""

    before: str
    after: str
    versions: tuple[ReleaseChange, ...]
    """Versions of metadata.yaml and of the charts."""
    files: tuple[ReleaseChange, ...]
    """Digests of the files of the release and of its charts."""
    values: tuple[ReleaseChange, ...]
    """Values of the addons as YAML; the place is the addon."""
    objects: tuple[ObjectChange, ...]

    @property
    def empty(self) -> bool:
        """True without any difference; a change of a version alone is a difference."""
        return not (self.versions or self.files or self.values or self.objects)


def compare(before: RenderedRelease, after: RenderedRelease, again: RenderedRelease | None = None) -> ReleaseDiff:
    """Compare two rendered releases.

    Not a difference: names of class objects that contain the name of the release; other white space in metadata.yaml,
    hashes.json and Chart.yaml, as csctl written in Go writes them; and values that differ between both renderings of
    the second release (``after`` and ``again``), such as generated certificates.
    """
    files = [_files(rendered.release) for rendered in (before, after)]
    versions = [_versions(rendered.release) for rendered in (before, after)]
    values = [{name: addon.values for name, addon in rendered.addons.items()} for rendered in (before, after)]
    return ReleaseDiff(
        before.release.name.release,
        after.release.name.release,
        tuple(_changes(*versions)),
        tuple(_changes(*files)),
        tuple(_changes(*values)),
        tuple(_objects(*map(_identified, (before, after, again or after)))),
    )


def masked(manifest: Manifest) -> Manifest:
    """Return a manifest with digests in place of secret values, so that equal values have equal digests."""
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
    """Return the digest of every file; instead of a chart archive, of each file in it."""
    class_file, addons_file = class_chart_file(release.name), addon_file(release.name, release.metadata)
    plain = {name: digest for name, digest in release.contents.files.items() if name not in (class_file, addons_file)}
    plain |= {name: _content_digest(name, release.contents.read(name)) for name in _WRITTEN & plain.keys()}
    return plain | {path: _content_digest(path, content) for path, content in _charts(release, class_file, addons_file)}


def _content_digest(path: str, content: bytes) -> str:
    """Return the digest of a file; for files that csctl writes, of their data without what only Python or Go writes."""
    if path in _WRITTEN or path in _WRITTEN_CHARTS:
        facts = chart_document(path, content)
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
    versions = {
        "clusterStack": metadata.cluster_stack.dot,
        "kubernetes": metadata.kubernetes.text,
        "clusterAddon": metadata.cluster_addon.dot,
    }
    if metadata.node_image is not None:
        versions["nodeImage"] = metadata.node_image.dot
    for name in release.addons():
        chart = yaml.load(read_chart(release.addon(name).chart, name)["Chart.yaml"], name=f"{name}/Chart.yaml")
        version, app = chart.get("version"), chart.get("appVersion") or ""
        versions[f"addon {name}"] = f"{version} (of {app})" if app not in ("", version) else str(version)
    return versions


def _identified(rendered: RenderedRelease) -> dict[tuple[str, str], Manifest]:
    parts = [(CLASS, rendered.class_objects)]
    parts += [(f"{ADDON}{name}", addon.objects) for name, addon in rendered.addons.items()]
    own = _OwnNames.of(rendered.release.name)
    return {
        (part, str(object_id(manifest))): manifest
        for part, objects in parts
        for manifest in (
            own.hidden(masked(rendered_object)) if part == CLASS else masked(rendered_object)
            for rendered_object in objects
        )
    }


@dataclass(frozen=True, slots=True)
class _OwnNames:
    """Patterns of the names that contain the version of a release."""

    class_name: re.Pattern[str]
    version: re.Pattern[str]

    @classmethod
    def of(cls, name: ReleaseName) -> _OwnNames:
        whole = r"(?![0-9A-Za-z_]|\.[0-9A-Za-z])"  # v1, but neither v10 nor v1.35
        return cls(re.compile(re.escape(name.class_name) + whole), re.compile(re.escape(f"-{name.version}") + whole))

    def hidden(self, value: Any) -> Any:  # noqa: ANN401 - JSON
        """Replace the names with ``<class>`` and ``<version>``."""
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
    """Replace values that differ between two renderings of the same chart with ``<random>``, in both releases."""
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
        items = [_without_random(*triple) for triple in zip(old, new, again, strict=True)]
        return [item for item, _ in items], [item for _, item in items]
    # A change of type is a real difference.
    return (old, new) if isinstance(old, dict | list) or isinstance(new, dict | list) else (RANDOM, RANDOM)


def _fields(before: Any, after: Any, place: str) -> Iterator[ReleaseChange]:  # noqa: ANN401 - JSON
    """Yield the changed fields, as deep as both sides have the same structure."""
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


async def diff_releases(
    before: Release, after: Release, renderer: Renderer, examples: ExampleObjects | None = None
) -> tuple[ReleaseDiff, tuple[str, ...]]:
    """Render and compare two releases; None instead of examples means objects made for the classes.

    Addons with changed objects are rendered a second time: values that differ between two renderings of the same
    chart, such as generated certificates, are not a difference. Return also the addons whose values and objects are not
    compared because a chart lacks dependencies.

    Raises:
        SpecError: A chart or values template is broken.
    """
    incomplete = tuple(sorted({*_incomplete(before), *_incomplete(after)}))
    rendered_before, rendered_after = [
        await render_release(release, renderer, examples=examples, without=incomplete) for release in (before, after)
    ]
    difference = compare(rendered_before, rendered_after)
    changed = {change.part.removeprefix(ADDON) for change in difference.objects if change.kind == "changed"}
    if parts := changed & {*after.addons()}:
        again = await render_release(after, renderer, examples=examples, only=sorted(parts))
        difference = compare(rendered_before, rendered_after, again)
    return difference, incomplete


def _incomplete(release: Release) -> set[str]:
    return {addon for addon in release.addons() if addon_label(addon, staged=release.staged) in release.lacking}


CONTEXT_LINES = 3
"""Unchanged lines around changed ones, as in ``diff -u``."""


def diff_lines(diff: ReleaseDiff) -> Iterator[str]:
    """Yield the lines of a difference: added lines begin with ``+``, removed ones with ``-``, titles with ``#``."""
    if diff.empty:
        return
    yield f"# {diff.before} -> {diff.after}"
    yield from _section("versions", [_version_line(change) for change in diff.versions])
    yield from _section("files", [_file_line(change) for change in diff.files])
    for change in diff.values:
        yield f"# values of addon {change.place}"
        yield from _unified(change.before or "", change.after or "", f"values of {change.place}")
    for changed in diff.objects:
        yield f"# {changed.part}: {changed.identity} {changed.kind}"
        yield from _unified(_text(changed.before), _text(changed.after), changed.identity)


def diff_document(diff: ReleaseDiff) -> Manifest:
    """Return a difference as a JSON document."""
    return {
        "before": diff.before,
        "after": diff.after,
        "versions": [asdict(change) for change in diff.versions],
        "files": [asdict(change) for change in diff.files],
        "values": [asdict(change) for change in diff.values],
        "objects": [_object(changed) for changed in diff.objects],
    }


def _object(changed: ObjectChange) -> Manifest:
    what = {"part": changed.part, "object": changed.identity, "change": changed.kind}
    return {**what, "fields": [asdict(change) for change in changed.fields]} if changed.fields else what


def _section(title: str, rows: Sequence[str]) -> Iterator[str]:
    if rows:
        yield f"# {title}"
        yield from rows


def _version_line(change: ReleaseChange) -> str:
    if change.before is None:
        return f"+{change.place} {change.after}"
    return (
        f"-{change.place} {change.before}"
        if change.after is None
        else f" {change.place} {change.before} -> {change.after}"
    )


def _file_line(change: ReleaseChange) -> str:
    sign = "+" if change.before is None else "-" if change.after is None else " "
    return f"{sign}{change.place}{'' if sign.strip() else ' changed'}"


def _unified(before: str, after: str, title: str) -> Iterator[str]:
    lines = unified_diff(before.splitlines(), after.splitlines(), title, title, lineterm="", n=CONTEXT_LINES)
    return (line for number, line in enumerate(lines) if number > 1)


def _text(manifest: Manifest | None) -> str:
    return yaml.dump(manifest) if manifest is not None else ""
