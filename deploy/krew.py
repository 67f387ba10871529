"""The krew plugin: a small archive whose program starts csctl, and the manifest with its digest.

krew installs archives of programs, but csctl needs Python and compiled libraries. So the program of the plugin starts
an installed csctl, and says how to install it if there is none.
"""

from __future__ import annotations

import io
import stat
import zipfile
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from clusterstacks.model.yaml import dump

ROOT = Path(__file__).parents[1]
MANIFEST = ROOT / "deploy/krew/clusterstacks.yaml"
SCRIPT = ROOT / "deploy/krew/kubectl-clusterstacks"
ARCHIVE = "kubectl-clusterstacks.zip"
PLATFORMS = (("linux", "amd64"), ("linux", "arm64"))
"""Those on which csctl runs."""

_UNIX = 3
"""System of the attributes of files, as zip numbers them."""

HOME = "https://github.com/OWNER/cluster-stacks"
DESCRIPTION = """\
Lists and describes clusters of cluster stacks, plans their upgrades,
explains refusals, and builds, publishes and signs stacks.
"""
CAVEATS = """\
The plugin starts csctl, which needs Python 3.11 or newer. Install it with
'uv tool install cluster-stacks' or 'pipx install cluster-stacks'.
"""


def archive() -> bytes:
    """Return the archive of the plugin; the same files give the same bytes."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archived:  # compressors differ between machines
        for path, mode in ((SCRIPT, 0o755), (ROOT / "LICENSE", 0o644)):
            member = zipfile.ZipInfo(path.name)  # of 1980, the first year of zip
            member.create_system, member.external_attr = _UNIX, (stat.S_IFREG | mode) << 16
            archived.writestr(member, path.read_bytes())
    return packed.getvalue()


def manifest() -> str:
    """Return the manifest for krew's index."""
    tag, content = f"v{version('cluster-stacks')}", archive()
    platforms = [
        {
            "selector": {"matchLabels": {"os": system, "arch": architecture}},
            "uri": f"{HOME}/releases/download/{tag}/{ARCHIVE}",
            "sha256": sha256(content).hexdigest(),
            "bin": SCRIPT.name,
            "files": [{"from": name, "to": "."} for name in (SCRIPT.name, "LICENSE")],
        }
        for system, architecture in PLATFORMS
    ]
    return dump(
        {
            "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
            "kind": "Plugin",
            "metadata": {"name": "clusterstacks"},
            "spec": {
                "version": tag,
                "homepage": HOME,
                "shortDescription": "Describe and upgrade clusters of cluster stacks",
                "description": DESCRIPTION,
                "caveats": CAVEATS,
                "platforms": platforms,
            },
        }
    )
