from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from clusterstacks.model.documents import DocumentError
from clusterstacks.model.files.metadata import InvalidMetadata, Metadata, parse_metadata
from clusterstacks.model.versions import KubernetesVersion, StackVersion
from tests.support.builders.documents import JSON, damaged

METADATA = Metadata(
    cluster_stack=StackVersion(0, "sha", "abc1234"),
    kubernetes=KubernetesVersion(1, 34, 7),
    cluster_addon=StackVersion(2),
    node_image=StackVersion(1),
)
DOCUMENT: dict[str, Any] = {
    "apiVersion": "metadata.clusterstack.x-k8s.io/v1alpha1",
    "versions": {
        "clusterStack": "v0-sha.abc1234",
        "kubernetes": "v1.34.7",
        "components": {"clusterAddon": "v2", "nodeImage": "v1"},
    },
}


def test_written_metadata_is_read_back() -> None:
    assert METADATA.document() == DOCUMENT
    assert parse_metadata(DOCUMENT) == METADATA


def test_version_of_the_class_is_kept() -> None:
    components = DOCUMENT["versions"]["components"] | {"clusterClass": "v3"}
    metadata = parse_metadata({"versions": DOCUMENT["versions"] | {"components": components}})

    assert metadata.cluster_class == StackVersion(3)
    assert metadata.document()["versions"]["components"] == components


def test_unknown_keys_are_ignored() -> None:
    components = DOCUMENT["versions"]["components"] | {"other": "v3"}

    assert (
        parse_metadata(DOCUMENT | {"versions": DOCUMENT["versions"] | {"components": components}, "x": 1}) == METADATA
    )


@pytest.mark.parametrize("node_image", [{}, {"nodeImage": ""}, {"nodeImage": None}])
def test_node_image_version_is_optional(node_image: dict[str, Any]) -> None:
    versions = DOCUMENT["versions"] | {"components": {"clusterAddon": "v2"} | node_image}
    metadata = parse_metadata({"versions": versions})

    assert metadata.node_image is None
    assert parse_metadata(metadata.document()) == metadata


@pytest.mark.parametrize(
    ("versions", "complaint"),
    [
        (None, "metadata.yaml: versions is missing: write a mapping"),
        ({"clusterStack": "v1", "kubernetes": "v1.34.7"}, "metadata.yaml: versions.components is missing: write a map"),
        ({"clusterStack": 3, "components": {}}, "metadata.yaml: versions.clusterStack is 3: write a version like v3"),
        (
            {"clusterStack": "v1", "kubernetes": 1.34, "components": {}},
            "metadata.yaml: versions.kubernetes is 1.34: write a full Kubernetes version like v1.34.7",
        ),
        (
            {"clusterStack": "v1", "kubernetes": "v1.34.7", "components": {}},
            "metadata.yaml: versions.components.clusterAddon is missing: write a version",
        ),
        (
            {"clusterStack": "v1", "kubernetes": "v1.34.7", "components": {"clusterAddon": "v1", "nodeImage": ["v1"]}},
            "metadata.yaml: versions.components.nodeImage is a list: write a version like v3",
        ),
    ],
)
def test_error_names_file_field_value_and_remedy(versions: object, complaint: str) -> None:
    with pytest.raises(InvalidMetadata) as raised:
        parse_metadata({"versions": versions})

    assert raised.value.code == "InvalidMetadata"
    assert raised.value.message.startswith(complaint)


@given(JSON | damaged(DOCUMENT))
def test_arbitrary_document_is_read_or_rejected_with_its_own_error(document: object) -> None:
    try:
        metadata = parse_metadata(document)
    except DocumentError as error:
        assert "metadata.yaml" in error.message  # noqa: PT017 - most documents raise, some rightly do not
    else:
        assert json.dumps(metadata.document())
