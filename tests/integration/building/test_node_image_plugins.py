"""Runs real node image plugins by csctl create."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.builders.stack_directories import copied
from tests.support.running.child_processes import is_running, number_in


def created(out: str) -> Path:
    return Path(out.strip().removeprefix("Created "))


CSCTL = [sys.executable, "-m", "clusterstacks.csctl.main"]
IMAGES = "apiVersion: local.infrastructure.clusterstack.x-k8s.io/v1alpha1\n"


class Author:
    """A stack that needs the plugin csctl-local, and an empty directory for plugins."""

    def __init__(self, root: Path) -> None:
        self.stack = copied("single", root)
        settings = self.stack / "csctl.yaml"
        settings.write_text(settings.read_text() + "    config: {method: get}\n")
        self.plugins = root / "plugins"
        self.plugins.mkdir()
        self.working = root / "working"
        self.working.mkdir()
        self.out = root / "out"

    def plugin(self, script: str, directory: Path | None = None) -> None:
        program = (directory or self.plugins) / "csctl-local"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    def lists_openstack_images(self, content: str, method: str = "get") -> None:
        for file in ("csctl.yaml", "cluster-class/Chart.yaml", "cluster-addon/Chart.yaml"):
            text = (self.stack / file).read_text().replace("method: get", f"method: {method}")
            (self.stack / file).write_text(text.replace("local", "openstack"))
        (self.stack / "node-images/config.yaml").write_text(content)

    def start(self, *arguments: str, path: str = "") -> subprocess.Popen[str]:
        search = path or f"{self.plugins}:{os.environ['PATH']}"
        command = [*CSCTL, "create", str(self.stack), "--mode", "hash", "-o", str(self.out), *arguments]
        environment = {**os.environ, "PATH": search}
        return subprocess.Popen(
            command,
            cwd=self.working,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Background jobs of shells ignore SIGINT, and a test run may be such a job.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
        )

    def create(self, *arguments: str, path: str = "") -> tuple[int, str, str]:
        with self.start(*arguments, path=path) as process:
            out, err = process.communicate(timeout=60)
            return process.returncode, out, err

    def left(self) -> list[str]:
        return sorted(path.name for path in self.out.iterdir()) if self.out.exists() else []


@pytest.fixture
def author(tmp_path: Path) -> Author:
    return Author(tmp_path)


LISTED = """\
apiVersion: openstack.infrastructure.clusterstack.x-k8s.io/v1alpha1
openStackNodeImages:
  - url: https://images.example.org/node.qcow2  # kept
    createOpts: {name: node, disk_format: qcow2, container_format: bare}
