"""Counts the objects in an informer's store that are not ready, for metrics."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from clusterstacks.api.names import READY_CONDITION
from clusterstacks.api.untyped import at, mapping, mappings, text
from clusterstacks.runtime.metrics import Unready

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clusterstacks.domain.objects import Manifest


def unready(objects: Iterable[Manifest]) -> Unready:
    """Count the objects whose condition Ready is not True; one that has none yet counts since its creation."""
    since = [_since(one) for one in objects if _ready(one).get("status") != "True"]
    return Unready(len(since), min((one for one in since if one), default=0.0))


def ready_condition(manifest: Manifest) -> Manifest:
    """Keep of an object's status the condition Ready without its message."""
    found = {key: value for key, value in _ready(manifest).items() if key != "message"}
    return {"conditions": [found]} if found else {}


def _ready(manifest: Manifest) -> Manifest:
    conditions = mappings(mapping(manifest, "status"), "conditions")
    return next((one for one in conditions if one.get("type") == READY_CONDITION), {})


def _since(manifest: Manifest) -> float:
    ready = _ready(manifest)
    found = text(ready, "lastTransitionTime") if ready else at(manifest, "metadata", "creationTimestamp")
    try:
        return datetime.fromisoformat(str(found)).timestamp()
    except ValueError:
        return 0.0
