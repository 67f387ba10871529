"""Trusted CAs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.csctl.shared.registry_options import MAX_CA_BYTES, ServerTrust
from clusterstacks.model.errors import SpecError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"x" * (MAX_CA_BYTES + 1), "is larger than .* bytes: check"),
        (b"no PEM", "contains no PEM certificate"),
    ],
)
def test_invalid_ca_file_is_rejected_with_its_name_and_system_cas_are_not_used(
    tmp_path: Path, content: bytes, told: str
) -> None:
    (tmp_path / "ca.pem").write_bytes(content)

    with pytest.raises(SpecError, match=rf"ca\.pem: .*{told}"):
        ServerTrust(tmp_path / "ca.pem").web()
