"""``csctl build-images``: build the node images of a stack on this machine."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.options import DIRECTORY, NEW_DIRECTORY, Seconds


@click.command("build-images", short_help="Build the node images of a stack.")
@click.argument("directory", metavar="DIR", type=DIRECTORY)
@click.option("--output-dir", "-d", "into", type=NEW_DIRECTORY, default=Path("images"), show_default=True,
              help="Directory for the images.")  # fmt: skip
@click.option("--time-limit", type=Seconds(), default="2h", show_default=True, help="Maximum time for each image.")
def build_images(directory: Path, into: Path, time_limit: float) -> None:
    """Build each image of node-images/config.yaml that has imageDir, and write its checksum there.

    Runs 'node-images/build IMAGE_DIR OUTPUT' of the stack, or without that script 'packer build' in
    node-images/IMAGE_DIR, with a copy of the stack, which write the image to OUTPUT/IMAGE_DIR. The log goes to standard
    error. Ctrl-C and the time limit end the program with all its child processes.

    An image with the URL artifact:FILE becomes node-images/FILE of the stack, where 'csctl create' looks for it. Upload
    others from the output directory to their URLs. The build runs with your rights: build only stacks that you trust.
    """
    from clusterstacks.csctl.building import image_build
    from clusterstacks.csctl.building.discover import shown_path

    limit = timedelta(seconds=time_limit)
    for checksum, file in image_build.build_images(directory.resolve(), into.resolve(), limit):
        output.say(f"{checksum}  {shown_path(file)}")
