"""The page of csctl ui in a real browser."""

from __future__ import annotations

from tests.support.running.chromium import chromium

__all__ = ["chromium"]
