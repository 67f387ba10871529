"""SEC-8: foreign content beside a valid signature does not invalidate it.

SEC-9 to SEC-11 are in test_sec_sources.py.
"""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from clusterstacks.model.kinds.names import Kind
from clusterstacks.net.http.client import HTTPClient
from clusterstacks.net.oci.descriptor import EMPTY, EMPTY_TYPE, Descriptor, describe, digest_of, digest_tag
from clusterstacks.net.oci.manifests import OCI_INDEX, OCI_MANIFEST, write_manifest
from clusterstacks.net.oci.referrers import MAX_CANDIDATES
from clusterstacks.net.oci.registry import Registry
from clusterstacks.net.retry import RetryPolicy
from clusterstacks.release.contents import read_contents
from clusterstacks.release.signing.errors import SignatureRequired, SignaturesUnclear
from clusterstacks.release.signing.verifier import Verification, enforce, verify
from clusterstacks.release.sources.oci_publish import publish
from clusterstacks.release.sources.oci_repository import OCISource
from clusterstacks.release.sources.oci_signatures import ENVELOPE_TYPE, attach, cosign_tag
from tests.support.builders.releases import STAGED, staged_release, write_release
from tests.support.builders.remote_repositories import Repository, repository
from tests.support.builders.signatures import cosign_payload, ecdsa_key, public_pem, signed
from tests.support.builders.stacks import config_map, templates
from tests.support.fakes.registry import RegistryDouble
from tests.support.running.csctl import csctl_run
from tests.support.running.sources import following, trusting
from tests.support.running.world import condition_of, is_ready, is_unready

if TYPE_CHECKING:
    import subprocess
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from tests.support.running.world import World
    from tests.support.servers.registries import RegistryServer

OURS, FOREIGN = ecdsa_key("ours"), ecdsa_key("foreign")
EPOCH = datetime.fromtimestamp(0, UTC)
PAYLOAD_TYPE = "application/vnd.dev.cosign.simplesigning.v1+json"
SIGNATURE_KEY = "dev.cosignproject.cosign/signature"


class Stand:
    """A signed release in a registry to which a stranger may push, too."""

    def __init__(self, double: RegistryDouble, registry: Registry, files: dict[str, str]) -> None:
        self.double = double
        self.registry = registry
        self.files = files
        self.subject = digest_of(self.manifest)

    @property
    def manifest(self) -> bytes:
        return self.double.manifests["kaas/stacks", STAGED.release][0]

    async def sign(self) -> None:
        await attach(self.registry, self.subject, signed(OURS, name=STAGED, files=self.files))

    def referrer(self, *blobs: bytes, subject: str = "", size: int | None = None) -> dict[str, Any]:
        """Push a manifest that says to be an envelope of the release; return its descriptor."""
        layers = [describe(blob, ENVELOPE_TYPE) for blob in blobs]
        of = Descriptor(OCI_MANIFEST, subject or self.subject, len(self.manifest))
        config = describe(EMPTY, EMPTY_TYPE)
        raw = write_manifest(artifact_type=ENVELOPE_TYPE, config=config, layers=layers, subject=of)
        self.double.manifests["kaas/stacks", digest_of(raw)] = raw, OCI_MANIFEST
        return self.described(raw, size)

    @staticmethod
    def described(raw: bytes, size: int | None = None) -> dict[str, Any]:
        found = Descriptor(OCI_MANIFEST, digest_of(raw), len(raw) if size is None else size, {}, ENVELOPE_TYPE)
        return found.document()

    def put_first(self, *members: object) -> None:
        """Put these first in the list of referrers, in either form of the list."""
        self.double.listed = [*members]
        place = "kaas/stacks", digest_tag(self.subject)
        if place in self.double.manifests:
            kept = orjson.loads(self.double.manifests[place][0])["manifests"]
            index = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [*members, *kept]}
            self.double.tags(digest_tag(self.subject), orjson.dumps(index), OCI_INDEX)

    def cosign(self, *layers: object) -> None:
        """Put a manifest under cosign's tag."""
        config = describe(EMPTY, EMPTY_TYPE).document()
        document = {"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": config, "layers": layers}
        self.double.tags(cosign_tag(self.subject), orjson.dumps(document), OCI_MANIFEST)

    def cosign_layer(self, signature: bytes = b"") -> dict[str, Any]:
        """Describe a signature as cosign keeps it; ours, unless another one is given."""
        payload = cosign_payload(self.manifest)
        self.double.holds(payload)
        words = {SIGNATURE_KEY: base64.b64encode(signature or OURS.sign(payload)).decode()}
        return Descriptor(PAYLOAD_TYPE, digest_of(payload), len(payload), words).document()

    async def look(self) -> Verification:
        """Verify the signatures as the operator does."""
        evidence = await OCISource(self.registry).evidence(STAGED)
        return verify(STAGED, self.files, evidence, [OURS.public])


