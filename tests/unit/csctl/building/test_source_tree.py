from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.csctl.building.source_tree import read_tree, updated_metadata, write_metadata, written_metadata
from clusterstacks.model import yaml
from clusterstacks.model.files.metadata import InvalidMetadata, parse_metadata
from tests.support.builders.stack_directories import directory_of, versions

if TYPE_CHECKING:
    from pathlib import Path

NEXT = versions("v4", "v3", "v2", "v1.34.2")


def test_written_metadata_is_read() -> None:
    assert written_metadata(read_tree(directory_of("staged"))) == versions("v3", "v2", "v1", "v1.34.1")
    assert written_metadata(read_tree(directory_of("single"))) is None


def test_updated_metadata_keeps_comments() -> None:
    lines = updated_metadata(read_tree(directory_of("staged")), NEXT).decode().splitlines()

    assert lines[0] == "# The versions of the newest release."
    assert lines[4] == "  kubernetes: v1.34.2 # the patch, too"
    assert parse_metadata(yaml.load("\n".join(lines))) == NEXT


@pytest.mark.parametrize(
    "text", [None, b"versions: {clusterStack: v3}\n", b"versions:\n  components:\n    nodeImage:\n"]
)
def test_incomplete_metadata_is_rewritten(text: bytes | None) -> None:
    tree = {} if text is None else {"metadata.yaml": text}

    assert parse_metadata(yaml.load(updated_metadata(tree, NEXT))) == NEXT


def test_metadata_is_replaced_atomically_and_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "metadata.yaml"
    file.write_text("old")
    file.chmod(0o640)
    inode = file.stat().st_ino

    write_metadata(tmp_path, b"new")

    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"new", 0o640)
    assert file.stat().st_ino != inode
    assert list(tmp_path.iterdir()) == [file]


def test_invalid_metadata_is_named_in_the_error() -> None:
    with pytest.raises(InvalidMetadata, match=r"metadata.yaml: versions.clusterStack is 'x'"):
        written_metadata({"metadata.yaml": b"versions: {clusterStack: x, components: {}}"})
