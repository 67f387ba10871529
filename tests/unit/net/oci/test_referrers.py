"""Referrers of a manifest: envelopes and cosign signatures."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import orjson
import pytest

from clusterstacks.net.http.errors import AnswerRefused, ServerUnavailable
from clusterstacks.net.oci.descriptor import EMPTY, EMPTY_TYPE, Descriptor, describe
from clusterstacks.net.oci.errors import ManifestInvalid
from clusterstacks.net.oci.manifests import OCI_INDEX, OCI_MANIFEST, write_manifest
from clusterstacks.net.oci.reference import Reference
from clusterstacks.net.oci.referrers import MAX_CANDIDATES, MAX_LIST_BYTES, MAX_LIST_PAGES, MAX_LISTED, Referrers
from clusterstacks.net.oci.registry import Registry
from clusterstacks.release.release_source import Evidence
from clusterstacks.release.sources import oci_signatures
from clusterstacks.release.sources.oci_signatures import ENVELOPE_TYPE, attach, cosign_tag, find_evidence
from tests.support.fakes.registry import digest
from tests.support.fakes.scripted_server import ScriptedServer, says

if TYPE_CHECKING:
    from clusterstacks.net.http.client import HTTPClient
    from tests.support.fakes.registry import RegistryDouble
    from tests.support.fakes.scripted_server import Answer

MANIFEST = write_manifest(artifact_type="a/b", layers=[], config=describe(EMPTY, EMPTY_TYPE))


@pytest.mark.parametrize("listed", [True, False])
async def test_envelope_is_pushed_as_a_referrer(double: RegistryDouble, registry: Registry, *, listed: bool) -> None:
    double.referrers = listed
    subject = double.tags("v1", MANIFEST, OCI_MANIFEST)

    first = await attach(registry, subject, b'{"one": 1}')
    assert await attach(registry, "v1", b'{"one": 1}') == first
    await attach(registry, subject, b'{"two": 2}')

    evidence = await find_evidence(registry, await registry.manifest(subject))
    assert set(evidence.envelopes) == {b'{"one": 1}', b'{"two": 2}'}
    assert (evidence.problems, evidence.complete) == ((), True)
    assert len((await registry.referrers(subject)).members) == 2
    assert await registry.referrers(subject, "other/type") == Referrers()
    fallback = ("kaas/stacks", subject.replace(":", "-"))
    assert (fallback in double.manifests) is not listed


async def test_referrers_tag_keeps_foreign_referrers(double: RegistryDouble, registry: Registry) -> None:
    double.referrers = False
    subject = double.tags("v1", MANIFEST, OCI_MANIFEST)
    other = Descriptor(OCI_MANIFEST, digest(b"other"), 5, artifact_type="other/type").document()
    index = orjson.dumps({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [other]})
    double.tags(subject.replace(":", "-"), index, OCI_INDEX)

    await attach(registry, subject, b"{}")

    listed = (await registry.referrers(subject)).members
    assert [member.artifact_type for member in listed] == ["other/type", ENVELOPE_TYPE]


async def test_referrer_of_another_manifest_is_ignored(double: RegistryDouble, registry: Registry) -> None:
    double.referrers = False
    subject = double.tags("v1", MANIFEST, OCI_MANIFEST)
    stranger = await attach(registry, subject, b"{}")
    raw, _ = double.manifests["kaas/stacks", subject.replace(":", "-")]
    other = double.tags("v2", MANIFEST + b" ", OCI_MANIFEST)
    double.tags(other.replace(":", "-"), raw, OCI_INDEX)

    assert [member.digest for member in (await registry.referrers(other)).members] == [stranger]
    evidence = await find_evidence(registry, await registry.manifest(other))
    assert evidence.envelopes == ()
    assert evidence.problems == (f"referrer {stranger}: it belongs to another manifest",)


async def test_cosign_signatures_are_found(double: RegistryDouble, registry: Registry) -> None:
    subject = double.tags("v1", MANIFEST, OCI_MANIFEST)
    payload = b'{"critical": {}}'
    double.holds(payload)
    media_type, key = "application/vnd.dev.cosign.simplesigning.v1+json", "dev.cosignproject.cosign/signature"
    layers = [
        Descriptor(media_type, digest(payload), len(payload), {key: "c2lnbmF0dXJl"}),
        Descriptor(media_type, digest(payload), len(payload), {key: "no base64"}),
        Descriptor("other/type", digest(payload), len(payload), {key: "c2lnbmF0dXJl"}),
    ]
    raw = write_manifest(artifact_type="", layers=layers, config=describe(EMPTY, EMPTY_TYPE))
    double.tags(cosign_tag(subject), raw, OCI_MANIFEST)

    [found] = (await find_evidence(registry, await registry.manifest(subject))).cosign

    assert (found.payload, found.signature) == (payload, b"signature")
    assert cosign_tag(subject).endswith(".sig")


def member(number: int, artifact_type: str = ENVELOPE_TYPE) -> dict[str, object]:
    content = b"%d" % number
    return Descriptor(OCI_MANIFEST, digest(content), len(content), artifact_type=artifact_type).document()


async def listed_by(web: HTTPClient, *answers: Answer) -> Referrers:
    """Return the referrers read from a registry with these responses."""
    async with ScriptedServer.started() as server:
        server.plays(says({}), *answers)
        reference = Reference.parse(f"{server.url.removeprefix('http://')}/kaas/stacks")
        return await Registry(web, reference).referrers(digest(b""), ENVELOPE_TYPE)


async def test_referrers_are_requested_by_type_and_filtered_again(web: HTTPClient) -> None:
    async with ScriptedServer.started() as server:
        server.plays(says({}), says({"manifests": [member(1), member(2, "other/type"), member(1), member(3)]}))
        reference = Reference.parse(f"{server.url.removeprefix('http://')}/kaas/stacks")

        found = await Registry(web, reference).referrers(digest(b""), ENVELOPE_TYPE)

        assert [one.digest for one in found.members] == [digest(b"1"), digest(b"3")]
        assert server.requests[-1].query == {"artifactType": ENVELOPE_TYPE}


async def test_pages_of_referrers_are_read_within_bounds(web: HTTPClient) -> None:
    pages = [says({"manifests": [member(at)]}, Link=f'<?last={at}>; rel="next"') for at in range(MAX_LIST_PAGES + 1)]

    found = await listed_by(web, *pages)

    assert len(found.members) == MAX_LIST_PAGES
    assert not found.complete
    assert f"more than {MAX_LIST_PAGES} pages" in found.problems[0]


@pytest.mark.parametrize("broken", [says({}, 404), says([]), says({}, 400)])
async def test_pages_before_a_failing_page_are_used(web: HTTPClient, broken: Answer) -> None:
    found = await listed_by(web, says({"manifests": [member(1)]}, Link='<?last=1>; rel="next"'), broken)

    assert len(found.members) == len(found.problems) == 1
    assert not found.complete


@pytest.mark.parametrize(
    "manifests", [[member(at) for at in range(MAX_CANDIDATES + 1)], [0] * (MAX_CANDIDATES + 1), [{}] * (MAX_LISTED + 1)]
)
async def test_number_of_examined_referrers_is_bounded(web: HTTPClient, manifests: list[object]) -> None:
    found = await listed_by(web, says({"manifests": manifests}))

    assert len(found.members) + len(found.problems) <= MAX_CANDIDATES + 1
    assert not found.complete
    assert "are too many" in found.problems[0]


async def test_oversized_or_invalid_referrers_list_is_rejected(web: HTTPClient) -> None:
    with pytest.raises(AnswerRefused, match=f"more than the {MAX_LIST_BYTES} bytes"):
        await listed_by(web, says({"manifests": [], "annotations": {"a": "0" * MAX_LIST_BYTES}}))
    with pytest.raises(ManifestInvalid, match="write a list"):
        await listed_by(web, says({"manifests": "junk"}))


async def test_unknown_members_stay_in_the_index(double: RegistryDouble, registry: Registry) -> None:
    double.referrers = False
    subject = double.tags("v1", MANIFEST, OCI_MANIFEST)
    others = [{"digest": "sha512:" + "0" * 128, "size": 1, "more": [1]}, "junk"]
    index = orjson.dumps({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": others})
    double.tags(subject.replace(":", "-"), index, OCI_INDEX)

    await attach(registry, subject, b"{}")

    raw, _ = double.manifests["kaas/stacks", subject.replace(":", "-")]
    assert orjson.loads(raw)["manifests"][:2] == others
    assert len((await find_evidence(registry, await registry.manifest(subject))).envelopes) == 1


async def test_slow_signatures_leave_the_evidence_incomplete(
    double: RegistryDouble, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = double.tags("v1", MANIFEST, OCI_MANIFEST)
    await attach(registry, subject, b"{}")
    manifest = await registry.manifest(subject)
    monkeypatch.setattr(oci_signatures, "DEADLINE", timedelta())

    evidence = await find_evidence(registry, manifest)

    assert (evidence.envelopes, evidence.complete) == ((), False)
    assert "were not received within 0 s" in evidence.problems[0]


async def test_unreachable_registry_raises_its_own_error(double: RegistryDouble, registry: Registry) -> None:
    manifest = await registry.manifest(double.tags("v1", MANIFEST, OCI_MANIFEST))
    double.failing.add(cosign_tag(manifest.digest))

    with pytest.raises(ServerUnavailable, match="status 500"):
        await find_evidence(registry, manifest)


@pytest.mark.parametrize("listed", [True, False])
async def test_manifest_without_referrers_has_no_problem(
    double: RegistryDouble, registry: Registry, *, listed: bool
) -> None:
    double.referrers = listed
    manifest = await registry.manifest(double.tags("v1", MANIFEST, OCI_MANIFEST))

    assert await find_evidence(registry, manifest) == Evidence(manifest=manifest.raw)