"""


def test_list_of_openstack_images_is_copied_without_the_plugin(author: Author) -> None:
    author.lists_openstack_images(LISTED)

    code, out, err = author.create()

    assert code == 0, err
    assert (created(out) / "node-images.yaml").read_text() == LISTED
    assert "nodeImagesDir" in (created(out) / "hashes.json").read_text()


def test_installed_plugin_makes_the_list_of_openstack_images(author: Author) -> None:
    author.lists_openstack_images(LISTED)
    author.plugin('sed s/node.qcow2/other.qcow2/ "$2/node-images/config.yaml" > "$3/node-images.yaml"')
    (author.plugins / "csctl-local").rename(author.plugins / "csctl-openstack")

    code, out, err = author.create()

    assert code == 0, err
    assert "other.qcow2" in (created(out) / "node-images.yaml").read_text()


@pytest.mark.parametrize("method", ["build", "other"])
def test_plugin_that_would_do_more_than_copy_is_required(author: Author, method: str) -> None:
    author.lists_openstack_images(LISTED, method)

    code, _, err = author.create()

    assert code == 2
    assert "requires the plugin csctl-openstack" in err


def test_plugin_gets_verb_source_release_and_registry(author: Author) -> None:
    author.plugin(
        f'echo "$1 $4"; echo loud >&2; printf "{IMAGES}" > "$3/node-images.yaml"; test -x "$2/node-images/setup.sh"'
    )

    code, out, err = author.create("-r", "oci://registry.example.com/images")

    assert code == 0, err
    assert (created(out) / "node-images.yaml").read_text() == IMAGES
    assert "create-node-images oci://registry.example.com/images\n" in err
    assert "loud\n" in err


def test_registry_file_path_is_absolute_for_the_plugin(author: Author) -> None:
    (author.working / "registry.yaml").touch()
    author.plugin(f'echo "$4"; printf "{IMAGES}" > "$3/node-images.yaml"')

    assert str(author.working / "registry.yaml") in author.create("-r", "registry.yaml")[2]


@pytest.mark.regression("D44")
def test_plugin_changes_only_a_copy_of_the_source(author: Author) -> None:
    before = {path: path.read_bytes() for path in author.stack.rglob("*") if path.is_file()}
    author.plugin(f'echo x >> "$2/csctl.yaml"; touch "$2/new"; printf "{IMAGES}" > "$3/node-images.yaml"')

    code, out, err = author.create()

    assert code == 0, err
    assert {path: path.read_bytes() for path in author.stack.rglob("*") if path.is_file()} == before
    assert (
        created(out).name
        in subprocess.run(
            [*CSCTL, "create", str(author.stack), "--mode", "hash", "-o", str(author.out)],
            env={**os.environ, "PATH": f"{author.plugins}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    )


@pytest.mark.regression("DROP-M2")
def test_plugin_runs_in_the_current_directory(author: Author) -> None:
    (author.working / "registry.yaml").touch()
    author.plugin(f'echo "cwd=$(pwd)"; test -f "$4" && touch output; printf "{IMAGES}" > "$3/node-images.yaml"')

    code, _, err = author.create("-r", "../working/registry.yaml")

    assert (code, f"cwd={author.working}\n" in err) == (0, True), err
    assert (author.working / "output").is_file()


@pytest.mark.regression("DROP-M2")
def test_plugin_started_in_the_source_leaves_nothing_there(author: Author) -> None:
    (author.stack / "registry.yaml").touch()
    author.plugin(f'test -f "$4" && touch output; printf "{IMAGES}" > "$3/node-images.yaml"')
    before = sorted(author.stack.rglob("*"))
    author.working = author.stack

    code, _, err = author.create("-r", "registry.yaml")

    assert code == 0, err
    assert sorted(author.stack.rglob("*")) == before


@pytest.mark.regression("D45")
@pytest.mark.parametrize("path", [".:/nowhere", ":/nowhere", "/nowhere:", "working:/nowhere", "./:/nowhere"])
def test_executable_in_the_current_directory_is_not_run(author: Author, path: str) -> None:
    author.plugin("touch ran", author.working)

    code, _, err = author.create(path=path)

    assert code == 2
    assert "requires the plugin csctl-local, which no directory of PATH contains" in err
    assert [file.name for file in author.working.iterdir()] == ["csctl-local"]


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("echo broken >&2; exit 3", "csctl-local ended with exit code 3"),
        ("kill -9 $$", "csctl-local ended with signal 9"),
        ("true", "wrote no node-images.yaml into the release"),
        ('echo "a: [" > "$3/node-images.yaml"', "node-images.yaml"),
        ('echo "a: 1" > "$3/node-images.yaml"', "node-images.yaml: apiVersion is missing"),
    ],
)
def test_failed_plugin_leaves_no_release(author: Author, script: str, complaint: str) -> None:
    author.plugin(script)

    code, out, err = author.create()

    assert (code, out) == (2, "")
    assert complaint in err
    assert author.left() == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 130)])
def test_interrupt_ends_the_plugin_with_its_children(
    author: Author, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    author.plugin(f"sleep 300 & echo $! > {tmp_path}/child; wait")
    with author.start() as process:
        child = number_in(tmp_path / "child")
        process.send_signal(number)
        _, err = process.communicate(timeout=60)  # the child would sleep for 300 s

    assert (process.returncode, err.splitlines()[-1]) == (code, "interrupted")
    assert not is_running(child)
    assert author.left() == []
