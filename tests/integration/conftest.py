"""Fixtures of the integration tests that more than one folder uses."""

from __future__ import annotations

from tests.support.running.chromium import chromium

__all__ = ["chromium"]