@asynccontextmanager
async def stand(tmp_path: Path, *, listed: bool) -> AsyncIterator[Stand]:
    directory = write_release(tmp_path / "published" / STAGED.release, staged_release())
    async with RegistryDouble.started() as double, HTTPClient(retries=RetryPolicy(attempts=1), environ={}) as web:
        double.referrers = listed
        registry = Registry(web, double.reference)
        await publish(directory, registry, EPOCH)
        yield Stand(double, registry, dict(read_contents(STAGED, directory).files))


def missing_blob(there: Stand) -> object:
    return there.referrer(b"a blob that was never pushed")


def missing_manifest(there: Stand) -> object:
    return there.described(b"a manifest that was never pushed")


def no_manifest(there: Stand) -> object:
    there.double.tags("junk", b"junk", OCI_MANIFEST)
    return there.described(b"junk")


def old_manifest(there: Stand) -> object:
    raw = orjson.dumps({"schemaVersion": 1})
    there.double.tags("junk", raw, OCI_MANIFEST)
    return there.described(raw)


def odd_layers(there: Stand) -> object:
    raw = orjson.dumps({"schemaVersion": 2, "mediaType": OCI_MANIFEST, "layers": [{"digest": 5}]})
    there.double.tags("junk", raw, OCI_MANIFEST)
    return there.described(raw)


def other_bytes(there: Stand) -> object:
    member = there.referrer(there.double.holds(b"x").encode())
    there.double.manifests["kaas/stacks", member["digest"]] = b"{}", OCI_MANIFEST
    return member


def no_envelope(there: Stand) -> object:
    there.double.holds(b"{" * 5000)
    return there.referrer(b"{" * 5000)


def oversized(there: Stand) -> object:
    there.double.holds(b"0" * (2 << 20))
    return there.referrer(b"0" * (2 << 20))


def two_layers(there: Stand) -> object:
    return there.referrer(b"{}", b"{}")


def somebody_elses(there: Stand) -> object:
    envelope = signed(FOREIGN, name=STAGED, files=there.files)
    there.double.holds(envelope)
    return there.referrer(envelope)


def huge_manifest(there: Stand) -> object:
    return there.described(b"0", size=1 << 40)


def other_algorithm(there: Stand) -> object:
    return {**there.described(b"x"), "digest": "sha512:" + "0" * 128}


def no_descriptor(there: Stand) -> object:
    return {"artifactType": ENVELOPE_TYPE, "size": -1, "digest": there.subject}


def no_mapping(there: Stand) -> object:
    return [there.subject]


RUBBISH = [
    missing_blob,
    missing_manifest,
    no_manifest,
    old_manifest,
    odd_layers,
    other_bytes,
    no_envelope,
    oversized,
    two_layers,
    somebody_elses,
    huge_manifest,
    other_algorithm,
    no_descriptor,
    no_mapping,
]


@pytest.mark.regression("SEC-8")
@pytest.mark.parametrize("listed", [True, False], ids=["referrers API", "referrers tag"])
@pytest.mark.parametrize("rubbish", RUBBISH)
async def test_invalid_envelopes_do_not_invalidate_a_valid_one(
    tmp_path: Path, rubbish: Callable[[Stand], object], *, listed: bool
) -> None:
    async with stand(tmp_path, listed=listed) as there:
        await there.sign()
        there.put_first(rubbish(there))

        found = await there.look()

        assert found.signed_by == ("ours",)
        assert enforce(STAGED, found) == ""


@pytest.mark.regression("SEC-8")
@pytest.mark.parametrize("listed", [True, False], ids=["referrers API", "referrers tag"])
async def test_valid_envelope_is_found_among_hundreds(tmp_path: Path, *, listed: bool) -> None:
    async with stand(tmp_path, listed=listed) as there:
        await there.sign()
        members = []
        for number in range(300):
            envelope = signed(FOREIGN, name=STAGED, files={**there.files, f"{number}": "0" * 64})
            there.double.holds(envelope)
            members.append(there.referrer(envelope))
        there.put_first(*members)

        assert (await there.look()).signed_by == ("ours",)


@pytest.mark.regression("SEC-8")
async def test_large_invalid_envelopes_do_not_exhaust_the_read_limit(tmp_path: Path) -> None:
    async with stand(tmp_path, listed=True) as there:
        await there.sign()
        blobs = [b"%d" % number + b"0" * (1 << 20) for number in range(40)]
        large = [blob[: 1 << 20] for blob in blobs]
        for blob in large:
            there.double.holds(blob)
        there.put_first(*(there.referrer(blob) for blob in large))

        assert (await there.look()).signed_by == ("ours",)


