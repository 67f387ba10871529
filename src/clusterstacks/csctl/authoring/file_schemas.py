"""JSON schemas of the files of a stack and of our kinds, for editors (JSON Schema, draft 7).

They state the keys, types and forms that the readers of these files require. The readers check more: a schema cannot
compare two files or read CEL expressions. What a schema refuses, the reader or ``csctl lint`` refuses as well.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from clusterstacks.csctl.building.settings import CSCTL, STACK, VERSIONS
from clusterstacks.model.files.addon_config import AddonConfig
from clusterstacks.model.files.compatibility import FILE as COMPATIBILITY
from clusterstacks.model.files.compatibility import Compatibility
from clusterstacks.model.files.definitions import schema
from clusterstacks.model.files.metadata import MetadataFile
from clusterstacks.model.files.node_images import FILE as NODE_IMAGES
from clusterstacks.model.files.node_images import NodeImages
from clusterstacks.model.files.stack_settings import CsctlFile, StackFile, VersionsFile
from clusterstacks.model.kinds.crd_manifests import all_crds
from clusterstacks.release.release import ADDON_CONFIG, METADATA

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

DIALECT: Final = "http://json-schema.org/draft-07/schema#"
"""The newest dialect that yaml-language-server supports in full."""

BASE: Final = "https://raw.githubusercontent.com/OWNER/cluster-stacks/main/schemas"
"""Beginning of the ids of the schemas; OWNER is the owner of the repository, as in the other pages."""


def file_schemas() -> dict[str, Manifest]:
    """Return the schema of each file of a stack by the name of the file."""
    definitions = {
        CSCTL: CsctlFile,
        STACK: StackFile,
        VERSIONS: VersionsFile,
        ADDON_CONFIG: AddonConfig,
        COMPATIBILITY: Compatibility,
        METADATA: MetadataFile,
        NODE_IMAGES: NodeImages,
    }
    return {
        file: {"$schema": DIALECT, "$id": f"{BASE}/{schema_file(file)}", "title": file, **schema(definition)}
        for file, definition in definitions.items()
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
