"""Image archives for ``ctr images import``: images of single static programs."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import struct
import tarfile
from typing import TYPE_CHECKING

from clusterstacks.model.errors import SpecError

if TYPE_CHECKING:
    from pathlib import Path

PAUSE = "cluster-stacks.local/pause:1"
"""Image of the process that holds the namespaces of a pod."""
IMAGE_NAME = "io.containerd.image.name"
"""Annotation with the name that containerd gives an imported image."""
USER = "65532:65532"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_CODE = {
    "amd64": (62, b"\xb8\x22\0\0\0\x0f\x05\xeb\xf7"),  # mov eax, SYS_pause; syscall; jmp back
    "arm64": (
        183,
        # x0 to x3 = 0; x8 = SYS_ppoll; svc 0; b back
        struct.pack("<7I", 0xD2800000, 0xD2800001, 0xD2800002, 0xD2800003, 0xD2800928, 0xD4000001, 0x17FFFFFA),
    ),
}
"""ELF machine number, and machine code that waits forever."""
_BASE = 0x400000
_HEADERS = 64 + 56


def architecture() -> str:
    """Return this machine's architecture as in images.

    Raises:
        SpecError: It is not supported.
    """
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        raise SpecError("ArchitectureNotSupported", f"a node runs on {' or '.join(ARCHITECTURES)}, not on {machine}")
    return ARCHITECTURES[machine]


def pause_program(arch: str) -> bytes:
    """Return a static ELF program that waits until it is killed."""
    machine, code = _CODE[arch]
    size = _HEADERS + len(code)
    identity = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    header = struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, _BASE + _HEADERS, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, size, size, 0x1000)  # one, readable and executable
    return identity + header + segment + code


def write_image(target: Path, name: str, program: bytes) -> None:
    """Write an archive of the image ``name`` whose only file is ``/manager``, its entry point."""
    arch = architecture()
    blobs: dict[str, bytes] = {}

    def blob(content: bytes, media_type: str) -> dict[str, object]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        return {
            "mediaType": f"application/vnd.oci.image.{media_type}",
            "digest": f"sha256:{digest}",
            "size": len(content),
        }

    layer = _tar({"manager": program})
    config = {
        "architecture": arch,
        "os": "linux",
        "config": {"Entrypoint": ["/manager"], "User": USER},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob(json.dumps(config).encode(), "config.v1+json"),
        "layers": [blob(gzip.compress(layer, compresslevel=1, mtime=0), "layer.v1.tar+gzip")],
    }
    entry = blob(json.dumps(manifest).encode(), "manifest.v1+json")
    entry["annotations"] = {IMAGE_NAME: name}
    index = {"schemaVersion": 2, "manifests": [entry]}
    files = {f"blobs/sha256/{digest}": content for digest, content in blobs.items()}
    files |= {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": json.dumps(index).encode()}
    target.write_bytes(_tar(files))


def _tar(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