@pytest.mark.regression("SEC-8")
@pytest.mark.parametrize(
    "junk",
    [b"junk", b"{}", b'{"schemaVersion":2,"layers":5}', b'{"schemaVersion":2,"layers":[0,{}]}', b"0" * (5 << 20)],
)
async def test_invalid_cosign_tag_does_not_invalidate_envelopes(tmp_path: Path, junk: bytes) -> None:
    async with stand(tmp_path, listed=True) as there:
        await there.sign()
        there.double.tags(cosign_tag(there.subject), junk, OCI_MANIFEST)

        assert (await there.look()).signed_by == ("ours",)


@pytest.mark.regression("SEC-8")
async def test_invalid_layers_do_not_invalidate_a_cosign_signature(tmp_path: Path) -> None:
    async with stand(tmp_path, listed=True) as there:
        missing = Descriptor(PAYLOAD_TYPE, digest_of(b"never pushed"), 12, {SIGNATURE_KEY: "AAAA"}).document()
        rubbish = [{"digest": 5}, missing, {**missing, "size": 1 << 40}, there.cosign_layer(b"rubbish")]
        there.cosign(*rubbish * 60, there.cosign_layer())
        there.put_first(missing_blob(there))

        assert (await there.look()).signed_by == ("ours",)


@pytest.mark.regression("SEC-8")
async def test_valid_signature_is_found_despite_an_invalid_referrers_tag(
    tmp_path: Path,
) -> None:
    async with stand(tmp_path, listed=False) as there:
        there.double.tags(digest_tag(there.subject), b"junk", OCI_INDEX)
        there.cosign(there.cosign_layer())

        assert (await there.look()).signed_by == ("ours",)


@pytest.mark.regression("SEC-8")
async def test_invalid_envelopes_alone_are_not_a_signature(tmp_path: Path) -> None:
    async with stand(tmp_path, listed=True) as there:
        there.put_first(*(rubbish(there) for rubbish in RUBBISH))

        with pytest.raises(SignatureRequired, match="is not signed by a trusted key"):
            enforce(STAGED, await there.look())


@pytest.mark.regression("SEC-8")
async def test_too_many_envelopes_make_verification_inconclusive(tmp_path: Path) -> None:
    async with stand(tmp_path, listed=True) as there:
        await there.sign()
        there.put_first(*(there.described(b"%d" % number) for number in range(MAX_CANDIDATES)))

        with pytest.raises(SignaturesUnclear, match=r"cannot be verified now.*are too many.*delete"):
            enforce(STAGED, await there.look())


@pytest.mark.regression("SEC-8")
async def test_registry_error_for_one_envelope_makes_verification_inconclusive(tmp_path: Path) -> None:
    async with stand(tmp_path, listed=True) as there:
        await there.sign()
        there.double.failing.add(there.referrer(b"x")["digest"])
        assert (await there.look()).signed_by == ("ours",)

        evidence = await OCISource(there.registry).evidence(STAGED)
        unclear = verify(STAGED, there.files, evidence, [FOREIGN.public])

        with pytest.raises(SignaturesUnclear, match="status 500"):
            enforce(STAGED, unclear)


async def run_csctl(*arguments: object) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(csctl_run, *arguments, environ={"PATH": os.environ["PATH"]})


@pytest.mark.regression("SEC-8")
async def test_csctl_verify_copy_and_pull_ignore_invalid_envelopes(tmp_path: Path) -> None:
    key = tmp_path / "key.pub"
    key.write_bytes(public_pem(OURS))
    async with stand(tmp_path, listed=True) as there:
        await there.sign()
        document = orjson.loads(signed(OURS, name=STAGED, files=there.files))
        crowded = []
        for number in range(20):
            rubbish = {"keyid": OURS.public.fingerprint, "sig": base64.b64encode(b"%071d" % number).decode()}
            envelope = orjson.dumps({**document, "signatures": [rubbish]})
            there.double.holds(envelope)
            crowded.append(there.referrer(envelope))
        there.put_first(no_mapping(there), missing_blob(there), *crowded)
        place, copied = f"{there.double.host}/kaas/stacks:{STAGED}", f"{there.double.host}/kaas/copy"

        verified = await run_csctl("verify", place, "--key", key)
        assert verified.returncode == 0, verified.stderr
        assert verified.stderr.count("signature ignored") == 11
        pulled = await run_csctl("pull", place, "-o", tmp_path / "out")
        assert pulled.returncode == 0, pulled.stderr
        verified = await run_csctl("verify", tmp_path / "out" / STAGED.release, "--key", key)
        assert verified.returncode == 0, verified.stderr

        moved = await run_csctl("copy", place, copied)
        assert moved.returncode == 0, moved.stderr
        assert moved.stderr.count("not copied") == 2
        there.double.listed.clear()
        verified = await run_csctl("verify", f"{copied}:{STAGED}", "--key", key)
        assert verified.returncode == 0, verified.stderr


