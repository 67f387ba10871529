"""Verifies a release: every file is parsed once when the release is opened."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from clusterstacks.model import yaml
from clusterstacks.model.files.addon_config import AddonConfig, LifecycleHook, StageAction, parse_addon_config
from clusterstacks.model.files.compatibility import FILE as COMPATIBILITY
from clusterstacks.model.files.compatibility import parse_compatibility
from clusterstacks.model.files.hashes import Hashes, parse_hashes
from clusterstacks.model.files.metadata import Metadata, parse_metadata
from clusterstacks.model.names import parse_release
from clusterstacks.release.charts.chart import (
    MAX_DOCUMENT_BYTES,
    OVERWRITE,
    ChartCache,
    chart_digest,
    pack_chart,
    read_addons,
    read_chart,
)
from clusterstacks.release.charts.dependencies import unmet
from clusterstacks.release.charts.lockfile import NOTHING_VENDORED
from clusterstacks.release.contents import read_contents
from clusterstacks.release.errors import ReleaseBroken, ReleaseDamaged
from clusterstacks.release.release import (
    ADDON_CONFIG,
    ADDON_VALUES,
    CLASS_CHART,
    HASHES,
    METADATA,
    SINGLE_ADDON,
    AddonFacts,
    Release,
    addon_file,
    addon_label,
    class_chart_file,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from clusterstacks.model.files.compatibility import Compatibility
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.release.charts.dependencies import ChartRequirement
    from clusterstacks.release.charts.lockfile import VendoredCharts
    from clusterstacks.release.contents import Contents


def open_directory(directory: Path, name: ReleaseName | None = None) -> Release:
    """Verify a release directory; without ``name`` it has the name of the release.

    Raises:
        SpecError: Its name or a file is not valid.
        ReleaseDamaged: A file changed while it was read.
        OSError: It cannot be read.
    """
    whole = directory.absolute()
    return open_release(read_contents(name or parse_release(whole.name), whole), ChartCache())


def open_release(contents: Contents, charts: ChartCache, vendored: VendoredCharts = NOTHING_VENDORED) -> Release:
    """Verify a release and return it.

    Every required file must exist and be valid, the metadata must match the name of the release, and every addon that a
    stage applies to new clusters must have a chart. Unknown files are ignored. Dependencies that neither the charts nor
    ``vendored`` contain are in :attr:`Release.lacking`.

    Raises:
        SpecError: A file is not valid; the message contains release, file and cause.
        ReleaseDamaged: A file changed while it was read.
    """
    metadata = _metadata(contents)
    hashes = _hashes(contents)
    config = _config(contents)
    compatibility = _compatibility(contents, metadata)
    opening = _Opening(contents, metadata, charts, vendored)
    class_digest = opening.class_digest()
    facts = opening.single() if config is None else opening.staged(config)
    return Release(
        contents,
        metadata,
        config,
        hashes,
        facts,
        charts,
        class_digest,
        vendored,
        opening.lacking,
        compatibility=compatibility,
    )


@dataclass(frozen=True, slots=True)
class _Opening:
    """Reads the charts of one release and collects their missing dependencies."""

    contents: Contents
    metadata: Metadata
    charts: ChartCache
    vendored: VendoredCharts
    lacking: dict[str, tuple[ChartRequirement, ...]] = field(default_factory=dict)

    def class_digest(self) -> str:
        file = class_chart_file(self.contents.release)
        chart = read_chart(_require(self.contents, file), _label(self.contents, file))
        return chart_digest(self._completed(CLASS_CHART, chart))

    def single(self) -> dict[str, AddonFacts]:
        contents = self.contents
        if ADDON_VALUES not in contents.files:
            problem = f"is missing, and {ADDON_CONFIG} is missing; a release contains one of them, so build it again"
            raise ReleaseBroken(contents.release, ADDON_VALUES, problem)
        file = addon_file(contents.release, self.metadata)
        chart = read_chart(_require(contents, file), _label(contents, file))
        files = self._completed(addon_label(SINGLE_ADDON, staged=False), chart)
        values = _text(contents, ADDON_VALUES, contents.read(ADDON_VALUES))
        return {SINGLE_ADDON: AddonFacts(chart_digest(files), values, ADDON_VALUES)}

    def staged(self, config: AddonConfig) -> dict[str, AddonFacts]:
        file = addon_file(self.contents.release, self.metadata)
        charts = read_addons(_require(self.contents, file), _label(self.contents, file))
        _check_stages(self.contents, config, file, charts)
        addons = {name: self._completed(addon_label(name, staged=True), files) for name, files in charts.items()}
        facts = {name: _addon_facts(self.contents, file, name, files) for name, files in addons.items()}
        for name, files in addons.items():
            # Packed here, in the thread that opens the release, so that later accesses take no time.
            self.charts.get(facts[name].digest, partial(pack_chart, name, files))
        return facts

    def _completed(self, label: str, files: dict[str, bytes]) -> dict[str, bytes]:
        try:
            completed = files | self.vendored.files(label)
        except (OSError, ValueError):
            raise ReleaseDamaged(self.contents.release, f"charts that {label} depends on") from None
        if missing := unmet(completed, f"release {self.contents.release}: {label}"):
            self.lacking[label] = missing
        return completed


def _metadata(contents: Contents) -> Metadata:
    name, label = contents.release, _label(contents, METADATA)
    document = yaml.load(_require(contents, METADATA), name=label, max_bytes=MAX_DOCUMENT_BYTES)
    metadata = parse_metadata(document, file=label)
    if metadata.cluster_stack != name.version:
        problem = f"is for version {metadata.cluster_stack}, but the name of the release says {name.version}"
        raise ReleaseBroken(name, METADATA, f"{problem}; publish the release under its own name")
    if metadata.kubernetes.series != name.kubernetes:
        problem = f"is for Kubernetes {metadata.kubernetes}, but the name of the release says {name.kubernetes}"
        raise ReleaseBroken(name, METADATA, f"{problem}; publish the release under its own name")
    return metadata


def _hashes(contents: Contents) -> Hashes:
    if HASHES not in contents.files:
        return Hashes()
    try:
        document = json.loads(contents.read(HASHES)[:MAX_DOCUMENT_BYTES])
    except (ValueError, RecursionError):
        raise ReleaseBroken(contents.release, HASHES, "is not JSON; build the release again") from None
    return parse_hashes(document, file=_label(contents, HASHES))


def _config(contents: Contents) -> AddonConfig | None:
    # A values file that is left from the single-chart layout is ignored when clusteraddon.yaml exists.
    if ADDON_CONFIG not in contents.files:
        return None
    label = _label(contents, ADDON_CONFIG)
    document = yaml.load(contents.read(ADDON_CONFIG), name=label, max_bytes=MAX_DOCUMENT_BYTES)
    return parse_addon_config(document, file=label)


def _compatibility(contents: Contents, metadata: Metadata) -> Compatibility | None:
    if COMPATIBILITY not in contents.files:
        return None
    label = _label(contents, COMPATIBILITY)
    document = yaml.load(contents.read(COMPATIBILITY), name=label, max_bytes=MAX_DOCUMENT_BYTES)
    stated = parse_compatibility(document, file=label)
    if not stated.kubernetes.contains(metadata.kubernetes):
        problem = f"is for Kubernetes {stated.kubernetes}, which does not contain {metadata.kubernetes} of {METADATA}"
        raise ReleaseBroken(contents.release, COMPATIBILITY, f"{problem}; widen the range and build the release again")
    return stated


def _check_stages(contents: Contents, config: AddonConfig, file: str, addons: Mapping[str, object]) -> None:
    """Refuse a release whose addons cannot be installed in new clusters; stages of upgrades fail when they run."""
    hook = LifecycleHook.AFTER_CONTROL_PLANE_INITIALIZED
    for stage in config.stages[hook]:
        if stage.action is StageAction.APPLY and stage.addon not in addons:
            problem = f"applies {stage.addon} in {hook}, but {file} has no directory {stage.addon} with a Chart.yaml"
            raise ReleaseBroken(contents.release, ADDON_CONFIG, f"{problem}; add the chart or remove the stage")


def _addon_facts(contents: Contents, file: str, name: str, files: Mapping[str, bytes]) -> AddonFacts:
    file_label = f"{file}: {name}/{OVERWRITE}"
    overwrite = _text(contents, file_label, files[OVERWRITE]) if OVERWRITE in files else None
    return AddonFacts(chart_digest(files), overwrite, OVERWRITE)


def _text(contents: Contents, file: str, content: bytes) -> str:
    if len(content) > MAX_DOCUMENT_BYTES:
        raise ReleaseBroken(contents.release, file, f"is larger than {MAX_DOCUMENT_BYTES} bytes; make it smaller")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ReleaseBroken(contents.release, file, "is not UTF-8 text; save it as UTF-8") from None


def _require(contents: Contents, file: str) -> bytes:
    if file not in contents.files:
        present = ", ".join(sorted(contents.files)) or "no file"
        raise ReleaseBroken(
            contents.release, file, f"is missing (the release contains {present}); publish the complete release again"
        )
    return contents.read(file)


def _label(contents: Contents, file: str) -> str:
    return f"release {contents.release}: {file}"
