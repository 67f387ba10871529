from __future__ import annotations

import asyncio
import json
import os
import stat
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.clusterstackrelease import PASSED
from clusterstacks.release.contents import read_contents
from clusterstacks.release.errors import ReleaseBroken
from clusterstacks.release.release_source import EnvelopeKind
from clusterstacks.release.signing.envelope import parse_envelope
from clusterstacks.release.signing.keys import parse_private_key, parse_public_keys
from clusterstacks.release.signing.stage_evidence import StageFacts, StageStatement
from clusterstacks.release.signing.statement import release_envelope
from clusterstacks.release.signing.verifier import verify
from clusterstacks.release.sources.directory import DirectorySource, publish_to_directory
from clusterstacks.release.sources.download_release import pull
from clusterstacks.release.sources.signature_store import (
    attest_beside,
    read_key_file,
    sign_beside,
    signature_file,
    stages_file,
    write_new_key,
)
from tests.support.builders.releases import STAGED, staged_release, write_release
from tests.support.builders.signatures import ecdsa_key, ed25519_key

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.release.contents import Contents
    from clusterstacks.release.signing.envelope import Envelope
    from clusterstacks.release.signing.keys import PrivateKey


@pytest.fixture
def contents(tmp_path: Path) -> Contents:
    return read_contents(STAGED, write_release(tmp_path / "releases" / STAGED.release, staged_release()))


def names(directory: Path) -> list[str]:
    return sorted(file.name for file in directory.iterdir())


async def signers(contents: Contents, *keys: PrivateKey) -> tuple[str, ...]:
    evidence = await DirectorySource(contents.root.parent).evidence(contents.release)
    return verify(contents.release, contents.files, evidence, [key.public for key in keys]).signed_by


async def test_signature_is_stored_beside_the_release_where_the_directory_source_reads_it(
    contents: Contents,
) -> None:
    key = ecdsa_key("a")

    assert await sign_beside(contents, key)

    assert await signers(contents, key) == ("a",)
    assert signature_file(contents).name == "local-tiny-1-35-v2.dsse.json"
    assert read_contents(STAGED, contents.root) == contents
    assert names(contents.root.parent) == ["local-tiny-1-35-v2", "local-tiny-1-35-v2.dsse.json"]


async def test_second_key_adds_a_signature_and_the_same_key_changes_nothing(contents: Contents) -> None:
    first, second = ecdsa_key("a"), ed25519_key("b")
    await sign_beside(contents, first)

    assert await sign_beside(contents, second)
    written = signature_file(contents).stat()
    assert not await sign_beside(contents, first)

    assert await signers(contents, first, second) == ("a", "b")
    assert signature_file(contents).stat() == written


async def test_concurrent_signatures_are_all_kept(contents: Contents) -> None:
    keys = [ed25519_key(str(number)) for number in range(8)]

    await asyncio.gather(*(sign_beside(contents, key) for key in keys))

    assert await signers(contents, *keys) == tuple("01234567")


async def test_signature_of_other_files_is_not_replaced(contents: Contents) -> None:
    await sign_beside(contents, ecdsa_key())
    before = signature_file(contents).read_bytes()
    (contents.root / "hashes.json").write_bytes(b"{}")

    with pytest.raises(SpecError, match=r"local-tiny-1-35-v2\.dsse\.json \(it is for other files: 'hashes.json'"):
        await sign_beside(read_contents(STAGED, contents.root), ecdsa_key())

    assert signature_file(contents).read_bytes() == before


async def test_file_that_is_not_a_signature_is_not_replaced(contents: Contents) -> None:
    signature_file(contents).write_text("notes")

    with pytest.raises(SpecError, match="is not a JSON document"):
        await sign_beside(contents, ecdsa_key())

    assert signature_file(contents).read_text() == "notes"


def test_statement_with_unknown_fields_gets_no_signature(contents: Contents) -> None:
    envelope = release_envelope(STAGED, contents.files)
    document = {**json.loads(envelope.payload), "more": 1}
    theirs = type(envelope)(json.dumps(document).encode()).signed(ecdsa_key()).text()

    with pytest.raises(SpecError, match="another program wrote it"):
        release_envelope(STAGED, contents.files, theirs)


def test_release_without_files_cannot_be_signed() -> None:
    with pytest.raises(ReleaseBroken, match="contains no file"):
        release_envelope(STAGED, {})


async def test_failed_write_of_a_signature_leaves_no_files(contents: Contents, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(OSError, match="No space left on device") as failed:
        await sign_beside(contents, ecdsa_key())

    assert failed.value.filename
    assert names(contents.root.parent) == [contents.root.name]


def test_new_private_key_is_readable_only_by_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "release.key"

    beside = write_new_key(path, b"secret")

    assert beside == tmp_path / "release.key.pub"
    assert [stat.S_IMODE(file.stat().st_mode) & 0o077 for file in (path, beside)] == [0, 0o044]
    key = parse_private_key(read_key_file(path), name="x", password=b"secret")
    assert parse_public_keys(read_key_file(beside), name="x") == (key.public,)


@pytest.mark.parametrize("taken", ["release.key", "release.key.pub"])
def test_existing_key_is_not_overwritten(tmp_path: Path, taken: str) -> None:
    (tmp_path / taken).write_text("precious")

    with pytest.raises(SpecError, match=rf"{taken} already exists"):
        write_new_key(tmp_path / "release.key")

    assert names(tmp_path) == [taken]
    assert (tmp_path / taken).read_text() == "precious"


def stated(contents: Contents, stage: str, key: PrivateKey) -> Envelope:
    statement = StageStatement(
        release=contents.release,
        place=contents.release.release,
        stage=stage,
        verdict=PASSED,
        verified=datetime(2026, 11, 27, tzinfo=UTC),
        facts=StageFacts(clusters={"v1.35.4": 1}),
    )
    return statement.envelope(contents.files).signed(key)


async def test_statements_of_stages_are_stored_once_beside_the_release_and_travel_with_it(
    contents: Contents, tmp_path: Path
) -> None:
    key, source = ecdsa_key("stage"), DirectorySource(contents.root.parent)
    await sign_beside(contents, key)
    staging, perf = (stated(contents, stage, key) for stage in ("staging", "perf"))

    await asyncio.gather(*(attest_beside(contents, one) for one in (staging, perf, staging)))

    found = await source.evidence(contents.release, EnvelopeKind.STAGES)
    assert {parse_envelope(text).payload for text in found.envelopes} == {staging.payload, perf.payload}
    assert len(found.envelopes) == 2
    assert await signers(contents, key) == ("stage",)
    published, pulled = tmp_path / "published", tmp_path / "pulled"
    published.mkdir()
    await asyncio.to_thread(publish_to_directory, contents.root, published)
    await pull(source, contents.release, pulled)
    for target in (published, pulled):
        assert await DirectorySource(target).evidence(contents.release, EnvelopeKind.STAGES) == found


async def test_file_of_statements_that_is_full_is_refused(contents: Contents) -> None:
    stages_file(contents).write_bytes(b"{}\n" * 1001)

    with pytest.raises(SpecError, match="is full: remove the lines of stages"):
        await attest_beside(contents, stated(contents, "staging", ecdsa_key()))
