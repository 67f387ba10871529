"""What a registry sends is counted before it is decoded."""

from __future__ import annotations

import pytest

from clusterstacks.oci.errors import ManifestInvalid
from clusterstacks.oci.manifests import MAX_MANIFEST_BYTES, read_manifest
from tests.support.observing.cpu_time import no_stall


@pytest.mark.parametrize("unit", [b"[],", b'{"a":{}},', b"[[[]]],"])
def test_a_manifest_of_many_values_is_refused_before_it_is_decoded(unit: bytes) -> None:
    body = b'{"schemaVersion":2,"x":[' + unit * (MAX_MANIFEST_BYTES // len(unit) - 10) + b"0]}"
    with no_stall(), pytest.raises(ManifestInvalid):
        read_manifest(body, "", "registry.example/stacks")
