"""How an image or a wheel was built: an in-toto Statement with SLSA provenance.

Source: https://slsa.dev/spec/v1.0/provenance. It has no time and no number of its own, so equal builds have equal
statements. It proves something only after its signature was verified.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clusterstacks.release.signing.attestation import PROVENANCE, write_statement
from deploy.krew import HOME

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tools.image.layout import Origin

BUILD_TYPE = "https://clusterstack.x-k8s.io/image-build/v1"
BUILDER = "https://clusterstack.x-k8s.io/make-image"
"""Whoever ran ``make image`` or ``make wheel``: the signature tells who that was. Both identifiers are described in
docs/how-to/build-the-image.md."""

_DIRTY = "-dirty"


def provenance(
    subjects: Iterable[tuple[str, str]],
    origin: Origin,
    parameters: Mapping[str, object],
    components: Iterable[Mapping[str, Any]],
) -> bytes:
    """Write the statement about a build.

    Args:
        subjects: Name and digest of everything that was built.
        origin: The state of the project.
        parameters: What the user of the build chose.
        components: Those of the SBOM. The ones with a hash were fetched for the build.
    """
    fetched = {
        one["purl"]: {"uri": one["purl"], "digest": {"sha256": one["hashes"][0]["content"]}}
        for one in components
        if one["purl"].startswith(("pkg:pypi/", "pkg:deb/")) and one.get("hashes")
    }
    predicate = {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": dict(parameters),
            "internalParameters": {"version": origin.version, "sourceDateEpoch": origin.created},
            "resolvedDependencies": [_source(origin), *(fetched[purl] for purl in sorted(fetched))],
        },
        "runDetails": {"builder": {"id": BUILDER}},
    }
    return write_statement(PROVENANCE, subjects, predicate)


def _source(origin: Origin) -> dict[str, object]:
    """Describe the checkout; a checkout with changes is not what its commit names, so it has no digest."""
    source: dict[str, object] = {"uri": f"git+{HOME}@{origin.revision}"}
    if origin.revision and not origin.revision.endswith(_DIRTY):
        source["digest"] = {"gitCommit": origin.revision}
    return source
