"""The doubles of registries that the tests of oci use."""

from __future__ import annotations

from tests.unit.oci.conftest import double, registry, web

__all__ = ["double", "registry", "web"]
