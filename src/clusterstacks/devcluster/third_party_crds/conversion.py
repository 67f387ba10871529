"""Let definitions do without conversion webhooks, and lose no field by it."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from clusterstacks.devcluster.third_party_crds.definition import ThirdPartyCRD, is_stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from clusterstacks.domain.objects import Manifest


def without_conversion(definitions: Iterable[ThirdPartyCRD], report: Callable[[str], None]) -> list[ThirdPartyCRD]:
    """Set every definition to no conversion; versions that would lose fields by it are no longer served, and told."""
    ready, taken, webhooks = [], defaultdict(list), 0
    for definition in definitions:
        spec = definition.manifest["spec"]
        strategy = (spec.get("conversion") or {}).get("strategy")
        webhooks += strategy == "Webhook"
        versions = spec["versions"] if strategy == "None" else _convertible(spec["versions"])
        manifest = {**definition.manifest, "spec": {**spec, "versions": versions, "conversion": {"strategy": "None"}}}
        changed = ThirdPartyCRD(manifest, definition.path)
        if gone := ", ".join(version for version in definition.served if version not in changed.served):
            taken[gone, changed.stored].append(definition.name)
        ready.append(changed)
    if webhooks:
        report(f"conversion webhooks of other providers do not run here: {webhooks} definitions are set to none")
    for (gone, stored), names in taken.items():
        report(
            f"not served: {gone} of {', '.join(names)}. Objects are stored as {stored}, which has other fields, and "
            f"nothing here converts: write {stored}, or take the definitions of a release that stores {gone}"
        )
    return ready


def _convertible(versions: list[Manifest]) -> list[Manifest]:
    """Serve no version whose objects lose fields when they are stored as they are."""
    stored = next(_spec_schema(version) for version in versions if is_stored(version))
    return [
        {**version, "served": version.get("served") is True and _spec_schema(version) == stored} for version in versions
    ]


def _spec_schema(version: Manifest) -> object:
    properties = version["schema"]["openAPIV3Schema"].get("properties") or {}
    return _without_descriptions(properties.get("spec"))


def _without_descriptions(schema: Any) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(schema, dict):
        # A field may be called description, too: what describes is a text, a field's schema is not.
        return {
            key: _without_descriptions(value)
            for key, value in schema.items()
            if key != "description" or not isinstance(value, str)
        }
    return [_without_descriptions(item) for item in schema] if isinstance(schema, list) else schema
