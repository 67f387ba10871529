"""Atomic replacement of files."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from clusterstacks.runtime.files import replace_file

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("durable", [True, False])
def test_file_is_replaced_with_its_mode_and_nothing_is_left_beside_it(tmp_path: Path, *, durable: bool) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"old")

    replace_file(file, b"new", mode=0o640, durable=durable)

    assert file.read_bytes() == b"new"
    assert file.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [file]


def test_failed_write_keeps_the_old_content_and_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device") as refused:
        replace_file(file, b"new")

    assert refused.value.filename == str(file)
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]
