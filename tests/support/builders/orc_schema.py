"""The part of the definition of ORC's Image that the operator writes; other fields are dropped, as by the real one.

Source: openstack-resource-controller, config/crd/bases/openstack.k-orc.cloud_images.yaml.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

TEXT: Final = {"type": "string", "minLength": 1}
UNCHANGED: Final = "self == oldSelf"
SIZE: Final = {"type": "integer", "format": "int32", "minimum": 1}


def _object(*required: str, rules: tuple[str, ...] = (), **properties: Any) -> Manifest:
    checks = [{"rule": rule, "message": "is immutable" if rule == UNCHANGED else rule} for rule in rules]
    return {
        "type": "object",
        "properties": properties,
        **({"required": list(required)} if required else {}),
        **({"x-kubernetes-validations": checks} if checks else {}),
    }


def _one_of(*values: str) -> Manifest:
    return {"type": "string", "enum": list(values)}


def image_schema() -> Manifest:
    """Return the schema of an Image; its status is not checked."""
    download = _object(
        "url",
        url={"type": "string", "format": "uri", "maxLength": 2048},
        hash=_object(
            "algorithm",
            "value",
            algorithm=_one_of("md5", "sha1", "sha256", "sha512"),
            value={"type": "string", "pattern": "^[0-9a-f]+$"},
        ),
    )
    content = _object(
        "diskFormat",
        "download",
        rules=(UNCHANGED,),
        containerFormat=_one_of("ami", "ari", "aki", "bare", "ovf", "ova", "docker", "compressed"),
        diskFormat=_one_of("ami", "ari", "aki", "vhd", "vhdx", "vmdk", "raw", "qcow2", "vdi", "ploop", "iso"),
        download=download,
    )
    texts = ("cpuPolicy", "cpuThreadPolicy", "cdromBus", "diskBus", "scsiModel", "vifModel", "rngModel")
    hardware: Manifest = dict.fromkeys(texts, TEXT) | dict.fromkeys(("cpuSockets", "cpuCores", "cpuThreads"), SIZE)
    properties = _object(
        rules=(UNCHANGED,),
        architecture=TEXT,
        hypervisorType=TEXT,
        minDiskGB=SIZE,
        minMemoryMB=SIZE,
        operatingSystem=_object(distro=TEXT, version=TEXT),
        hardware=_object(qemuGuestAgent={"type": "boolean"}, **hardware),
    )
    resource_name = {"type": "string", "maxLength": 255, "pattern": "^[^,]+$"}
    tags = {"type": "array", "items": TEXT, "maxItems": 64, "x-kubernetes-list-type": "set"}
    spec = _object(
        "cloudCredentialsRef",
        rules=(
            "self.managementPolicy == 'managed' ? has(self.resource) && !has(self.__import__) : !has(self.resource)",
            "!has(self.managedOptions) || self.managementPolicy == 'managed'",
        ),
        cloudCredentialsRef=_object("cloudName", "secretName", cloudName=TEXT, secretName=TEXT),
        managementPolicy={
            **_one_of("managed", "unmanaged"),
            "default": "managed",
            "x-kubernetes-validations": [{"rule": UNCHANGED, "message": "managementPolicy is immutable"}],
        },
        managedOptions=_object(onDelete=_one_of("delete", "detach")),
        resource=_object(
            name=resource_name,
            visibility=_one_of("public", "private", "shared", "community"),
            tags=tags,
            protected={"type": "boolean"},
            properties=properties,
            content=content,
        ),
        **{
            "import": {
                **_object(
                    id={"type": "string", "format": "uuid"},
                    filter={**_object(name=resource_name, tags=tags), "minProperties": 1},
                ),
                "minProperties": 1,
                "maxProperties": 1,
            }
        },
    )
    return _object("spec", spec=spec, status={"type": "object", "x-kubernetes-preserve-unknown-fields": True})
