"""Paths, parts and releases of requests for node images."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.model.objects import ObjectKey
from clusterstacks.operator.image_requests import (
    RangeNotSatisfiable,
    image_path,
    images_of,
    is_verified,
    requested_image,
    requested_part,
    without_tokens,
)

KEY = b"k" * 32
IMAGE = ObjectKey("team", f"sha256:{'a1' * 32}")
PATH = image_path(KEY, IMAGE)


def test_path_of_an_image_is_recognized() -> None:
    assert requested_image(KEY, PATH) == IMAGE


@pytest.mark.parametrize(
    "path",
    [
        image_path(b"x" * 32, IMAGE),
        PATH.replace("team", "tema"),
        f"{PATH[:-1]}2",
        f"{PATH}/",
        f"{PATH}?",
        f"/{PATH}",
        PATH.upper(),
        PATH.replace("/team/", "/../team/"),
        PATH.replace("/team/", "//"),
        "/images/",
        "/",
        "",
    ],
)
def test_other_paths_are_not(path: str) -> None:
    assert requested_image(KEY, path) is None


def test_messages_of_others_do_not_show_tokens() -> None:
    # ORC writes the URL into the condition of an Image, which the release quotes.
    message = f'error requesting http://x:9444{PATH}: Get "http://x:9444{PATH}": EOF'
    shown = without_tokens(message)

    assert PATH.split("/")[2] not in shown
    assert shown.count("http://x:9444/images/.../team/a1a1") == 2
    assert without_tokens("hash verification failed. got: " + "a" * 64) == "hash verification failed. got: " + "a" * 64


@pytest.mark.parametrize(
    ("wanted", "part"),
    [
        ("", None),
        ("bytes=0-0", (0, 1)),
        ("bytes=0-99", (0, 100)),
        ("bytes=10-19", (10, 10)),
        ("bytes=10-", (10, 90)),
        ("bytes=99-", (99, 1)),
        ("bytes=90-1000", (90, 10)),
        ("bytes=-1", (99, 1)),
        ("bytes=-1000", (0, 100)),
        # Not valid, or several parts: the whole.
        ("bytes=20-10", None),
        ("bytes=0-1,5-6", None),
        ("bytes=-", None),
        ("bytes=a-b", None),
        ("lines=0-1", None),
        (f"bytes={'9' * 19}-", None),
    ],
)
def test_part_of_a_request(wanted: str, part: tuple[int, int] | None) -> None:
    assert requested_part({"Range": wanted} if wanted else {}, '"a"', 100) == part


@pytest.mark.parametrize(
    ("wanted", "size"),
    [("bytes=100-", 100), ("bytes=1000-2000", 100), ("bytes=-0", 100), ("bytes=0-", 0), ("bytes=-5", 0)],
)
def test_part_after_the_end_is_refused(wanted: str, size: int) -> None:
    with pytest.raises(RangeNotSatisfiable):
        requested_part({"Range": wanted}, '"a"', size)


def test_part_of_another_version_is_the_whole() -> None:
    assert requested_part({"Range": "bytes=5-", "If-Range": '"a"'}, '"a"', 10) == (5, 5)
    assert requested_part({"Range": "bytes=5-", "If-Range": '"b"'}, '"a"', 10) is None


@given(st.integers(0, 300), st.one_of(st.none(), st.integers(0, 300)), st.one_of(st.none(), st.integers(0, 300)))
def test_part_is_inside_the_file(size: int, first: int | None, last: int | None) -> None:
    text = f"bytes={'' if first is None else first}-{'' if last is None else last}"
    try:
        part = requested_part({"Range": text}, "", size)
    except RangeNotSatisfiable:
        return
    if part is not None:
        start, length = part
        assert length > 0
        assert start + length <= size


def release(*conditions: tuple[str, str, str], **status: Any) -> dict[str, Any]:
    listed = [{"type": kind, "status": value, "reason": reason} for kind, value, reason in conditions]
    return {"metadata": {"namespace": "team", "name": "r"}, "status": {"conditions": listed, **status}}


DOWNLOADED = ("ClusterStackReleaseDownloaded", "True", "")


@pytest.mark.parametrize(
    ("conditions", "verified"),
    [
        ([], False),
        ([(DOWNLOADED[0], "False", "")], False),
        ([DOWNLOADED], True),
        ([DOWNLOADED, ("SignatureVerified", "True", "")], True),
        ([DOWNLOADED, ("SignatureVerified", "False", "NotSigned")], True),
        ([DOWNLOADED, ("SignatureVerified", "False", "SignatureRequired")], False),
        ([DOWNLOADED, ("SignatureVerified", "False", "SignaturesUnclear")], False),
        ([DOWNLOADED, ("SignatureVerified", "Unknown", "SignatureUnknown")], False),
        ([("SignatureVerified", "True", "")], False),
    ],
)
def test_release_is_verified(conditions: list[tuple[str, str, str]], *, verified: bool) -> None:
    assert is_verified(release(*conditions)) is verified


def test_images_of_a_release_are_indexed_with_its_namespace() -> None:
    assert images_of(release(nodeImageFiles=[IMAGE.name])) == [f"team/{IMAGE.name}"]
    assert images_of(release()) == []
