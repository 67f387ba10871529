"""Every rule of lint, in the order of the list for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from clusterstacks.authoring.rules import (
    classes,
    compatibility_file,
    dependencies,
    layout,
    naming,
    node_images,
    rendered_objects,
    rendering,
    server_check,
    source_files,
    stages,
)

if TYPE_CHECKING:
    from clusterstacks.authoring.findings import LintRule

RULES: Final[tuple[LintRule, ...]] = (
    *naming.RULES,
    *layout.RULES,
    *source_files.RULES,
    *stages.RULES,
    *dependencies.RULES,
    *rendering.RULES,
    *classes.RULES,
    *rendered_objects.RULES,
    *node_images.RULES,
    *compatibility_file.RULES,
    *server_check.RULES,
)

BEFORE_BUILD: Final[tuple[LintRule, ...]] = (*source_files.RULES, *stages.RULES)
"""Rules that ``csctl create`` applies as well: they need no rendering, and a build does not check the same itself."""

REFUSED: Final = frozenset({"placeholder", "file-size"})
"""Rules whose findings end ``csctl create``: nothing could use the release."""
