from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.model.errors import SpecError
from clusterstacks.model.files.hashes import Hashes, InvalidHashes, clean_hash, directory_hash, file_hash, parse_hashes
from tests.support.builders.documents import JSON

SIX_FILES = {".hidden": b"", "Chart.yaml": b"version: v1\n", "Z": b"z", "a-b": b"1\n", "a.b": b"3\n", "a/b": b"2\n"}
DIGEST = sha256(b"").hexdigest()


def entries(files: dict[str, bytes]) -> list[tuple[str, str]]:
    return [(path, sha256(content).hexdigest()) for path, content in files.items()]


def test_hash_of_small_files_equals_the_go_hash() -> None:
    assert directory_hash(entries(SIX_FILES)) == "pkm5hllkj1ougrurvd2rknux7vysonu0bklqxeqc38"


def test_empty_directory_has_the_hash_of_empty_input() -> None:
    assert directory_hash([]) == "47deqpj8hbsatimw5jceuqerkm5nmpjwzg3hsufu" == file_hash(b"")


@given(st.permutations(entries(SIX_FILES)))
def test_the_order_of_the_walk_does_not_matter(shuffled: list[tuple[str, str]]) -> None:
    assert directory_hash(shuffled) == directory_hash(entries(SIX_FILES))


def test_file_order_is_by_bytes_and_not_by_locale() -> None:
    # U+FF61 sorts before U+10000 as text of 16 bits, and after it nowhere: UTF-8 keeps the order of code points.
    names = ["\udcff", "é", "z", "\uff61", "\U00010000"]

    assert directory_hash([(name, DIGEST) for name in names]) == directory_hash(
        [(name, DIGEST) for name in names[::-1]]
    )


def test_file_name_with_a_newline_is_rejected() -> None:
    with pytest.raises(SpecError, match="rename the file"):
        directory_hash([("a\nb", DIGEST)])


@pytest.mark.parametrize(("raw", "clean"), [("h1:Ab/c+D=", "abcd"), ("AB", "ab"), ("", "")])
def test_cleaned_hash_is_valid_in_a_name(raw: str, clean: str) -> None:
    assert clean_hash(raw) == clean


def test_hashes_are_written_in_the_order_of_csctl_and_read_back() -> None:
    hashes = Hashes("hipstswjj1", "f2f9nag", "", "doi1jxn")

    assert list(hashes.document()) == ["clusterStack", "clusterAddonDir", "clusterAddonValues", "nodeImageDir"]
    assert parse_hashes(hashes.document()) == hashes
    assert "nodeImageDir" not in Hashes("a", "b").document()
    assert hashes.short == "hipstsw"


def test_missing_unknown_and_foreign_values_are_tolerated() -> None:
    assert parse_hashes({"clusterStack": 7, "other": "x", "clusterAddonDir": "b"}) == Hashes("", "b")


@given(JSON)
def test_document_that_is_not_a_mapping_is_rejected(document: object) -> None:
    if isinstance(document, dict):
        parse_hashes(document)
    else:
        with pytest.raises(InvalidHashes, match=r"hashes\.json"):
            parse_hashes(document)
