"""Fixtures of the registry double, shared with the tests of oci."""

from __future__ import annotations

from tests.unit.net.oci.conftest import double, registry, web

__all__ = ["double", "registry", "web"]
