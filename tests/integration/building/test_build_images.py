"""Builds node images with real scripts by csctl build-images."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.builders.stack_directories import copied
from tests.support.running.child_processes import is_running, number_in

if TYPE_CHECKING:
    from pathlib import Path

CSCTL = [sys.executable, "-m", "clusterstacks.csctl.main"]
IMAGES = """\
apiVersion: openstack.infrastructure.clusterstack.x-k8s.io/v1alpha1
openStackNodeImages:
  - imageDir: node  # built
    createOpts: {name: node, disk_format: qcow2, container_format: bare}
    url: https://images.example.org/node.qcow2
  - createOpts: {name: other, disk_format: raw, container_format: bare}
    url: https://images.example.org/other.raw
"""
IMAGE = b"QFI\xfbimage"
WRITE = 'printf "QFI\\373image" > "$2/$1"'
CHECKSUM = f"sha256:{hashlib.sha256(IMAGE).hexdigest()}"


class Author:
    """A stack with an image to build, and an empty directory for images."""

    def __init__(self, root: Path) -> None:
        self.stack = copied("single", root)
        self.list = self.stack / "node-images/config.yaml"
        self.list.write_text(IMAGES)
        self.out = root / "images"
        self.programs = root / "programs"
        self.programs.mkdir()

    def script(self, content: str) -> None:
        _program(self.stack / "node-images/build", content)

    def packer(self, content: str) -> None:
        _program(self.programs / "packer", content)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*CSCTL, "build-images", str(self.stack), "-d", str(self.out), *arguments],
            env={**os.environ, "PATH": f"{self.programs}:/usr/bin:/bin"},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Background jobs of shells ignore SIGINT, and a test run may be such a job.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
        )

    def build(self, *arguments: str) -> tuple[int, str, str]:
        with self.start(*arguments) as process:
            out, err = process.communicate(timeout=60)
            return process.returncode, out, err

    def left(self) -> list[str]:
        return sorted(path.name for path in self.out.iterdir())


def _program(file: Path, content: str) -> None:
    file.write_text(f"#!/bin/sh\nset -e\n{content}\n")
    file.chmod(0o755)


@pytest.fixture
def author(tmp_path: Path) -> Author:
    return Author(tmp_path)


def test_script_builds_an_image_whose_checksum_is_in_the_list(author: Author) -> None:
    author.script(f"echo building; echo x > ../changed; {WRITE}")

    code, out, err = author.build()

    assert (code, out) == (0, f"{CHECKSUM}  {author.out}/node\n"), err
    assert "building\n" in err
    assert author.left() == ["node"]
    assert (author.out / "node").read_bytes() == IMAGE
    assert author.list.read_text() == IMAGES.replace("imageDir: node", f"checksum: {CHECKSUM}\n    imageDir: node")
    assert not (author.stack / "changed").exists(), "the script works on a copy of the stack"

    assert author.build()[0] == 0
    assert author.list.read_text().count("checksum") == 1


def test_image_that_is_published_with_the_release_is_put_into_the_stack(author: Author) -> None:
    author.list.write_text(IMAGES.replace("https://images.example.org/node.qcow2", "artifact:../node.qcow2"))
    author.script(WRITE)

    code, out, err = author.build()

    assert (code, out) == (0, f"{CHECKSUM}  {author.stack}/node-images/node.qcow2\n"), err
    assert (author.stack / "node-images/node.qcow2").read_bytes() == IMAGE
    assert sorted(one.name for one in (author.stack / "node-images").iterdir()) == [
        "build",
        "config.yaml",
        "node.qcow2",
        "setup.sh",
    ]
    assert not author.out.exists()


def test_packer_builds_the_directory_of_an_image(author: Author) -> None:
    (author.stack / "node-images/node").mkdir()
    (author.stack / "node-images/node/node.pkr.hcl").touch()
    author.packer(
        f'test -f "$4/node.pkr.hcl"; echo "$1 $2"; set -- node "${{3#*=output_directory=}}"; mkdir "$2"; {WRITE}'
    )

    code, _, err = author.build()

    assert (code, author.left()) == (0, ["node"]), err
    assert "build -var=build_name=node\n" in err


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("exit 3", "ended with exit code 3"),
        ("true", "build wrote no file node into its output directory"),
        ('ln -s /etc/hostname "$2/$1"', "build wrote no file node"),
        ('echo "<html>404</html>" > "$2/$1"', "node is not an image of format qcow2"),
        ('touch "$2/$1"', "node is not an image of format qcow2"),
    ],
)
def test_failed_build_leaves_no_image(author: Author, script: str, complaint: str) -> None:
    author.script(script)

    code, out, err = author.build()

    assert (code, out) == (2, "")
    assert complaint in err
    assert author.left() == []
    assert author.list.read_text() == IMAGES


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "node-images/config.yaml is missing"),
        (IMAGES.replace("imageDir: node  # built", "checksum: sha256:abc"), "has no image with imageDir"),
        (IMAGES.replace("imageDir: node", "imageDir: ../node"), "has imageDir '../node'"),
        (IMAGES, "has no node-images/build, and packer is not in PATH"),
    ],
)
def test_stack_that_cannot_be_built_says_why(author: Author, content: str | None, complaint: str) -> None:
    if content is None:
        author.list.unlink()
    else:
        author.list.write_text(content)

    code, _, err = author.build()

    assert code == 2
    assert complaint in err


def test_images_are_not_built_into_the_stack(author: Author) -> None:
    author.out = author.stack / "images"
    author.script(WRITE)

    code, _, err = author.build()

    assert (code, author.out.exists()) == (2, False)
    assert "is in the stack directory" in err


@pytest.mark.parametrize("ends", [signal.SIGINT, signal.SIGTERM, None])
def test_program_ends_with_its_children(author: Author, tmp_path: Path, ends: signal.Signals | None) -> None:
    author.script(f"sleep 300 & echo $! > {tmp_path}/child; wait")
    with author.start(*([] if ends else ["--time-limit", "2s"])) as process:
        child = number_in(tmp_path / "child")
        if ends:
            process.send_signal(ends)
        _, err = process.communicate(timeout=60)  # the child would sleep for 300 s

    assert process.returncode == (130 if ends else 2)
    assert ("interrupted" if ends else "did not end within 2 s (--time-limit), and was stopped") in err
    assert not is_running(child)
    assert author.left() == []
