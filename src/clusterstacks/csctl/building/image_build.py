"""Builds node images on the author's machine, with the instructions in ``node-images/`` of a stack.

An entry of node-images/config.yaml with ``imageDir`` is built, by ``node-images/build`` if it exists, else by Packer as
the OpenStack plugin of csctl written in Go does:

    node-images/build IMAGE_DIR OUTPUT
    packer build -var build_name=IMAGE_DIR -var output_directory=OUTPUT node-images/IMAGE_DIR

The program writes the image to ``OUTPUT/IMAGE_DIR``. It runs in a copy of the stack, so it cannot change the source.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from clusterstacks.csctl.building.plugins import copy_tree, interruptible, run_program
from clusterstacks.csctl.building.source_tree import read_tree
from clusterstacks.csctl.building.yaml_edit import with_key
from clusterstacks.model import yaml
from clusterstacks.model.documents import mappings, text
from clusterstacks.model.errors import SpecError
from clusterstacks.model.files.node_images import ARTIFACT, SOURCE
from clusterstacks.release.errors import SourceBroken
from clusterstacks.release.release_source import IMAGE_DIRECTORY
from clusterstacks.runtime.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

SCRIPT: Final = "node-images/build"

MAGIC: Final = {"qcow2": b"QFI\xfb", "vmdk": b"KDMV", "vhdx": b"vhdxfile"}
"""First bytes of disk formats. Source: format_inspector of OpenStack."""


def build_images(root: Path, into: Path, time_limit: timedelta) -> Iterator[tuple[str, Path]]:
    """Build the images of a stack directory; yield checksum and file of each when it is complete.

    The checksum is in the list of the stack then. An image with the URL ``artifact:FILE`` is put where ``csctl create``
    looks for it, and others into ``into``, an absolute path. ``time_limit`` is for each image.

    Raises:
        SpecError: The list names no image to build, a program failed, or its image is not valid.
    """
    if into.is_relative_to(root):
        raise SourceBroken(into, "is in the stack directory: choose another directory with --output-dir")
    tree = read_tree(root)
    if SOURCE not in tree:
        raise SourceBroken(SOURCE, "is missing: it lists the node images")
    entries = mappings(yaml.load(tree[SOURCE], name=SOURCE), "openStackNodeImages")
    wanted = {at: text(entry, "imageDir") for at, entry in enumerate(entries) if text(entry, "imageDir")}
    if not wanted:
        raise SourceBroken(SOURCE, f"has no image with imageDir: add it to each image that {SCRIPT} or Packer builds")
    for at, name in wanted.items():
        if Path(name).name != name or name.startswith("."):
            raise SourceBroken(SOURCE, f"has imageDir {name!r}: write the name of a directory below node-images/")
        url, file = text(entries[at], "url"), into / name
        if url.startswith(ARTIFACT):
            file = root / IMAGE_DIRECTORY / Path(url.removeprefix(ARTIFACT)).name
        file.parent.mkdir(parents=True, exist_ok=True)
        # In the same file system as the result, which has gigabytes and is only renamed.
        with tempfile.TemporaryDirectory(prefix=".build-", dir=file.parent) as scratch:
            copy_tree(tree, root, Path(scratch, "stack"))
            image = _build(Path(scratch), name, time_limit)
            checksum = _checksum(image, text(entries[at], "createOpts", "disk_format"))
            image.replace(file)
        place, content = ("openStackNodeImages", at), Path(root, SOURCE).read_bytes()
        replace_file(Path(root, SOURCE), with_key(content, place, "checksum", checksum, name=SOURCE))
        yield checksum, file


def _build(scratch: Path, name: str, time_limit: timedelta) -> Path:
    source, output = scratch / "stack", scratch / "output"
    program = Path(SCRIPT)  # in the copy of the stack, where it runs
    if (source / program).exists():
        output.mkdir()
        arguments = [name, str(output)]
    else:
        program = _packer()
        variables = [f"-var=build_name={name}", f"-var=output_directory={output}"]
        arguments = ["build", *variables, str(source / "node-images" / name)]
    asyncio.run(interruptible(run_program(program, *arguments, working=source, time_limit=time_limit)))
    image = output / name
    if image.is_symlink() or not image.is_file():
        raise SourceBroken(program.name, f"wrote no file {name} into its output directory: see its output")
    return image


def _packer() -> Path:
    found = shutil.which("packer", path=os.environ.get("PATH", os.defpath))
    if found is None:
        raise SpecError("PackerMissing", f"the stack has no {SCRIPT}, and packer is not in PATH: add one of them")
    return Path(found).absolute()


def _checksum(file: Path, disk_format: str) -> str:
    """Return the checksum of an image; refuse a file that does not have its format."""
    with file.open("rb") as content:
        start = content.read(8)
        if not start or not start.startswith(MAGIC.get(disk_format, b"")):
            raise SourceBroken(file.name, f"is not an image of format {disk_format}: correct the build, or disk_format")
        content.seek(0)
        return f"sha256:{hashlib.file_digest(content, 'sha256').hexdigest()}"
