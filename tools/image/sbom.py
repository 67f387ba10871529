"""The list of what is in an image: Debian packages, wheels, and what wheels bundle, as CycloneDX JSON.

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
    from collections.abc import Iterable, Mapping, Sequence
    from email.message import Message

    from tools.image.debian import Package
    from tools.image.layers import Layer

MEDIA_TYPE = "application/vnd.cyclonedx+json"

_METADATA = re.compile(rf"({re.escape(SITE)}/[^/]+\.dist-info)/METADATA")
_SBOM = re.compile(r".+\.dist-info/sboms/[^/]+\.json")

_GO = b"\xff Go buildinf:"
"""Begins the build information in a Go program (debug/buildinfo); the version of Go follows at byte 32."""
_MODULE = re.compile(rb"^(?:mod|dep)\t(\S+)\t(\S+)\t?(\S*)\n(?:=>\t(\S+)\t(\S+)\t?(\S*)\n)?", re.MULTILINE)
"""A module, and the one that replaces it: path, version and hash, as in go.sum."""


@dataclass(frozen=True, slots=True)
class Wheel:
    """An installed wheel.

    Args:
        name: Its name, normalized (PEP 503).
        version: Its version.
        license: What the wheel states, for example an SPDX expression, else by its classifiers; empty without any.
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
    return Wheel(name, version, _license(described), digest.removeprefix("sha256:"))


def _license(described: Message) -> str:
    stated = described.get("License-Expression") or described.get("License") or ""
    classifiers = [one for one in described.get_all("Classifier", []) if one.startswith("License :: ")]
    return stated if stated and "\n" not in stated else " OR ".join(one.rpartition(" :: ")[2] for one in classifiers)


def _tags(url: str) -> set[str]:
    """Expand the tags in the file name of a wheel (PEP 425)."""
    parts = url.rpartition("/")[2].removesuffix(".whl").split("-")[-3:]
    return {"-".join(tag) for tag in itertools.product(*(part.split(".") for part in parts))}


def _text(layer: Layer, path: str) -> str:
    entry = layer.get(path)
    if not isinstance(entry, File):
        raise TypeError(f"{path} is missing: every wheel has it (PEP 427)")
    return entry.content.decode()


def bundled(layer: Layer) -> list[dict[str, Any]]:
    """Find the components that wheels bundle, sorted: Go modules in Go libraries, and lists in wheels (PEP 770)."""
    found: dict[str, dict[str, Any]] = {}
    for path, entry in layer.items():
        if isinstance(entry, File):
            components = _listed(entry.content) if _SBOM.fullmatch(path) else _go_modules(entry.content)
            found |= {one["purl"]: one for one in components}
    return [found[purl] for purl in sorted(found)]


def _listed(content: bytes) -> list[dict[str, Any]]:
    document = orjson.loads(content)
    kept = ("licenses", "hashes")
    return [
        _component(one["name"], one["version"], one["purl"].partition("?")[0], "")
        | {key: one[key] for key in kept if key in one}
        for one in document.get("components", ())
        if document.get("bomFormat") == "CycloneDX" and one.keys() >= {"name", "version", "purl"}
    ]


def _go_modules(content: bytes) -> list[dict[str, Any]]:
    start = content.find(_GO)
    if start < 0:
        return []
    version = content[start + 33 : start + 33 + content[start + 32]].decode().removeprefix("go")
    modules = [_go_component("stdlib", version, "")]
    for path, tag, checksum, *replaced in _MODULE.findall(content, start):
        module = tuple(replaced) if replaced[0] else (path, tag, checksum)
        modules.append(_go_component(*(part.decode() for part in module)))
    return modules


def _go_component(path: str, version: str, checksum: str) -> dict[str, Any]:
    component = _component(path, version, f"pkg:golang/{path.lower()}@{version.replace('+', '%2B')}", "")
    return component | ({"properties": [{"name": "go.sum", "value": checksum}]} if checksum else {})


def components(
    wheels: Iterable[Wheel], packages: Iterable[Package], further: Iterable[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the components of a list, sorted; ``further`` are those of :func:`bundled`."""
    found = [*map(_python_component, wheels), *map(_debian_component, packages), *further]
    return sorted(found, key=lambda one: str(one["purl"]))


def bill_of_materials(
    name: str, version: str, listed: Sequence[Mapping[str, Any]], *, kind: str = "container"
) -> bytes:
    """Write the list of an image or of a wheel, whose ``kind`` is ``library``."""
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": kind, "bom-ref": name, "name": name, "version": version}},
        "components": listed,
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
