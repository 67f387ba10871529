"""The krew plugin: its manifest against krew's rules, and its archive."""

from __future__ import annotations

import io
import re
import subprocess
import zipfile
from hashlib import sha256
from importlib.metadata import version
from typing import TYPE_CHECKING

from clusterstacks.model.yaml import load
from deploy import krew
from deploy.manifests import NOTE

if TYPE_CHECKING:
    from pathlib import Path


def test_manifest_is_current() -> None:
    assert krew.MANIFEST.read_text() == NOTE + krew.manifest(), "run `make manifests`"


def test_manifest_has_the_fields_that_krew_requires() -> None:
    """Source: https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/."""
    document = load(krew.MANIFEST.read_bytes(), name="manifest")
    spec = document["spec"]

    assert (document["apiVersion"], document["kind"]) == ("krew.googlecontainertools.github.com/v1alpha2", "Plugin")
    assert document["metadata"] == {"name": "clusterstacks"}
    assert re.fullmatch(r"[\w-]+", document["metadata"]["name"])
    assert spec["version"] == f"v{version('cluster-stacks')}"
    assert re.fullmatch(r"v\d+\.\d+\.\d+(-.+)?", spec["version"])
    assert 0 < len(spec["shortDescription"]) <= 50
    assert not spec["shortDescription"].endswith(".")
    for platform in spec["platforms"]:
        assert platform["selector"]["matchLabels"].keys() <= {"os", "arch"}
        assert platform["uri"].startswith("https://")
        assert platform["uri"].endswith((".zip", ".tar.gz"))
        assert re.fullmatch(r"[0-9a-f]{64}", platform["sha256"])
        assert platform["bin"] in {one["from"] for one in platform["files"]}


def test_archive_is_the_one_of_the_manifest_and_has_program_and_licence() -> None:
    content = krew.archive()
    with zipfile.ZipFile(io.BytesIO(content)) as archived:
        modes = {one.filename: one.external_attr >> 16 & 0o777 for one in archived.infolist()}

    assert modes == {"kubectl-clusterstacks": 0o755, "LICENSE": 0o644}
    assert sha256(content).hexdigest() in krew.MANIFEST.read_text()


def test_program_starts_csctl_or_says_how_to_install_it(tmp_path: Path) -> None:
    missing = subprocess.run([krew.SCRIPT], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert (missing.returncode, "uv tool install" in missing.stderr) == (127, True)

    csctl = tmp_path / "csctl"
    csctl.write_text('#!/bin/sh\necho "$@"\n')
    csctl.chmod(0o755)
    found = subprocess.run([krew.SCRIPT, "get", "a b"], env={"PATH": str(tmp_path)}, capture_output=True, check=True)
    assert found.stdout == b"get a b\n"
