"""JSON schemas of the files of a stack and of our kinds, for editors (JSON Schema, draft 7).

They state the keys, types and forms that the readers of these files require. The readers check more: a schema cannot
compare two files or read CEL expressions. What a schema refuses, the reader or ``csctl lint`` refuses as well.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from clusterstacks.csctl.building.settings import CSCTL, STACK, VERSIONS
from clusterstacks.model.files.addon_config import AddonConfig
from clusterstacks.model.files.compatibility import FILE as COMPATIBILITY
from clusterstacks.model.files.compatibility import Compatibility
from clusterstacks.model.files.definitions import schema
from clusterstacks.model.files.metadata import API_VERSION as METADATA_VERSION
from clusterstacks.model.kinds.crd_manifests import all_crds
from clusterstacks.release.release import ADDON_CONFIG, METADATA, NODE_IMAGES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.model.objects import Manifest

Keys: TypeAlias = "Mapping[str, Keys | None]"
"""The known keys of a mapping, or of the mappings in a list, and the keys below each; None allows any content."""

DIALECT: Final = "http://json-schema.org/draft-07/schema#"
"""The newest dialect that yaml-language-server supports in full."""

BASE: Final = "https://raw.githubusercontent.com/OWNER/cluster-stacks/main/schemas"
"""Beginning of the ids of the schemas; OWNER is the owner of the repository, as in the other pages."""

_TEXT: Final = {"type": "string", "minLength": 1}
_NUMBER: Final = "(0|[1-9][0-9]*)"
_FULL_KUBERNETES: Final = rf"^v?{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-(alpha|beta|rc)\.{_NUMBER})?$"
_KUBERNETES_OR_MINOR: Final = rf"^v?{_NUMBER}\.{_NUMBER}(\.{_NUMBER}(-(alpha|beta|rc)\.{_NUMBER})?)?$"
_STACK_VERSION: Final = rf"^v{_NUMBER}(-[0-9A-Za-z_]+[.-][0-9A-Za-z_]+)?$"


def file_schemas() -> dict[str, Manifest]:
    """Return the schema of each file of a stack by the name of the file."""
    bodies = {
        CSCTL: _csctl(),
        STACK: _stack(),
        VERSIONS: _versions(),
        ADDON_CONFIG: schema(AddonConfig),
        COMPATIBILITY: schema(Compatibility),
        METADATA: _metadata(),
        NODE_IMAGES: _node_images(),
    }
    return {
        file: {"$schema": DIALECT, "$id": f"{BASE}/{schema_file(file)}", "title": file, **body}
        for file, body in bodies.items()
    }


def kind_schemas() -> dict[str, Manifest]:
    """Return the schema of each of our kinds by ``GROUP/KIND_VERSION.json``, the layout that kubeconform reads."""
    found = {}
    for crd in all_crds():
        names, group, version = crd["spec"]["names"], crd["spec"]["group"], crd["spec"]["versions"][0]
        path = f"{group}/{names['singular']}_{version['name']}.json"
        closed = _closed(version["schema"]["openAPIV3Schema"])
        closed["properties"]["apiVersion"] |= {"const": f"{group}/{version['name']}"}
        closed["properties"]["kind"] |= {"const": names["kind"]}
        closed["required"] = ["apiVersion", "kind", "metadata"]
        found[path] = {"$schema": DIALECT, "$id": f"{BASE}/{path}", "title": names["kind"], **closed}
    return found


def all_schemas() -> dict[str, Manifest]:
    """Return every schema by its path below a directory of schemas."""
    return {schema_file(file): schema for file, schema in file_schemas().items()} | kind_schemas()


def schema_text(schema: Manifest) -> str:
    """Return a schema as the text of its file."""
    return f"{json.dumps(schema, indent=2)}\n"


def known_keys(file: str) -> Keys:
    """Return the keys that a file of a stack may contain."""
    return _keys(file_schemas()[file]) or {}


def _keys(schema: Manifest) -> Keys | None:
    below = schema.get("items", schema)
    if "properties" not in below:
        return None
    return {name: _keys(field) for name, field in below["properties"].items()}


def schema_file(file: str) -> str:
    """Return the name of the schema of a file of a stack: ``csctl.json`` for csctl.yaml."""
    return f"{file.removesuffix('.yaml')}.json"


def _closed(schema: Manifest) -> Manifest:
    """Return a structural schema without extensions of Kubernetes; unknown fields are not valid in it."""
    closed: Manifest = {}
    for key, value in schema.items():
        if key == "properties":
            closed[key] = {name: _closed(field) for name, field in value.items()}
        elif key in ("items", "additionalProperties"):
            closed[key] = _closed(value)
        elif not key.startswith("x-kubernetes-"):
            closed[key] = value
    free = "x-kubernetes-preserve-unknown-fields" in schema or "additionalProperties" in schema
    if "properties" in closed and not free:
        closed["additionalProperties"] = False
    return closed


def _object(
    description: str, properties: Mapping[str, Manifest], *, required: tuple[str, ...] = (), closed: bool = True
) -> Manifest:
    """Return the schema of a mapping."""
    body: Manifest = {"type": "object", "description": description, "properties": dict(properties)}
    if required:
        body["required"] = [*required]
    if closed:
        body["additionalProperties"] = False
    return body


def _text(description: str, **keywords: Any) -> Manifest:  # noqa: ANN401 - keywords of JSON Schema
    return {**_TEXT, "description": description, **keywords}


def _list(description: str, items: Manifest, **keywords: Any) -> Manifest:  # noqa: ANN401 - as _text
    """Return the schema of a list; a list that is not written may be null."""
    return {"type": ["array", "null"], "description": description, "items": items, **keywords}


_NAME: Final = "^[a-z0-9]+$"


def _csctl() -> Manifest:
    version = _text(
        "Kubernetes version of the release, for example v1.35.4. A minor such as v1.35 only beside stack.yaml.",
        type=["string", "number"],
        pattern=_KUBERNETES_OR_MINOR,
    )
    provider = _object(
        "Infrastructure provider of the clusters.",
        {
            "type": _text("Name of the provider: lower-case letters and digits.", pattern=_NAME),
            "apiVersion": _text("API version of config: PROVIDER.csctl.clusterstack.x-k8s.io/v1alpha1."),
            "config": {
                "type": ["object", "null"],
                "description": "Settings of the plugin csctl-PROVIDER. If they are not empty, it makes node images.",
            },
        },
        required=("type",),
    )
    config = _object(
        "Name and versions of the stack.",
        {
            "kubernetesVersion": version,
            "clusterStackName": _text("Name of the stack: lower-case letters and digits.", pattern=_NAME),
            "provider": provider,
        },
        required=("kubernetesVersion", "clusterStackName", "provider"),
    )
    return _object(
        "Provider, name and Kubernetes version of a cluster stack.",
        {"apiVersion": _text("csctl.clusterstack.x-k8s.io/v1alpha1"), "config": config},
        required=("config",),
    )


def _stack() -> Manifest:
    return _object(
        "Provider, name and Kubernetes version of a cluster stack whose charts csctl completes.",
        {
            "provider": _text("Infrastructure provider: lower-case letters and digits.", pattern=_NAME),
            "clusterStackName": _text("Name of the stack: lower-case letters and digits.", pattern=_NAME),
            "kubernetesVersion": _text(
                "A full version such as 1.35.4, or a minor such as 1.35 for its newest patch.",
                type=["string", "number"],
                pattern=_KUBERNETES_OR_MINOR,
            ),
            "addons": {
                "type": ["object", "null"],
                "description": "Version of a chart dependency, or a range that must contain it, such as 2.35.x.",
                "additionalProperties": _text("A version in quotes, or a range."),
            },
        },
        required=("provider", "clusterStackName"),
        closed=False,
    )


def _versions() -> Manifest:
    row = {
        "type": "object",
        "description": "One release: its Kubernetes version, and the versions of chart dependencies.",
        "properties": {
            "kubernetes": _text("Full Kubernetes version, for example 1.35.4.", pattern=_FULL_KUBERNETES),
        },
        "required": ["kubernetes"],
        "additionalProperties": _text(
            "Version of the dependency with this name or alias, of the addon, or of occm or cinder_csi."
        ),
    }
    return {
        "type": "array",
        "description": "The Kubernetes minors of a stack directory, one row for each.",
        "items": row,
        "minItems": 1,
    }


def _metadata() -> Manifest:
    def version(description: str) -> Manifest:
        return _text(description, pattern=_STACK_VERSION)

    components = _object(
        "Versions of the components.",
        {
            "clusterAddon": version("Version of the addons; may be lower than that of the stack."),
            "nodeImage": {**version("Version of the node images."), "type": ["string", "null"], "minLength": 0},
        },
        required=("clusterAddon",),
        closed=False,
    )
    components["properties"]["nodeImage"]["pattern"] = f"^$|{_STACK_VERSION}"
    versions = _object(
        "Versions of the release.",
        {
            "clusterStack": version("Version of the stack, for example v3 or v0-beta.1."),
            "kubernetes": _text("Full Kubernetes version, for example v1.35.4."),
            "components": components,
        },
        required=("clusterStack", "kubernetes", "components"),
        closed=False,
    )
    return _object(
        "Versions of a release; beside a stack, of its newest release.",
        {"apiVersion": _text(METADATA_VERSION), "versions": versions},
        required=("versions",),
        closed=False,
    )


def _node_images() -> Manifest:
    options = _object(
        "Properties of the image in OpenStack.",
        {
            "name": _text("Name of the image."),
            "disk_format": _text("Format of the disk, for example qcow2."),
            "container_format": _text("Format of the container, for example bare."),
        },
        required=("name", "disk_format", "container_format"),
        closed=False,
    )
    image = _object(
        "A node image.",
        {"url": _text("URL of the image."), "createOpts": options},
        required=("url", "createOpts"),
        closed=False,
    )
    return _object(
        "Node images of a release, written by the plugin of the provider.",
        {
            "apiVersion": _text("PROVIDER.infrastructure.clusterstack.x-k8s.io/v1alpha1"),
            "openStackNodeImages": _list("Images of provider openstack.", image, minItems=1),
            "dockerImages": _list("Images of provider docker.", _text("Name of an image."), minItems=1),
        },
        required=("apiVersion",),
        closed=False,
    )
