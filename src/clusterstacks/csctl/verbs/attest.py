"""``csctl attest``: state what a management cluster shows about a release, signed by its stage."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.cluster_options import connection_options
from clusterstacks.csctl.shared.management_objects import ObjectQuery, read_all
from clusterstacks.csctl.shared.options import FILE, TEXT, form_option
from clusterstacks.csctl.shared.registry_options import open_registry, trust_options
from clusterstacks.csctl.shared.release_ref import open_release_files, parse_release_ref
from clusterstacks.csctl.verbs.sign import read_key
from clusterstacks.model.documents import and_more, counted
from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_KIND, GROUP, Kind

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.csctl.shared.cluster_options import ManagementCluster
    from clusterstacks.csctl.shared.registry_options import ServerTrust
    from clusterstacks.csctl.shared.release_ref import SignableRelease
    from clusterstacks.release.contents import Contents
    from clusterstacks.release.signing.envelope import Envelope
    from clusterstacks.release.signing.stage_evidence import StageStatement
    from clusterstacks.release.sources.spec import SourceAddress

SHOWN_CLUSTERS = 5
"""Clusters that an error names (arbitrary)."""


def _stage(_: click.Context, __: click.Parameter, value: str) -> str:
    from clusterstacks.model.kinds.source import STAGE_NAME

    if not re.fullmatch(STAGE_NAME, value):
        raise click.BadParameter(f"{value!r} is not the name of a stage (expected up to 63 of a-z, 0-9 and -)")
    return value


@click.command(short_help="State that a stage has run a release.")
@click.argument("release", metavar="RELEASE_DIR|REF")
@click.option(
    "--stage", required=True, callback=_stage, help="Name of the stage, as in spec.source.verification.evidence."
)
@click.option("--key", type=FILE, required=True, help="Private key of the stage, as for 'csctl sign'.")
@click.option(
    "--verdict",
    type=click.Choice(["passed", "failed"]),
    default="passed",
    show_default=True,
    help="failed: the release is not offered any more where the stage is required.",
)
@click.option("--file", "files", type=FILE, multiple=True, help="Report whose digest is stated; repeatable.")
@connection_options
@trust_options
@form_option()
def attest(  # noqa: PLR0913 - the options of the verb
    trust: ServerTrust,
    management: ManagementCluster,
    *,
    release: str,
    stage: str,
    key: Path,
    verdict: str,
    files: tuple[Path, ...],
    form: str,
) -> None:
    """State and sign what the management cluster shows about a release.

    The statement has the number of Clusters with the release and their Kubernetes versions, since when all of them are
    ready, healthy and in sync, their upgrades from and to other releases with the results, and what you may not read.
    It has no names of Clusters. All times are of the clock of the management cluster.

    It is stored beside the signatures: with REF it is attached to the release in the registry; for RELEASE_DIR it is
    added to RELEASE_DIR.intoto.jsonl, which 'csctl push' publishes. A release passes only if there is a Cluster with
    exactly its files, and all of them are well.
    """
    import asyncio

    location, name = parse_release_ref(release)
    if location.address.kind.is_remote and not location.address.kind.is_registry:
        raise click.UsageError(f"{release} is not in a registry: attest the release directory, then publish both")
    signer = read_key(key)

    async def run() -> tuple[StageStatement, str]:
        async with open_release_files(location, name, trust) as found:
            statement = await _state(management, found.contents, location.address, stage, verdict.upper(), files)
            envelope = statement.envelope(found.contents.files).signed(signer)
            return statement, await _store(location.address, found, envelope, trust)

    statement, stored = asyncio.run(run())
    if form != TEXT:
        output.print_document({**statement.predicate(), "place": stored}, form)
        return
    output.warn_all(statement.facts.not_read)
    output.say(f"{name} {verdict} in stage {stage}: {_summary(statement)}")
    output.say(f"signed by {signer.public.name} ({signer.public.short}): {stored}")


async def _state(
    management: ManagementCluster,
    contents: Contents,
    address: SourceAddress,
    stage: str,
    verdict: str,
    files: tuple[Path, ...],
) -> StageStatement:
    """Read the management cluster with the user's rights, and its clock.

    Raises:
        SpecError: The release has not passed, and this would be stated.
    """
    from clusterstacks.model.digests import sha256_digest
    from clusterstacks.model.kinds.clusterstackrelease import PASSED
    from clusterstacks.plan.clusters.stage_facts import observe_stage
    from clusterstacks.release.signing.stage_evidence import StageStatement

    name, namespace, not_read = contents.release, management.connection().namespace, list[str]()
    kinds = ((CLUSTER_API_GROUP, CLUSTER_KIND), (GROUP, Kind.CLUSTER_ADDON), (GROUP, Kind.CLUSTER_STACK_RELEASE))
    queries = [ObjectQuery(group, kind, fallback=namespace) for group, kind in kinds]
    async with management.connected() as client:
        clusters, addons, releases = (found or [] for found in await read_all(client, queries, not_read.extend))
        now = await client.clock()
    facts = observe_stage(
        name, contents.digest, clusters=clusters, addons=addons, releases=releases, not_read=sorted(not_read)
    )
    troubles = facts.troubles if facts.clusters else ("no Cluster has its class",)
    if troubles and verdict == PASSED:
        problem = f"{name} has not passed stage {stage}: {and_more(troubles, SHOWN_CLUSTERS, separator='; ')}"
        raise SpecError("NotPassed", f"{problem}; attest again later, or stop the release with --verdict failed")
    return StageStatement(
        release=name,
        place=f"{address}:{name}" if address.kind.is_registry else name.release,
        stage=stage,
        verdict=verdict,
        verified=now,
        facts=facts,
        reports={file.name: sha256_digest(file.read_bytes()) for file in files},
    )


async def _store(address: SourceAddress, release: SignableRelease, envelope: Envelope, trust: ServerTrust) -> str:
    """Store a statement beside the signatures of the release; return where."""
    from clusterstacks.net.oci.reference import Reference
    from clusterstacks.release.release_source import EnvelopeKind
    from clusterstacks.release.sources.oci_signatures import attach
    from clusterstacks.release.sources.signature_store import attest_beside, stages_file

    if not address.kind.is_registry:
        await attest_beside(release.contents, envelope)
        return str(stages_file(release.contents))
    reference, manifest = Reference.parse(address.place), release.evidence.manifest_digest
    async with open_registry(reference, trust) as registry:
        await attach(registry, manifest, envelope.text(), EnvelopeKind.STAGES)
    return str(reference.at(manifest))


def _summary(statement: StageStatement) -> str:
    from clusterstacks.model.objects import age

    facts = statement.facts
    versions = ", ".join(f"{number} with {version}" for version, number in facts.clusters.items())
    name = statement.release.release
    parts = [counted(sum(facts.clusters.values()), "cluster") + (f" ({versions})" if versions else "")]
    if facts.since:
        parts.append(f"ready, healthy and in sync for {age(facts.since, statement.verified)}")
    for (before, after, result), count in facts.upgrades.items():
        way = f"from {before}" if after == name else f"to {after}"
        parts.append(f"{counted(count, 'upgrade')} {way} {result}")
    return ", ".join(parts)
