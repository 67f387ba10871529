"""Arbitrary manifests, references and configuration files are read or rejected with an error."""

from __future__ import annotations

from contextlib import suppress

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.model.errors import ClusterStacksError, SpecError
from clusterstacks.net.oci.credentials import from_docker_config
from clusterstacks.net.oci.descriptor import TITLE
from clusterstacks.net.oci.errors import ManifestInvalid
from clusterstacks.net.oci.manifests import MAX_MANIFEST_BYTES, OCI_MANIFEST, read_manifest
from clusterstacks.net.oci.reference import Reference
from clusterstacks.release.sources.oci_artifact import files_of
from tests.support.builders.releases import STAGED
from tests.support.observing.cpu_time import no_stall

HERE = Reference.parse("r.example/kaas/stacks")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-10, 2**40) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
DIGEST = st.just(f"sha256:{'a' * 64}") | JSON
DESCRIPTOR = st.fixed_dictionaries(
    {},
    optional={
        "mediaType": st.just("x/y") | JSON,
        "digest": DIGEST,
        "size": st.integers(-1, 100) | JSON,
        "annotations": st.fixed_dictionaries({TITLE: st.text(max_size=8) | JSON}) | JSON,
        "artifactType": JSON,
    },
)
MANIFEST = st.fixed_dictionaries(
    {"schemaVersion": st.just(2) | JSON},
    optional={
        "mediaType": st.just(OCI_MANIFEST) | JSON,
        "artifactType": JSON,
        "config": DESCRIPTOR | JSON,
        "layers": st.lists(DESCRIPTOR, max_size=3) | JSON,
        "manifests": st.lists(DESCRIPTOR, max_size=3) | JSON,
        "subject": DESCRIPTOR | JSON,
        "annotations": JSON,
    },
)


@given(MANIFEST | JSON)
def test_arbitrary_manifest_is_read_or_rejected(document: object) -> None:
    try:
        manifest = read_manifest(orjson.dumps(document), OCI_MANIFEST, "r.example/a:b")
        files = files_of(manifest, STAGED)
    except ClusterStacksError:
        return
    assert all("/" not in name and name not in ("", ".", "..") for name in files)
    with suppress(ClusterStacksError):
        _ = manifest.subject, manifest.annotations, manifest.manifests, manifest.artifact_type


@given(st.binary(max_size=64))
def test_arbitrary_bytes_raise_only_expected_errors(raw: bytes) -> None:
    with suppress(ClusterStacksError):
        read_manifest(raw, "", "r.example/a:b")


@given(st.dictionaries(st.sampled_from(["auths", "credHelpers", "credsStore"]), JSON) | JSON)
def test_arbitrary_docker_configuration_raises_only_expected_errors(document: object) -> None:
    with suppress(ClusterStacksError):
        from_docker_config(orjson.dumps(document), HERE)


@given(st.dictionaries(st.just("r.example"), st.dictionaries(st.sampled_from(["auth", "username", "password"]), JSON)))
def test_arbitrary_docker_configuration_entry_raises_only_expected_errors(auths: object) -> None:
    with suppress(ClusterStacksError):
        from_docker_config(orjson.dumps({"auths": auths}), HERE)


@given(st.text(max_size=40) | st.from_regex(r"r\.example/[a-z/:@.]{1,20}", fullmatch=True))
def test_arbitrary_reference_is_rejected_or_read_back_unchanged(text: str) -> None:
    try:
        reference = Reference.parse(text)
    except SpecError:
        return
    assert Reference.parse(str(reference)) == reference


@pytest.mark.parametrize("unit", [b"[],", b'{"a":{}},', b"[[[]]],"])
def test_manifest_with_too_many_values_is_rejected_before_decoding(unit: bytes) -> None:
    body = b'{"schemaVersion":2,"x":[' + unit * (MAX_MANIFEST_BYTES // len(unit) - 10) + b"0]}"
    with no_stall(), pytest.raises(ManifestInvalid):
        read_manifest(body, "", "registry.example/stacks")
