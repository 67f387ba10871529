"""The list of what is in an image: Debian packages and wheels, as CycloneDX JSON.

Source: https://cyclonedx.org/docs/1.6/json/. It has no serial number and no time of its own, so equal images have equal
lists.
"""

from __future__ import annotations

import email
import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from tools.image.debian import DISTRIBUTION
from tools.image.layers import File
from tools.image.wheels import SITE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tools.image.debian import Package
    from tools.image.layers import Layer

MEDIA_TYPE = "application/vnd.cyclonedx+json"

_METADATA = re.compile(rf"({re.escape(SITE)}/[^/]+\.dist-info)/METADATA")


@dataclass(frozen=True, slots=True)
class Wheel:
    """An installed wheel.

    Args:
        name: Its name, normalized (PEP 503).
        version: Its version.
        license: What the wheel states, for example an SPDX expression; empty where it states none in a line.
        sha256: Of the wheel in ``uv.lock``, in hex; empty for the wheel of this project.
    """

    name: str
    version: str
    license: str
    sha256: str


def wheels_of(layer: Layer, lock: Mapping[str, Any]) -> list[Wheel]:
    """Find the wheels whose files a layer has, sorted by name.

    Args:
        layer: The layer.
        lock: The content of ``uv.lock``.
    """
    folders = sorted(match[1] for path in layer if (match := _METADATA.fullmatch(path)))
    return [_wheel(_text(layer, f"{one}/METADATA"), _text(layer, f"{one}/WHEEL"), lock) for one in folders]


def _wheel(metadata: str, wheel: str, lock: Mapping[str, Any]) -> Wheel:
    described = email.message_from_string(metadata)
    name, version = re.sub(r"[-_.]+", "-", described["Name"]).lower(), described["Version"]
    tags = email.message_from_string(wheel).get_all("Tag", [])
    locked = (one for one in lock["package"] if (one["name"], one["version"]) == (name, version))
    files = (file for one in locked for file in one.get("wheels", ()))
    digest = next((file["hash"] for file in files if not _tags(file["url"]).isdisjoint(tags)), "")
    stated = described.get("License-Expression") or described.get("License") or ""
    return Wheel(name, version, "" if "\n" in stated else stated, digest.removeprefix("sha256:"))


def _tags(url: str) -> set[str]:
    """Expand the tags in the file name of a wheel (PEP 425)."""
    parts = url.rpartition("/")[2].removesuffix(".whl").split("-")[-3:]
    return {"-".join(tag) for tag in itertools.product(*(part.split(".") for part in parts))}


def _text(layer: Layer, path: str) -> str:
    entry = layer.get(path)
    if not isinstance(entry, File):
        raise TypeError(f"{path} is missing: every wheel has it (PEP 427)")
    return entry.content.decode()


def bill_of_materials(name: str, version: str, wheels: Iterable[Wheel], packages: Iterable[Package]) -> bytes:
    """Write the list for an image.

    Args:
        name: Name of the image.
        version: Version of the image.
        wheels: The wheels in it.
        packages: The Debian packages in it.
    """
    components = [*map(_python_component, wheels), *map(_debian_component, packages)]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "container", "bom-ref": name, "name": name, "version": version}},
        "components": sorted(components, key=lambda one: one["purl"]),
    }
    return orjson.dumps(document)


def _python_component(wheel: Wheel) -> dict[str, Any]:
    component = _component(wheel.name, wheel.version, f"pkg:pypi/{wheel.name}@{wheel.version}", wheel.sha256)
    return component | ({"licenses": [{"license": {"name": wheel.license}}]} if wheel.license else {})


def _debian_component(package: Package) -> dict[str, Any]:
    version = package.version.replace(":", "%3A").replace("+", "%2B").replace("~", "%7E")
    purl = (
        f"pkg:deb/debian/{package.name.replace('+', '%2B')}@{version}?arch={package.architecture}&distro={DISTRIBUTION}"
    )
    return _component(package.name, package.version, purl, package.sha256)


def _component(name: str, version: str, purl: str, sha256: str) -> dict[str, Any]:
    component: dict[str, Any] = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    return component | ({"hashes": [{"alg": "SHA-256", "content": sha256}]} if sha256 else {})
