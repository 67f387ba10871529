"""The installation as OCI artifacts: the chart of the operator, and its CustomResourceDefinitions with the facts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from clusterstacks.api import yaml
from clusterstacks.api.crd_manifests import all_crds
from clusterstacks.compat.library import facts_files
from clusterstacks.installer.operator_chart import chart_directory, packed_chart
from clusterstacks.oci.descriptor import EMPTY, EMPTY_TYPE, TITLE, Descriptor, describe
from clusterstacks.oci.manifests import OCI_MANIFEST, write_manifest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from clusterstacks.oci.image_repository import ImageRepository

FILES_TYPE = "application/vnd.cluster-stacks.files.v1"
FILE_TYPE = "application/yaml"

# https://helm.sh/docs/topics/registries/, "Helm chart manifest"
CHART_CONFIG_TYPE = "application/vnd.cncf.helm.config.v1+json"
CHART_TYPE = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"


def chart_version() -> str:
    """Return the version of the operator's chart."""
    return str(_chart()["version"])


async def add_chart(repository: ImageRepository) -> str:
    """Store the chart of the operator as Helm does, with its version as tag; return the digest of the manifest."""
    config = orjson.dumps(_chart(), option=orjson.OPT_SORT_KEYS)
    content = packed_chart()
    await repository.push_blob(config)
    await repository.push_blob(content)
    raw = write_manifest(
        artifact_type=CHART_CONFIG_TYPE,
        config=describe(config, CHART_CONFIG_TYPE),
        layers=[describe(content, CHART_TYPE)],
    )
    return await repository.push_manifest(raw, OCI_MANIFEST, chart_version())


async def add_files(repository: ImageRepository, installed_facts: Path) -> str:
    """Store the CustomResourceDefinitions and the compatibility facts, one layer a file, with the same tag."""
    crds = "---\n".join(yaml.dump(crd) for crd in all_crds()).encode()
    files: Mapping[str, bytes] = {"crds.yaml": crds} | facts_files(installed_facts)
    layers = []
    for name, content in sorted(files.items()):
        blob = describe(content, FILE_TYPE)
        layers.append(Descriptor(blob.media_type, blob.digest, blob.size, {TITLE: name}))
        await repository.push_blob(content)
    await repository.push_blob(EMPTY)
    raw = write_manifest(artifact_type=FILES_TYPE, config=describe(EMPTY, EMPTY_TYPE), layers=layers)
    return await repository.push_manifest(raw, OCI_MANIFEST, chart_version())


def _chart() -> Mapping[str, object]:
    file = chart_directory() / "Chart.yaml"
    document = yaml.load(file.read_bytes(), name=str(file))
    return document if isinstance(document, dict) else {}
