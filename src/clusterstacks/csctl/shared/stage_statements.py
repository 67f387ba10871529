"""Reads and shows what stages state about releases, for csctl list and csctl verify."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from clusterstacks.model.kinds.clusterstackrelease import StageEvidence
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.release.release_source import ReleaseSource
    from clusterstacks.release.signing.keys import PublicKey


def read_public_keys(paths: Sequence[Path]) -> list[PublicKey]:
    """Read files with public keys."""
    from clusterstacks.release.signing.keys import parse_public_keys
    from clusterstacks.release.sources.signature_store import read_key_file

    return [key for path in paths for key in parse_public_keys(read_key_file(path), name=str(path))]


async def read_statements(
    source: ReleaseSource, name: ReleaseName, keys: Sequence[PublicKey]
) -> tuple[tuple[StageEvidence, ...], tuple[str, ...]]:
    """Return what trusted keys state about the files that a release has now, newest first, and ignored statements."""
    from clusterstacks.release.release_source import EnvelopeKind
    from clusterstacks.release.signing.stage_evidence import read_evidence

    found = await source.evidence(name, EnvelopeKind.STAGES)
    return read_evidence(name, await source.digest(name), found, keys)


def current(statements: Sequence[StageEvidence]) -> list[StageEvidence]:
    """Return the newest statement of each stage."""
    return [*{one.stage: one for one in reversed(statements)}.values()]


def described(one: StageEvidence) -> str:
    """Describe a statement on one line: ``staging passed, 72 h on 3 clusters``."""
    from clusterstacks.model.documents import counted
    from clusterstacks.release.signing.stage_requirement import shown_duration

    if not one.passed:
        return f"{one.stage} failed"
    upgrades = f", upgraded from {', '.join(one.upgrades_from)}" if one.upgrades_from else ""
    return f"{one.stage} passed, {shown_duration(one.soak)} on {counted(one.clusters, 'cluster')}{upgrades}"
