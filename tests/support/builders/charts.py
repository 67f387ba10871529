"""Charts made in memory."""

from __future__ import annotations

import io
import tarfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n"


def packed(files: Mapping[str, str], *, name: str = "demo", chart: str = "") -> bytes:
    """Pack a chart; the keys of ``files`` are paths below the chart, ``chart`` is appended to its Chart.yaml."""
    everything = {"Chart.yaml": f"apiVersion: v2\nname: {name}\nversion: 1.0.0\n{chart}", **files}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, content in everything.items():
            member = tarfile.TarInfo(f"{name}/{path}")
            payload = content.encode()
            member.size = len(payload)
            archive.addfile(member, io.BytesIO(payload))
    return buffer.getvalue()


def template(text: str) -> bytes:
    """Pack a chart of one template."""
    return packed({"templates/all.yaml": text})
