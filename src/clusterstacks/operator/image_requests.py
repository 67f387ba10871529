"""Decides about requests for node images: whose path is genuine, which bytes it wants, and what may be served.

The path of an image holds a token, which only the holder of the operator's key can compute. It depends on nothing else
than namespace and digest, because ORC never changes the URL of an Image, and because releases may share an Image.
"""

from __future__ import annotations

import hmac
import re
from typing import TYPE_CHECKING, Final

from clusterstacks.model.documents import at, mappings, text
from clusterstacks.model.kinds.names import Reason, ReleaseCondition
from clusterstacks.model.objects import ObjectKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.model.objects import Manifest

SECRET_NAME: Final = "cluster-stack-operator-node-images"  # noqa: S105 - a name
"""The Secret with the operator's key, in its own namespace."""

IMAGE_INDEX: Final = "node image"
"""Index of ClusterStackReleases by ``namespace/sha256:<hex>`` of the files of their node images."""

PATH: Final = "/images/"
_TOKEN: Final = re.compile(rf"{PATH}[0-9a-f]{{64}}")
_PATH: Final = re.compile(rf"{PATH}(?P<token>[0-9a-f]{{64}})/(?P<namespace>[a-z0-9-]{{1,63}})/(?P<hex>[0-9a-f]{{64}})")
_RANGE: Final = re.compile(r"bytes=(?:([0-9]{1,18})-([0-9]{0,18})|-([0-9]{1,18}))")


class RangeNotSatisfiable(Exception):
    """A request wants only bytes after the end."""


def image_path(key: bytes, image: ObjectKey) -> str:
    """Return the path of a node image, whose name is its digest ``sha256:<hex>``."""
    token = hmac.digest(key, f"{image.namespace}/{image.name}".encode(), "sha256").hex()
    return f"{PATH}{token}/{image.namespace}/{image.name.removeprefix('sha256:')}"


def without_tokens(message: str) -> str:
    """Return a message of another program without the tokens of paths, for objects that more users may read."""
    return _TOKEN.sub(f"{PATH}...", message)


def requested_image(key: bytes, path: str) -> ObjectKey | None:
    """Return the node image of a path; None unless :func:`image_path` made it with this key."""
    match = _PATH.fullmatch(path)
    if match is None:
        return None
    image = ObjectKey(match["namespace"], f"sha256:{match['hex']}")
    return image if hmac.compare_digest(image_path(key, image), path) else None


def requested_part(headers: Mapping[str, str], tag: str, size: int) -> tuple[int, int] | None:
    """Return start and length of the part that a request wants; None for the whole file, also of several parts.

    ``tag`` is the entity tag of the file and ``size`` its length in bytes. Source: RFC 9110, section 14.
    """
    match = _RANGE.fullmatch(headers.get("Range", ""))
    if match is None or headers.get("If-Range", tag) != tag:
        return None
    first, last, suffix = match.groups()
    if suffix is not None:
        start, end = max(size - int(suffix), 0), size - 1
    else:
        start, end = int(first), min(int(last or size), size - 1)
        if last and int(last) < start:
            return None  # not a valid range
    if start > end:
        raise RangeNotSatisfiable
    return start, end - start + 1


def images_of(release: Manifest) -> list[str]:
    """Return the values of the index."""
    namespace = text(release, "metadata", "namespace")
    return [f"{namespace}/{digest}" for digest in at(release, "status", "nodeImageFiles") or ()]


def is_verified(release: Manifest) -> bool:
    """Return whether the content of a release was verified, and nothing that was found later speaks against it."""
    found = {text(one, "type"): one for one in mappings(release, "status", "conditions")}
    downloaded, signed = found.get(ReleaseCondition.DOWNLOADED, {}), found.get(ReleaseCondition.SIGNATURE_VERIFIED)
    is_signed = signed is None or text(signed, "status") == "True" or text(signed, "reason") == Reason.NOT_SIGNED
    return text(downloaded, "status") == "True" and is_signed
