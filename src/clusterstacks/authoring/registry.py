"""Every rule of lint, in the order of the list for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from clusterstacks.authoring.rules import (
    classes,
    compatibility,
    dependencies,
    layout,
    naming,
    node_images,
    objects,
    rendering,
    server,
    stages,
)

if TYPE_CHECKING:
    from clusterstacks.authoring.findings import Rule

RULES: Final[tuple[Rule, ...]] = (
    *naming.RULES,
    *layout.RULES,
    *stages.RULES,
    *dependencies.RULES,
    *rendering.RULES,
    *classes.RULES,
    *objects.RULES,
    *node_images.RULES,
    *compatibility.RULES,
    *server.RULES,
)
