"""Trust in servers, and lines about long transfers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.cli.shared.registry_options import MAX_CA_BYTES, ProgressPrinter, ServerTrust
from clusterstacks.domain.errors import SpecError

if TYPE_CHECKING:
    from pathlib import Path


def test_a_short_transfer_says_nothing() -> None:
    lines: list[str] = []
    meter = ProgressPrinter(iter([0.0, 1.0, 2.9]).__next__, lines.append)

    for done in (1, 2, 3):
        meter("file", done, 3)

    assert lines == []


def test_a_long_transfer_tells_size_and_speed_now_and_then() -> None:
    lines: list[str] = []
    meter = ProgressPrinter(iter([0.0, 2.0, 4.0, 5.0, 8.0]).__next__, lines.append)

    for done in (10, 20, 50, 60, 90):
        meter("file", done * 1_000_000, 100_000_000)

    assert lines == ["file: 50 of 100 MB, 10.0 MB/s", "file: 90 of 100 MB, 10.0 MB/s"]


def test_the_speed_is_that_of_one_transfer() -> None:
    lines: list[str] = []
    meter = ProgressPrinter(iter([0.0, 100.0, 104.0]).__next__, lines.append)

    meter("first", 10_000_000, 10_000_000)
    meter("second", 10_000_000, 100_000_000)
    meter("second", 50_000_000, 100_000_000)

    assert lines == ["second: 50 of 100 MB, 10.0 MB/s"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"x" * (MAX_CA_BYTES + 1), "is larger than .* bytes: check"),
        (b"no PEM", "contains no PEM certificate"),
    ],
)
def test_a_file_of_no_ca_is_refused_by_its_name_and_nobody_else_is_trusted(
    tmp_path: Path, content: bytes, told: str
) -> None:
    (tmp_path / "ca.pem").write_bytes(content)

    with pytest.raises(SpecError, match=rf"ca\.pem: .*{told}"):
        ServerTrust(tmp_path / "ca.pem").web()