@pytest.mark.regression("SEC-8")
async def test_verified_release_stays_verified_without_its_signatures(world: World, registry: RegistryServer) -> None:
    name = world.stack.release("v1")
    addon = templates(config_map(world.namespace, text="hello"))
    async with repository(world, registry) as remote:
        await remote.publish(name, world.stack.files("v1", {"cni": addon}))
        await remote.sign(name, OURS)
        async with world.operator(allowed_sources=remote.allowed) as operator:
            stack = await world.create(following(world, remote.source(verification=trusting(OURS))))
            release = await world.release_ready(name)
            assert release["status"]["signedBy"] == [OURS.public.fingerprint]

            # Who may push may replace the lists of signatures as well.
            digest = (await remote.registry.manifest(name.release)).digest
            index = orjson.dumps({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": []})
            await remote.registry.push_manifest(index, OCI_INDEX, digest_tag(digest))
            await world.patch(stack, {"spec": {"source": remote.source(verification=trusting(FOREIGN, OURS))}})
            for _ in range(3):
                await world.look_again(operator, "clusterstackrelease", release)
            assert is_ready(await world.get(Kind.CLUSTER_STACK_RELEASE, name.release))

        shutil.rmtree(world.cache)
        async with world.operator(allowed_sources=remote.allowed):
            await world.cluster("one", name.class_name)
            await world.shows(world.namespace, {"text": "hello"})

            # Nothing but the list of trusted keys takes it back.
            await world.patch(stack, {"spec": {"source": remote.source(verification=trusting(FOREIGN))}})
            await world.says(
                Kind.CLUSTER_STACK_RELEASE, name.release, "SignatureVerified", "SignatureRequired", nudging=True
            )


@pytest.mark.regression("SEC-8")
async def test_release_with_too_many_invalid_envelopes_waits_with_a_condition(world: World) -> None:
    name = world.stack.release("v1")
    async with RegistryDouble.started() as double, HTTPClient(environ={}) as web:
        remote = Repository(Registry(web, double.reference), world.releases.with_name("published"))
        async with world.operator(allowed_sources=remote.allowed):
            await remote.publish(name, world.stack.files("v1", {}))
            await remote.sign(name, OURS)
            double.listed = [Stand.described(b"%d" % number) for number in range(MAX_CANDIDATES)]
            await world.create(following(world, remote.source(verification=trusting(OURS))))

            words = [name.release, "cannot be verified now", "are too many", "delete"]
            await world.says(
                Kind.CLUSTER_STACK_RELEASE, name.release, "SignatureVerified", "SignaturesUnclear", words=words
            )
            assert await world.find("ClusterClass", name.class_name) is None

            double.listed.pop()
            release = await world.until(Kind.CLUSTER_STACK_RELEASE, name.release, is_ready, nudging=True)
            assert condition_of(release, "SignatureVerified")["status"] == "True"


@pytest.mark.regression("SEC-8")
@pytest.mark.parametrize("later", ["verification", "policy"])
async def test_invalid_envelopes_do_not_keep_an_unsigned_release_in_use(world: World, later: str) -> None:
    name = world.stack.release("v1")
    async with RegistryDouble.started() as double, HTTPClient(environ={}) as web:
        remote = Repository(Registry(web, double.reference), world.releases.with_name("published"))
        async with world.operator(allowed_sources=remote.allowed):
            await remote.publish(name, world.stack.files("v1", {}))
            warned = {"verification": trusting(OURS, policy="Warn")} if later == "policy" else {}
            stack = await world.create(following(world, remote.source(**warned)))
            await world.release_ready(name)
            double.listed = [Stand.described(b"%d" % number) for number in range(MAX_CANDIDATES + 1)]

            await world.patch(stack, {"spec": {"source": remote.source(verification=trusting(OURS, policy="Require"))}})

            await world.until(Kind.CLUSTER_STACK_RELEASE, name.release, is_unready)
            await remote.sign(name, OURS)
            double.listed.clear()
            # Another order of keys is another question, which is asked at once.
            keys = trusting(FOREIGN, OURS, policy="Require")
            await world.patch(stack, {"spec": {"source": remote.source(verification=keys)}})
            await world.release_ready(name)
