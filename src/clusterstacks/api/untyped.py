"""Reading documents of other projects, whose shape nobody has checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clusterstacks.domain.objects import Manifest


def at(document: Any, *path: str) -> Any:  # noqa: ANN401 - JSON
    """Give what lies at a path, or None where the path ends before."""
    for key in path:
        if not isinstance(document, dict):
            return None
        document = document.get(key)
    return document


def text(document: Manifest, *path: str) -> str:
    """Give the text at a path, or the empty text."""
    value = at(document, *path)
    return value if isinstance(value, str) else ""


def mapping(document: Manifest, *path: str) -> Manifest:
    """Give the object at a path, or an empty one."""
    value = at(document, *path)
    return value if isinstance(value, dict) else {}


def mappings(document: Manifest, *path: str) -> list[Manifest]:
    """Give the objects in the list at a path."""
    value = at(document, *path)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
