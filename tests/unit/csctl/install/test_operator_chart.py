"""The values of an installation, and the objects that it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.csctl.install.operator_chart import image_values, read_values
from clusterstacks.model.errors import SpecError

if TYPE_CHECKING:
    from pathlib import Path

DIGEST = f"sha256:{'0' * 64}"


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("registry.example.org/kaas/operator", ("registry.example.org/kaas/operator", "", "")),
        ("registry.example.org:5000/operator:v1", ("registry.example.org:5000/operator", "v1", "")),
        ("localhost:5000/operator", ("localhost:5000/operator", "", "")),
        ("operator:v1", ("operator", "v1", "")),
        (f"example.org/operator@{DIGEST}", ("example.org/operator", "", DIGEST)),
        (f"example.org/operator:v1@{DIGEST}", ("example.org/operator", "v1", DIGEST)),
    ],
)
def test_an_image_is_split_into_the_values_of_the_chart(reference: str, expected: tuple[str, str, str]) -> None:
    found = image_values(reference)
    assert (found["repository"], found["tag"], found["digest"]) == expected


@pytest.mark.parametrize("reference", ["example.org/", ":v1", "example.org/operator@v1"])
def test_what_is_not_an_image_is_refused(reference: str) -> None:
    with pytest.raises(SpecError, match="is not a valid image"):
        image_values(reference)


def test_later_values_files_take_precedence_and_the_image_over_all(tmp_path: Path) -> None:
    first, second, empty = (tmp_path / name for name in ("first", "second", "empty"))
    first.write_text("{replicas: 1, image: {repository: a, pullPolicy: Always}, source: {type: oci}}")
    second.write_text("{replicas: 3, source: {location: b}}")
    empty.write_text("# nothing\n")
    assert read_values([first, second, empty], "c/d") == {
        "replicas": 3,
        "image": {"repository": "c/d", "tag": "", "digest": "", "pullPolicy": "Always"},
        "source": {"type": "oci", "location": "b"},
    }


def test_a_values_file_that_is_a_list_is_refused(tmp_path: Path) -> None:
    (tmp_path / "list").write_text("[1]")
    with pytest.raises(SpecError, match="list is not a values file"):
        read_values([tmp_path / "list"])
