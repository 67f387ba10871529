"""Describes the steps in the document of a plan."""

from __future__ import annotations

from typing import Any


def step_title(step: dict[str, Any]) -> str:
    """Describe a step in one line."""
    if step["kind"] == "workers":
        return f"wait until all nodes are updated from {step['from']} to {step['to']}"
    if step["kind"] == "kubernetes":
        return f"update Kubernetes from {step['from']} to {step['to']}"
    if step["kind"] != "addon":
        return f"change the {step['kind']} from {step['from']} to {step['to']}, with Kubernetes {step['kubernetes']}"
    if step["to"] is None:
        return f"remove addon {step['name']} {step['from']}"
    release = f"(from release {step['release']})"
    if step["from"] is None:
        return f"install addon {step['name']} {step['to']} {release}"
    return f"update addon {step['name']} from {step['from']} to {step['to']} {release}"
